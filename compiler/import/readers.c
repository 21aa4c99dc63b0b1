// Readers: see readers.h.
#include "import/readers.h"

#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "import/keras_read.h"
#include "import/onnx_read.h"
#include "import/pytorch_read.h"

/// u64 length of the header | '{'; what the length promises need not be there.
static bool is_safetensors(const unsigned char *bytes, size_t size_bytes)
{
    enum { LENGTH_BYTES = 8, HEADER_BYTES_MAX = 100000000 };
    uint64_t length = 0;
    if (size_bytes <= LENGTH_BYTES || bytes[LENGTH_BYTES] != '{')
        return false;
    for (int i = 0; i < LENGTH_BYTES; i++)
        length |= (uint64_t)bytes[i] << (8 * i);
    return length > 0 && length <= HEADER_BYTES_MAX;
}

/// A varint at `*at`, which moves behind it. False where it runs on beyond the end.
static bool read_varint(const unsigned char *bytes, size_t size_bytes, size_t *at, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && *at < size_bytes; shift += 7) {
        const unsigned char byte = bytes[(*at)++];
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

/// Protobuf has no magic: a ModelProto is known by ir_version (1), then only fields that it has
/// (onnx.proto), up to its graph (7). What follows is the reader's business.
static bool is_onnx(const unsigned char *bytes, size_t size_bytes)
{
    enum { VARINT = 0, BYTES = 2, IR_VERSION = 1, MODEL_VERSION = 5, GRAPH = 7 };
    bool has_version = false;
    for (size_t at = 0; at < size_bytes;) {
        uint64_t tag, value;
        if (!read_varint(bytes, size_bytes, &at, &tag) ||
            !read_varint(bytes, size_bytes, &at, &value))
            return false;
        const bool is_number = tag >> 3 == IR_VERSION || tag >> 3 == MODEL_VERSION;
        const bool is_known = (tag >> 3 >= 1 && tag >> 3 <= 8) || tag >> 3 == 14 ||
                              tag >> 3 == 20 || tag >> 3 == 25 || tag >> 3 == 26;
        if (!is_known || (tag & 7) != (is_number ? VARINT : BYTES))
            return false;
        has_version |= tag >> 3 == IR_VERSION;
        if (tag >> 3 == GRAPH)
            return has_version;
        if (!is_number && value > size_bytes - at)
            return false;
        at += is_number ? 0 : value;
    }
    return false;
}

static const Imported *read_onnx(Arena *arena, Diags *diags, const char *path,
                                 const ImportOptions *options)
{
    (void)options; // none of them is for ONNX
    return onnx_read(arena, diags, path);
}

static const Imported *read_keras(Arena *arena, Diags *diags, const char *path,
                                  const ImportOptions *options)
{
    (void)options; // none of them is for Keras
    return keras_read(arena, diags, path);
}

const ImportReader import_readers[] = {
    {"PyTorch state_dict as safetensors", is_safetensors, pytorch_read, true},
    {"ONNX model", is_onnx, read_onnx, false},
    {"Keras model (.keras, .h5)", keras_recognises, read_keras, false},
    {0},
};

/// What formats that are not taken begin with, and the way out.
static const struct {
    const char *start;
    size_t length;
    const char *help;
} foreign[] = {
    {"PK\3\4", 4,
     "a zip archive; PyTorch's .pt is one, with pickled code inside: write the weights by "
     "safetensors.torch.save_file(model.state_dict(), \"model.safetensors\")"},
    {"\x80\2", 2,
     "pickled Python, which is code: write the weights by "
     "safetensors.torch.save_file(model.state_dict(), \"model.safetensors\")"},
    {"rnnc:", 5, "a spec of rnnc: compile it as it is"},
};

const ImportReader *import_reader_of(const unsigned char *bytes, size_t size_bytes)
{
    for (const ImportReader *reader = import_readers; reader->name; reader++)
        if (reader->recognises(bytes, size_bytes))
            return reader;
    return NULL;
}

const ImportReader *import_reader_of_file(Arena *arena, const char *path)
{
    const unsigned char *bytes = NULL;
    size_t size_bytes = 0;
    Diags *unheard = diags_create(arena);
    if (!file_map(unheard, path, (Span){0}, &bytes, &size_bytes))
        return NULL;
    return import_reader_of(bytes, size_bytes);
}

static const Imported *report_unknown(Arena *arena, Diags *diags, const char *path,
                                      const unsigned char *bytes, size_t size_bytes)
{
    Text formats = {.arena = arena};
    for (const ImportReader *reader = import_readers; reader->name; reader++)
        text_addf(&formats, "%s%s", reader == import_readers ? "" : ", ", reader->name);
    Diag *diag =
        diag_add(diags, DIAG_E0410, (Span){0}, "'%s' is of no kind that rnnc imports; it takes: %s",
                 path, text_string(&formats));
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (size_bytes >= foreign[i].length &&
            memcmp(bytes, foreign[i].start, foreign[i].length) == 0)
            diag_help(diag, "the file is %s", foreign[i].help);
    return NULL;
}

/// A reader that takes no options would drop them in silence.
static bool options_fit(Diags *diags, const ImportReader *reader, const ImportOptions *options)
{
    const struct {
        const char *name;
        bool given;
    } all[] = {{"prefix", options->prefix != NULL},
               {"order", options->order != NULL},
               {"config", options->config != NULL},
               {"nonlinearity", options->nonlinearity != NULL},
               {"batch-first", options->batch_first != IMPORT_UNSAID},
               {"return-sequences", options->return_sequences != IMPORT_UNSAID}};
    bool good = true;
    for (size_t i = 0; i < sizeof all / sizeof *all && !reader->takes_options; i++)
        if (all[i].given) {
            diag_add(
                diags, DIAG_E0413, (Span){0},
                "--%s has no meaning here: the file is of the kind %s, which says it all itself",
                all[i].name, reader->name);
            good = false;
        }
    return good;
}

const Imported *import_read(Arena *arena, Diags *diags, const char *path,
                            const ImportOptions *options)
{
    const unsigned char *bytes = NULL;
    size_t size_bytes = 0;
    if (!file_map(diags, path, (Span){0}, &bytes, &size_bytes))
        return NULL;
    const ImportReader *reader = import_reader_of(bytes, size_bytes);
    if (!reader)
        return report_unknown(arena, diags, path, bytes, size_bytes);
    return options_fit(diags, reader, options) ? reader->read(arena, diags, path, options) : NULL;
}
