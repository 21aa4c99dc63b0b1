// Vocabulary: see vocabulary.h. Characters are few, and texts from a command line short: they are
// found one by one.
#include "cli/vocabulary.h"

#include <inttypes.h>
#include <string.h>

#include "base/file.h"

/// Bytes of the UTF-8 character at `text`, of which `left` bytes are there; 0: it is none. Overlong
/// forms, surrogates and what is beyond U+10FFFF are none.
static int character_bytes(const unsigned char *text, size_t left)
{
    static const struct {
        unsigned char first, last, second_first, second_last;
        int bytes;
    } forms[] = {
        {0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const int bytes = forms[i].bytes;
        if (text[0] < forms[i].first || text[0] > forms[i].last || (size_t)bytes > left)
            continue;
        if (bytes > 1 && (text[1] < forms[i].second_first || text[1] > forms[i].second_last))
            continue;
        bool good = true;
        for (int k = 2; k < bytes; k++)
            good = good && text[k] >= 0x80 && text[k] <= 0xbf;
        if (good)
            return bytes;
    }
    return 0;
}

static int64_t find_token(const Vocabulary *vocabulary, const char *bytes, int count)
{
    for (int64_t i = 0; i < vocabulary->count; i++)
        if (vocabulary->tokens[i].count == count &&
            memcmp(vocabulary->tokens[i].bytes, bytes, (size_t)count) == 0)
            return i;
    return -1;
}

/// "'é' (U+00E9)"; of an unprintable one its number alone.
static const char *character_name(Arena *arena, const char *bytes, int count)
{
    const unsigned char *at = (const unsigned char *)bytes;
    unsigned point = count == 1 ? at[0] : at[0] & (0xffu >> (count + 1));
    for (int i = 1; i < count; i++)
        point = point << 6 | (at[i] & 0x3fu);
    return point < 32 || (point >= 127 && point < 160)
               ? arena_format(arena, "U+%04X", point)
               : arena_format(arena, "'%.*s' (U+%04X)", count, bytes, point);
}

static bool bytes_vocabulary(Arena *arena, Diags *diags, int64_t count, Vocabulary *out)
{
    enum { BYTES = 256 };
    if (count != BYTES) {
        Diag *diag = diag_add(diags, DIAG_E0813, (Span){0},
                              "the model has %" PRId64 " tokens, which are no bytes", count);
        diag_help(diag, "give the characters that they stand for: --vocab FILE");
        return false;
    }
    char *bytes = arena_alloc(arena, BYTES);
    out->tokens = ARENA_ARRAY(arena, TokenText, BYTES);
    for (int i = 0; i < BYTES; i++) {
        bytes[i] = (char)(unsigned char)i;
        out->tokens[i] = (TokenText){bytes + i, 1};
    }
    out->count = BYTES;
    return true;
}

/// Adds the characters of the file one by one.
static bool add_characters(Arena *arena, Diags *diags, const unsigned char *bytes, size_t size,
                           int64_t count, Vocabulary *out)
{
    for (size_t at = 0; at < size;) {
        const int taken = character_bytes(bytes + at, size - at);
        const char *text = (const char *)bytes + at;
        if (taken == 0) {
            diag_add(diags, DIAG_E0813, (Span){0}, "'%s': byte %zu (0x%02x) is no UTF-8", out->path,
                     at + 1, bytes[at]);
            return false;
        }
        const bool is_final = at + (size_t)taken == size && *text == '\n' && out->count == count;
        const int64_t same = is_final ? -1 : find_token(out, text, taken);
        if (same >= 0) {
            diag_add(diags, DIAG_E0813, (Span){0},
                     "'%s': %s is there twice, as characters %" PRId64 " and %" PRId64, out->path,
                     character_name(arena, text, taken), same + 1, out->count + 1);
            return false;
        }
        const TokenText token = {text, taken};
        if (!is_final)
            ARENA_PUSH(arena, out->tokens, out->count, token);
        at += (size_t)taken;
    }
    return true;
}

bool vocabulary_read(Arena *arena, Diags *diags, const char *path, int64_t count, Vocabulary *out)
{
    *out = (Vocabulary){.path = path};
    if (!path)
        return bytes_vocabulary(arena, diags, count, out);
    const unsigned char *bytes;
    size_t size;
    if (!file_map(diags, path, (Span){0}, &bytes, &size) ||
        !add_characters(arena, diags, bytes, size, count, out))
        return false;
    if (out->count == count)
        return true;
    Diag *diag = diag_add(diags, DIAG_E0813, (Span){0},
                          "'%s' has %" PRId64 " characters, but the model has %" PRId64 " tokens",
                          path, out->count, count);
    diag_help(diag, "the file holds each token's character, in order, and nothing else; a token "
                    "that stands for no character can be U+FFFD there");
    return false;
}

bool vocabulary_tokens(Arena *arena, Diags *diags, const Vocabulary *vocabulary, const char *what,
                       const char *text, size_t bytes, Tokens *out)
{
    *out = (Tokens){.items = ARENA_ARRAY(arena, int32_t, bytes + 1)};
    for (size_t at = 0; at < bytes;) {
        int taken = 1;
        if (vocabulary->path)
            taken = character_bytes((const unsigned char *)text + at, bytes - at);
        const int64_t token = taken ? find_token(vocabulary, text + at, taken) : -1;
        if (token < 0) {
            const char *name = taken ? character_name(arena, text + at, taken)
                                     : arena_format(arena, "byte 0x%02x, which is no UTF-8,",
                                                    (unsigned)(unsigned char)text[at]);
            diag_add(diags, DIAG_E0814, (Span){0},
                     "%s: %s at character %" PRId64 " is not in the vocabulary", what, name,
                     out->count + 1);
            return false;
        }
        out->items[out->count++] = (int32_t)token;
        at += (size_t)taken;
    }
    return true;
}
