// A recurrent layer's configuration, as keys of a spec.
#ifndef RNNC_IMPORT_KERAS_CELL_H
#define RNNC_IMPORT_KERAS_CELL_H

#include "import/keras_weights.h"

enum { KERAS_SETTINGS_MAX = 16 };

typedef struct {
    const char *key, *value, *comment;
} KerasSetting;

typedef struct {
    KerasCell cell;
    bool is_stateful, return_sequences, go_backwards;
    KerasSetting settings[KERAS_SETTINGS_MAX]; ///< of the spec, without `cell`
    int setting_count;
} KerasCellLayer;

/// Whether a class is a recurrent layer: LSTM, GRU, SimpleRNN, CuDNNLSTM, CuDNNGRU, or RNN of one
/// of their cells.
bool keras_is_cell(const char *class_name);

/// Reads the configuration `config` of the class `class_name`, which is `layer` itself or stands
/// within it. Under Bidirectional (`part` not KERAS_CELL) the direction and the output of masked
/// steps are the wrapper's. Adds E0461 and returns false where it cannot be taken.
bool keras_read_cell(KerasFile *file, const KerasLayer *layer, const char *class_name,
                     const json_t *config, KerasPart part, KerasCellLayer *out);

/// Refuses keys of `config` that are neither in `words`, a list between blanks, nor without
/// meaning for a result; null and false are never refused.
bool keras_check_keys(const KerasFile *file, const KerasLayer *layer, const json_t *config,
                      const char *words);

/// A size from 1 to 2^31 - 1 of a configuration; 0, with E0461, where it is none.
int64_t keras_size(const KerasFile *file, const KerasLayer *layer, const json_t *config,
                   const char *key);

/// A rate from 0 to below 1, 0 where there is none; -1, with E0461, where it is another value.
double keras_rate(const KerasFile *file, const KerasLayer *layer, const json_t *config,
                  const char *key);

#endif
