// Network: a small model made in memory with seeded random weights. It can be written as a spec and
// a safetensors file for the compiler, and run by the float64 reference. The weights follow from
// its name alone, so that a machine without compiler and files recomputes what a module holds.
#ifndef RNNC_CONFORM_NETWORK_H
#define RNNC_CONFORM_NETWORK_H

#include <stddef.h>

#include "base/arena.h"
#include "base/diag.h"
#include "base/text.h"
#include "conform/reference.h"

enum {
    NETWORK_LAYERS_MAX = 6,
    NETWORK_WEIGHTS_MAX = 12,
    NETWORK_STATES_MAX = 24,
    NETWORK_OUTPUTS_MAX = 2
};

typedef enum {
    NETWORK_CELL,
    NETWORK_EMBEDDING,
    NETWORK_DENSE,
    NETWORK_DROPOUT,
    NETWORK_ACTIVATION,
    NETWORK_MASKING
} NetworkKind;

typedef enum {
    NETWORK_FORWARD,
    NETWORK_REVERSE,      ///< last step first, outputs in time order
    NETWORK_GO_BACKWARDS, ///< last step first, outputs in processing order
    NETWORK_BIDIRECTIONAL
} NetworkDirection;

typedef enum {
    NETWORK_CONCAT,
    NETWORK_SUM,
    NETWORK_MUL,
    NETWORK_AVE,
    NETWORK_NONE ///< two outputs, y/fw and y/bw
} NetworkMerge;

/// What a cell layer may be asked to do; 0 and NULL names are the defaults.
typedef struct {
    const char *cell;
    int64_t units, projection, heads;
    int depth;                          ///< of a stack of equal layers, named "l0/0" and so on
    ReferenceActivation activations[3]; ///< activation, recurrent_activation, output_activation
    double clip;
    bool input_forget;
    double zoneout[REFERENCE_STATES_MAX];
    double dropout, recurrent_dropout;
    NetworkDirection direction;
    NetworkMerge merge;
    int zero_output_for_mask; ///< 1: true, -1: false, 0: not given
    bool stateful;
} NetworkCell;

typedef struct {
    const char *name; ///< "l0/W", "l0/fw/W"
    int64_t rows, columns;
    float *data;
} NetworkWeight;

typedef struct {
    NetworkKind kind;
    const char *name; ///< "l0"; in a stack "l0/0"
    const char *base; ///< "l0"
    int stack_index;
    int64_t inputs, outputs;
    NetworkCell options[2];         ///< cells: what was asked; the second is the backward layer's
    ReferenceCell cells[2];         ///< their weights point into `weights`
    int direction_count;            ///< 2: bidirectional
    bool own_backward;              ///< the backward layer differs from the forward one
    ReferenceActivation activation; ///< dense, activation
    double rate, mask_value;        ///< dropout; masking
    bool mask_zero;                 ///< embedding
    int dropout_index[2];           ///< number among those that draw, by direction
    NetworkWeight weights[NETWORK_WEIGHTS_MAX];
    int weight_count;
} NetworkLayer;

/// A state of the model: "l0/h", "l0/bw/c" [B, size].
typedef struct {
    const char *name;
    int layer, direction, index; ///< of the layer, 0 or 1, of the cell
    int64_t size;
} NetworkState;

typedef struct {
    const char *name;      ///< file name without ending; seeds the weights
    const char *label;     ///< row of the summary: the cell, or "stack"
    const char *precision; ///< "float32", ...
    int64_t inputs;        ///< features, or vocabulary where the first layer is an embedding
    int64_t batch;         ///< 0: any
    bool sequences;        ///< of the last cell; false: y is [B, O]
    bool bias;
    bool time_major;        ///< x and y of the module are [T, B, ...]
    bool drops;             ///< dropout_at_inference; set before layers are added
    bool trains;            ///< see network_train
    bool own_mask;          ///< a layer masks, so that lengths cannot be given
    double recurrent_scale; ///< of R; 1 as drawn
    NetworkLayer layers[NETWORK_LAYERS_MAX];
    int layer_count, dropout_count;
    NetworkState states[NETWORK_STATES_MAX];
    int state_count;
} Network;

/// Appends a layer. Activations with a NULL name are the defaults.
void network_add_cell(Arena *arena, Network *network, const char *cell, int64_t units,
                      int64_t projection, const ReferenceActivation activations[3]);

/// A cell layer, or a stack of them, with all its options. A bidirectional one has `backward` for
/// its second direction, of which only the cell's own options count; NULL: as forward.
void network_add_recurrent(Arena *arena, Network *network, const NetworkCell *options,
                           const NetworkCell *backward);
void network_add_embedding(Arena *arena, Network *network, int64_t width, bool mask_zero);
void network_add_dense(Arena *arena, Network *network, int64_t outputs,
                       ReferenceActivation activation);
void network_add_dropout(Arena *arena, Network *network, double rate);
void network_add_activation(Arena *arena, Network *network, ReferenceActivation activation);
void network_add_masking(Arena *arena, Network *network, double value);

/// Makes it a model for training, in which dropout and zoneout draw; call it after the last layer.
void network_train(Network *network);

/// Draws all weights; call it after the last layer.
void network_draw(Arena *arena, Network *network);

bool network_tokens(const Network *network);

/// Whether cell layer `l` returns its sequence: all do but, without `sequences`, the last.
bool network_layer_sequences(const Network *network, int l);

/// Outputs: 2 (y/fw and y/bw) where the last layer does not merge its directions, else 1 (y).
int network_output_count(const Network *network);
const char *network_output_name(const Network *network, int output);
int64_t network_output_width(const Network *network, int output);

/// Elements of an output for B rows and T steps.
int64_t network_output_elems(const Network *network, int output, int64_t batch, int64_t timesteps);

/// The spec's text; its weights are <name>.safetensors in `convention`.
void network_print(const Network *network, const char *convention, Text *out);

/// Writes it to `folder`/<name>.yaml. Returns the path, NULL on a fault.
const char *network_write(Arena *arena, Diags *diags, const Network *network, const char *folder,
                          const char *convention);

/// Writes the weights, canonical, as `folder`/<name>.safetensors.
bool network_write_weights(Arena *arena, Diags *diags, const Network *network, const char *folder);

typedef enum { SAMPLE_PLAIN, SAMPLE_MASK, SAMPLE_LENGTHS } SampleMasking;

/// What a sample is drawn for.
typedef struct {
    int64_t batch, timesteps;
    bool has_initial; ///< false: the start values of the cells hold
    SampleMasking masking;
    bool strided; ///< the runner leaves gaps between rows and steps of x and y
} SampleShape;

/// One set of inputs and what the model must answer, all batch-major: `x` [B, T, I] float32 or
/// int32 tokens [B, T], `y` [B, T, O] or [B, O] for each output, states [B, size].
typedef struct {
    SampleShape shape;
    uint64_t seed; ///< of dropout
    void *x;
    double *input;    ///< x in float64, but for steps that masks leave out; NULL: tokens
    uint8_t *mask;    ///< [B, T]; NULL unless SAMPLE_MASK
    int32_t *lengths; ///< [B]; NULL unless SAMPLE_LENGTHS
    float *initial[NETWORK_STATES_MAX];
    double *y[NETWORK_OUTPUTS_MAX], *final[NETWORK_STATES_MAX];
} Sample;

/// Draws a sample from the network's name and the shape, and computes its answer. The memory comes
/// from malloc (samples are made on several threads) and is freed by sample_free.
void sample_make(const Network *network, const SampleShape *shape, Sample *out);

/// Computes the answer again, after a change of weights, `input` or `initial`.
void sample_answer(const Network *network, Sample *sample);
void sample_free(const Network *network, Sample *sample);

/// A generator of its own: splitmix64, uniform in (low, high).
double random_uniform(uint64_t *state, double low, double high);
uint64_t random_seed(const char *name);

#endif
