// Fuzz targets of the HDF5 and Keras readers: see targets.h. A model that is taken has to print as
// a spec that rnnc itself reads. Valid files to start from are in corpus/hdf5 and corpus/keras
// (make_keras_corpus.py).
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "import/hdf5.h"
#include "import/keras_read.h"
#include "targets.h"

/// Reads every dataset and the texts of an attribute.
bool fuzz_run_hdf5(const unsigned char *bytes, size_t size_bytes)
{
    Arena *arena = arena_create();
    Diags *diags = diags_create(arena);
    Hdf5 *file = hdf5_parse(arena, diags, "fuzz.h5", (Span){0}, bytes, size_bytes);
    fuzz_require((file != NULL) == (diags_error_count(diags) == 0),
                 "no result means an error, and the reverse");
    int count = 0, texts = 0;
    const Hdf5Object *objects = file ? hdf5_objects(file, &count) : NULL;
    for (int i = 0; i < count; i++) {
        const size_t errors = diags_error_count(diags);
        if (objects[i].is_dataset)
            fuzz_require(!hdf5_floats(file, &objects[i]) == (diags_error_count(diags) > errors),
                         "no values mean an error, and the reverse");
        const char *const *names = hdf5_texts(file, &objects[i], "names", &texts);
        for (int at = 0; names && at < texts; at++)
            fuzz_require(strlen(names[at]) <= size_bytes, "a text is no longer than its file");
    }
    fuzz_print_diags(diags);
    arena_destroy(arena);
    return file != NULL;
}

bool fuzz_run_keras(const unsigned char *bytes, size_t size_bytes)
{
    Arena *arena = arena_create();
    Diags *diags = diags_create(arena);
    const Imported *model = keras_parse(arena, diags, "fuzz.h5", bytes, size_bytes);
    fuzz_check_imported(arena, diags, model);
    fuzz_print_diags(diags);
    arena_destroy(arena);
    return model != NULL;
}

/// A file of the corpus.
static unsigned char *read_seed(const char *name, size_t *out_size_bytes)
{
    Arena *arena = arena_create();
    Diags *diags = diags_create(arena);
    const unsigned char *bytes = NULL;
    fuzz_require(file_map(diags, arena_format(arena, RNNC_FUZZ_CORPUS "/%s", name), (Span){0},
                          &bytes, out_size_bytes),
                 "the corpus is there");
    arena_destroy(arena);
    unsigned char *seed = malloc(*out_size_bytes);
    fuzz_require(seed != NULL, "there is memory");
    memcpy(seed, bytes, *out_size_bytes);
    return seed;
}

unsigned char *fuzz_make_hdf5(size_t *out_size_bytes)
{
    return read_seed("hdf5/chunks.h5", out_size_bytes);
}

unsigned char *fuzz_make_hdf5_latest(size_t *out_size_bytes)
{
    return read_seed("hdf5/latest.h5", out_size_bytes);
}

unsigned char *fuzz_make_keras(size_t *out_size_bytes)
{
    return read_seed("keras/legacy.h5", out_size_bytes);
}

unsigned char *fuzz_make_keras_archive(size_t *out_size_bytes)
{
    return read_seed("keras/new.keras", out_size_bytes);
}
