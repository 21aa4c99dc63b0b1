// Filler: what the conventions of weight files share: finding a tensor by name, checking its shape,
// converting it, moving gates to the canonical order, and the words of every fault. Knows no
// convention's names.
#ifndef RNNC_IMPORT_WEIGHTS_FILLER_H
#define RNNC_IMPORT_WEIGHTS_FILLER_H

#include "import/weights.h"

typedef struct {
    Arena *arena;
    Diags *diags;
    Span span;
    const Safetensors *file;
    const char *prefix; ///< "" for none
    bool *used;         ///< one a tensor of the file
    float *values;      ///< of the tensor converted last
    int64_t value_count;
} Filler;

/// The gates of a cell in the order of a file's convention, one letter each.
typedef struct {
    const char *cell;
    const char *gates;     ///< of W, R and the biases
    const char *peepholes; ///< of p; NULL: the convention has none
} GateOrder;

/// The tensor of that whole name, marked as used; NULL where the file has none.
const SafetensorsTensor *filler_find(const Filler *filler, const char *name);
void filler_mark_used(const Filler *filler, const SafetensorsTensor *tensor);

/// Adds E0405 for `name`, or `also` (NULL: none), with names of the file that are near.
Diag *filler_report_missing(const Filler *filler, const WantedLayer *layer, const char *name,
                            const char *also);

/// Adds E0408: `what` of this layer has no place in `convention`.
void filler_report_unknown(const Filler *filler, const WantedLayer *layer, const char *convention,
                           const char *what);

/// Whether the tensor has this shape; else adds E0406 with both shapes and with `advice` or, where
/// that is NULL, with what the found shape looks like.
bool filler_has_shape(const Filler *filler, const WantedLayer *layer,
                      const SafetensorsTensor *tensor, const int64_t *wanted, int dim_count,
                      const char *advice);

/// Converts the elements to `out`, which holds them all; adds E0407 where the dtype is none of
/// weights.
bool filler_convert(const Filler *filler, const SafetensorsTensor *tensor, float *out);

/// The elements as float32, until the next call; NULL and E0407 where the dtype is none of weights.
const float *filler_values(Filler *filler, const SafetensorsTensor *tensor);

/// Checks the shape of `tensor` ([rows, columns], or [rows] for a vector) and converts it.
bool filler_take(const Filler *filler, const WantedLayer *layer, const SafetensorsTensor *tensor,
                 const struct WantedTensor *want, float *out);

/// The tensor of `kind` ("W") that the layer wants, or NULL.
const struct WantedTensor *wanted_tensor(const WantedLayer *layer, const char *kind);
bool wanted_is_vector(const struct WantedTensor *want);

/// The order of the layer's cell in `orders` (`count` rows), where all its gates are known by name
/// and R is whole; else adds E0408 and returns NULL.
const GateOrder *filler_gate_order(const Filler *filler, const WantedLayer *layer,
                                   const char *convention, const GateOrder *orders, int count);

/// Copies gate blocks of [units, columns] from the file's order to the canonical one.
void wanted_place_gates(const struct WantedTensor *want, const char *gates, const float *values);

/// b = input + recurrent bias, both of `gates`; of the gates of `rb` (NULL: none) the recurrent
/// bias goes there instead.
void wanted_place_biases(const struct WantedTensor *b, const struct WantedTensor *rb,
                         const char *gates, const float *input, const float *recurrent);

bool weights_fill_pytorch(Filler *filler, const WantedLayer *layer);
bool weights_fill_keras(Filler *filler, const WantedLayer *layer);
bool weights_fill_onnx(Filler *filler, const WantedLayer *layer);

#endif
