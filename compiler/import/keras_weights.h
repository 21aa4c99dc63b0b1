// A Keras layer's variables in either store, and their way to canonical tensors.
#ifndef RNNC_IMPORT_KERAS_WEIGHTS_H
#define RNNC_IMPORT_KERAS_WEIGHTS_H

#include "import/keras_file.h"

/// Which of a layer's variables.
typedef enum {
    KERAS_OWN,     ///< Dense, Embedding
    KERAS_CELL,    ///< LSTM, GRU, SimpleRNN
    KERAS_FORWARD, ///< the two layers of a Bidirectional
    KERAS_BACKWARD,
    KERAS_INNER ///< the layer of a TimeDistributed
} KerasPart;

/// A recurrent layer's numbers, as its configuration has them.
typedef struct {
    const char *cell; ///< "lstm", "gru" or "rnn"
    int gates;
    int64_t units;
    bool use_bias, reset_after;
} KerasCell;

/// The shape of a variable; dims beyond the second are not kept.
enum { KERAS_SHAPES_MAX = 64 };
typedef struct {
    int dim_count;
    int64_t dims[2];
} KerasShape;

/// The shapes of a layer's variables; their number, or -1 with E0462 where one is missing.
int keras_shapes(KerasFile *file, const KerasLayer *layer, KerasPart part,
                 KerasShape shapes[KERAS_SHAPES_MAX]);

/// Whether the layer's GRU bias in the file is of two rows, as with reset_after; for files that are
/// older than the option. `layer` as below.
bool keras_bias_has_rows(KerasFile *file, const KerasLayer *layer, KerasPart part);

/// Takes the tensors of a recurrent layer that reads file->width values to `to`, their kinds behind
/// `side` ("", "fw/" or "bw/"). In a legacy store the variables of a backward layer stand behind
/// `skip` others. Adds E0462 and returns false where they do not fit.
bool keras_take_cell(KerasFile *file, const KerasLayer *layer, KerasPart part, int skip,
                     const KerasCell *cell, ImportedLayer *to, const char *side);

/// The number of variables of a recurrent layer.
int keras_cell_variables(const KerasCell *cell);

/// Takes W [O, I] and b of a dense layer, or E [V, E] of an embedding.
bool keras_take_dense(KerasFile *file, const KerasLayer *layer, KerasPart part, int64_t units,
                      bool use_bias, ImportedLayer *to);
bool keras_take_embedding(KerasFile *file, const KerasLayer *layer, int64_t tokens, int64_t units,
                          ImportedLayer *to);

/// The width that the layer reads, from the first variable's rows; 0, with E0462, where there is
/// none.
int64_t keras_input_width(KerasFile *file, const KerasLayer *layer, KerasPart part);

/// What a stateful layer has behind its `weight_count` weights: states, which are not taken. Notes
/// where they are not 0.
void keras_drop_states(KerasFile *file, const KerasLayer *layer, int weight_count);

/// Refuses weights of the store that no layer has taken.
bool keras_check_all_taken(KerasFile *file);

#endif
