// Readers: the table of formats that `rnnc import` takes. What a file is, its content decides: each
// reader is asked whether the bytes are its format, the first that says so reads the file. Adding a
// format is one row in readers.c.
#ifndef RNNC_IMPORT_READERS_H
#define RNNC_IMPORT_READERS_H

#include "import/imported.h"

/// Something that may be left unsaid.
typedef enum { IMPORT_UNSAID, IMPORT_FALSE, IMPORT_TRUE } ImportSwitch;

/// What the caller says of a file that does not say it itself; all NULL or IMPORT_UNSAID: nothing.
typedef struct {
    const char *prefix;       ///< names of tensors begin with it; others are not read
    const char *order;        ///< "emb,rnn,relu,fc": modules and activations, from input to output
    const char *config;       ///< path of a JSON with the model's arguments
    const char *nonlinearity; ///< "tanh" or "relu"
    ImportSwitch batch_first, return_sequences;
} ImportOptions;

typedef struct {
    const char *name; ///< "PyTorch state_dict as safetensors"
    bool (*recognises)(const unsigned char *bytes, size_t size_bytes);
    const Imported *(*read)(Arena *arena, Diags *diags, const char *path,
                            const ImportOptions *options);
    bool takes_options; ///< false: each that is given is an error
} ImportReader;

/// The rows; ends with a NULL name.
extern const ImportReader import_readers[];

/// The reader whose format the bytes, or the file, are of; NULL: none, or the file cannot be read.
const ImportReader *import_reader_of(const unsigned char *bytes, size_t size_bytes);
const ImportReader *import_reader_of_file(Arena *arena, const char *path);

/// Reads a model of any of the formats. Adds E0001, E0410 with the list of formats, or the reader's
/// faults, and returns NULL.
const Imported *import_read(Arena *arena, Diags *diags, const char *path,
                            const ImportOptions *options);

#endif
