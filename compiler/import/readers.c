// Readers: see readers.h.
#include "import/readers.h"

#include <string.h>

#include "base/file.h"
#include "base/text.h"
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

const ImportReader import_readers[] = {
    {"PyTorch state_dict as safetensors", is_safetensors, pytorch_read, true},
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
            diag_add(diags, DIAG_E0413, (Span){0},
                     "--%s has no meaning here: the file is a %s, which says it all itself",
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
