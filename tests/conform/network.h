// Network: a small model made in memory with seeded random weights. It can be written as a spec and
// a safetensors file for the compiler, and run by the float64 reference. The weights follow from
// its name alone, so that a machine without compiler and files recomputes what a module holds.
#ifndef RNNC_CONFORM_NETWORK_H
#define RNNC_CONFORM_NETWORK_H

#include <stddef.h>

#include "base/arena.h"
#include "base/diag.h"
#include "conform/reference.h"

enum { NETWORK_LAYERS_MAX = 6, NETWORK_WEIGHTS_MAX = 6, NETWORK_STATES_MAX = 8 };

typedef enum { NETWORK_CELL, NETWORK_EMBEDDING, NETWORK_DENSE } NetworkKind;

typedef struct {
    const char *name; ///< "l0/W"
    int64_t rows, columns;
    float *data;
} NetworkWeight;

typedef struct {
    NetworkKind kind;
    const char *name; ///< "l0"
    int64_t inputs, outputs;
    ReferenceCell cell;             ///< cells; its weights point into `weights`
    ReferenceActivation activation; ///< dense
    NetworkWeight weights[NETWORK_WEIGHTS_MAX];
    int weight_count;
} NetworkLayer;

/// A state of the model: "l0/h" [B, size].
typedef struct {
    const char *name;
    int layer, index; ///< of the layer, of the cell
    int64_t size;
} NetworkState;

typedef struct {
    const char *name;      ///< file name without ending; seeds the weights
    const char *label;     ///< row of the summary: the cell, or "stack"
    const char *precision; ///< "float32", ...
    int64_t inputs;        ///< features, or vocabulary where the first layer is an embedding
    bool sequences;        ///< of the last cell; false: y is [B, O]
    bool bias;
    double recurrent_scale; ///< of R; 1 as drawn
    NetworkLayer layers[NETWORK_LAYERS_MAX];
    int layer_count;
    NetworkState states[NETWORK_STATES_MAX];
    int state_count;
} Network;

/// Appends a layer. Activations with a NULL name are the defaults.
void network_add_cell(Arena *arena, Network *network, const char *cell, int64_t units,
                      int64_t projection, const ReferenceActivation activations[3]);
void network_add_embedding(Arena *arena, Network *network, int64_t width);
void network_add_dense(Arena *arena, Network *network, int64_t outputs,
                       ReferenceActivation activation);

/// Draws all weights; call it after the last layer.
void network_draw(Arena *arena, Network *network);

bool network_tokens(const Network *network);
int64_t network_outputs(const Network *network);

/// Elements of y for B rows and T steps.
int64_t network_output_count(const Network *network, int64_t batch, int64_t timesteps);

/// Writes `folder`/<name>.yaml, whose weights are <name>.safetensors in `convention`. Returns its
/// path, NULL on a fault.
const char *network_write(Arena *arena, Diags *diags, const Network *network, const char *folder,
                          const char *convention);

/// Writes the weights, canonical, as `folder`/<name>.safetensors.
bool network_write_weights(Arena *arena, Diags *diags, const Network *network, const char *folder);

/// One set of inputs and what the model must answer. `x` [B, T, I] float32 or int32 tokens [B, T];
/// `initial` NULL: the start values of the cells hold.
typedef struct {
    int64_t batch, timesteps;
    void *x;
    size_t x_bytes;
    float *initial[NETWORK_STATES_MAX]; ///< [B, size]
    bool has_initial;
    double *y, *final[NETWORK_STATES_MAX];
} Sample;

/// Draws a sample from the network's name and the sizes, and computes its answer. The memory comes
/// from malloc (samples are made on several threads) and is freed by sample_free.
void sample_make(const Network *network, int64_t batch, int64_t timesteps, bool has_initial,
                 Sample *out);
void sample_free(const Network *network, Sample *sample);

/// A generator of its own: splitmix64, uniform in (low, high).
double random_uniform(uint64_t *state, double low, double high);
uint64_t random_seed(const char *name);

#endif
