// Vocabulary: which characters the tokens of a model are. A file of UTF-8 has them in token order
// and nothing else; without a file tokens are bytes.
#ifndef RNNC_CLI_VOCABULARY_H
#define RNNC_CLI_VOCABULARY_H

#include <stdint.h>

#include "base/diag.h"

/// The text of one token, in the arena.
typedef struct {
    const char *bytes;
    int count;
} TokenText;

typedef struct {
    const char *path; ///< NULL: tokens are bytes
    TokenText *tokens;
    int64_t count;
} Vocabulary;

/// Tokens of a text.
typedef struct {
    int32_t *items;
    int64_t count;
} Tokens;

/// Reads a vocabulary of `count` tokens; NULL `path`: the 256 bytes. Adds E0001, or E0813 where it
/// is no UTF-8, has a character twice or another number of characters, and returns false. A newline
/// at the end may be one more than are needed.
bool vocabulary_read(Arena *arena, Diags *diags, const char *path, int64_t count, Vocabulary *out);

/// The tokens of `text`; `what` ("the prompt") is for messages. Adds E0814, which names the
/// character and its place, and returns false where the vocabulary lacks one.
bool vocabulary_tokens(Arena *arena, Diags *diags, const Vocabulary *vocabulary, const char *what,
                       const char *text, size_t bytes, Tokens *out);

#endif
