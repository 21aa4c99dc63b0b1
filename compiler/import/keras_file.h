// What the parts of the Keras reader share: the file while it is read, a layer of its configuration
// and how faults are reported. `keras_refuse` is the one way out for what cannot be taken.
#ifndef RNNC_IMPORT_KERAS_FILE_H
#define RNNC_IMPORT_KERAS_FILE_H

#include <jansson.h>

#include "base/text.h"
#include "import/hdf5.h"
#include "import/imported.h"

enum { KERAS_LAYERS_MAX = 1024 };

/// One layer of the configuration.
typedef struct {
    const char *class_name;    ///< "LSTM"
    const char *name;          ///< "lstm_1", as the file has it
    const json_t *config;      ///< an object
    const json_t *description; ///< the object that holds class_name and config
    int same_before;           ///< how many layers before it have its class
} KerasLayer;

/// A model of layers of which each reads the one before.
typedef struct {
    KerasLayer *layers;
    int count;
    const json_t *input_shape; ///< of a Sequential model without InputLayer; or NULL
    int output_count;          ///< above 1: the last layer gives several, as states
} KerasModel;

typedef struct {
    Arena *arena;
    Diags *diags;
    const char *path;
    int version;          ///< Keras' major version, 2 or 3
    Hdf5 *weights;        ///< the file of weights
    const char *store;    ///< where it keeps layers: "layers/", "model_weights/" or ""
    bool is_legacy;       ///< groups by layers' names, with the attribute weight_names
    bool *is_taken;       ///< by object of `weights`
    Imported *model;      ///< what is made
    ImportedLayer *last;  ///< the layer added last
    Text last_note, note; ///< remarks on it, and on the next
    int output_count;     ///< of the layer that is being taken
    int64_t width;        ///< of the values that the next layer reads; 0: not known yet
    const char **names;   ///< taken in the spec
    int name_count;
} KerasFile;

/// Adds `code`, with the file's name before; returns its handle.
Diag *keras_report(const KerasFile *file, DiagCode code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/// Adds E0461 for a layer: "'m.keras': layer 'x' (LSTM): ..." and `help` (NULL: none). False.
bool keras_refuse(const KerasFile *file, const KerasLayer *layer, const char *help,
                  const char *format, ...) __attribute__((format(printf, 4, 5)));

/// A remark for model.yaml above the layer that is added next, or the last where there is none.
void keras_note(KerasFile *file, const char *format, ...) __attribute__((format(printf, 2, 3)));

/// A string of an object, or NULL.
const char *keras_string(const json_t *object, const char *key);

/// An activation as a spec has it, "tanh" or "{leaky_relu: 0.1}", by the definition of the file's
/// version; NULL, with E0461, where there is none. `value` is a name, or a layer or function as an
/// object; NULL or null: "linear".
const char *keras_activation(const KerasFile *file, const KerasLayer *layer, const json_t *value);

/// The same of a layer that is an activation (LeakyReLU, ReLU, ...); NULL without a diagnostic
/// where `class_name` is none.
const char *keras_activation_layer(const KerasFile *file, const char *class_name,
                                   const json_t *config);

#endif
