// OnnxReader: what the operators of an ONNX graph share while it is read: the values by name, the
// layers found so far, and the attributes of a node. The nodes are taken in the order of the file,
// and each value is known as one of
//
//     constant   weights, and the integers that exporters compute shapes with
//     fill       a number in every element, of a shape that may be open: initial states of zeros
//     flow       data of a run: the model's input on its way through the layers, or a final state
//     stack      final states of several layers, one behind another
//
// A flow's shape is tracked by atoms: each axis is a product of atoms, and an atom is one axis of
// the graph's input, the two directions, or the features of a layer. So Transpose, Reshape and
// their like move atoms, and a layer sees whether it is given [T, B, features].
#ifndef RNNC_IMPORT_ONNX_GRAPH_H
#define RNNC_IMPORT_ONNX_GRAPH_H

#include "import/onnx_read.h"
#include "import/onnx_tensor.h"

enum { ONNX_SYMBOLS_MAX = 8, ONNX_ATOMS_MAX = 6, ONNX_STACK_MAX = 64 };

/// `factor` times the product of sizes that the file leaves open, each to its power.
typedef struct {
    int64_t factor;
    int8_t powers[ONNX_SYMBOLS_MAX];
} OnnxSize;

typedef enum { ATOM_AXIS, ATOM_DIRECTION, ATOM_FEATURE } OnnxAtomKind;

typedef struct {
    OnnxAtomKind kind;
    int axis; ///< ATOM_AXIS: of the graph's input
    OnnxSize size;
} OnnxAtom;

/// Slowest atom first; none: an axis of size 1.
typedef struct {
    int count;
    OnnxAtom atoms[ONNX_ATOMS_MAX];
} OnnxAxis;

typedef struct OnnxLayer OnnxLayer;

typedef enum { FLOW_INPUT, FLOW_SEQUENCE, FLOW_FINAL } OnnxFlowSource;

typedef struct {
    OnnxFlowSource source;
    int input;         ///< FLOW_INPUT: which input of the graph
    OnnxLayer *layer;  ///< the recurrent layer that it comes from; NULL before the first
    char state;        ///< FLOW_FINAL: 'h' or 'c'
    int version;       ///< of the chain; a flow of an older one has been continued elsewhere
    int direction;     ///< 0 or 1; -1: whatever the layer has
    int64_t row, rows; ///< FLOW_INPUT: a part of its axis 0; rows 0: all
    bool is_integer;
    int rank;
    OnnxAxis axes[ONNX_DIMS_MAX];
} OnnxFlow;

typedef enum { VALUE_BROKEN, VALUE_CONSTANT, VALUE_FILL, VALUE_FLOW, VALUE_STACK } OnnxValueKind;

typedef struct OnnxValue {
    OnnxValueKind kind; ///< VALUE_BROKEN: a fault was reported where it should have been made
    const char *name;
    int dim_count; ///< of a constant
    int64_t dims[ONNX_DIMS_MAX], elems;
    const float *floats;   ///< of a constant: these or `sizes`
    const OnnxSize *sizes; ///< integers and booleans
    float fill;
    OnnxFlow flow;
    const OnnxFlow *parts; ///< of a stack: part_count of them
    int part_count;
    bool is_read;           ///< by a node
    struct OnnxValue *next; ///< in the table of names
} OnnxValue;

/// One direction of a recurrent layer, or a dense or embedding layer's weights.
typedef struct {
    const char *keys; ///< what its cell needs beyond cell and units: ", clip: 0.5"; "" for nothing
    const float *W, *R, *b, *rb, *p;
} OnnxDirection;

typedef enum {
    LAYER_RECURRENT,
    LAYER_DENSE,
    LAYER_EMBEDDING,
    LAYER_ACTIVATION,
    LAYER_DROPOUT
} OnnxLayerKind;

struct OnnxLayer {
    OnnxLayerKind kind;
    OnnxLayer *next;
    const char *name, *note;
    const char *cell;      ///< "lstm"
    int64_t inputs, units; ///< of an embedding: vocabulary and width
    int gates, peepholes;  ///< in units of H
    int direction_count;   ///< of a recurrent layer; the others have one
    OnnxDirection directions[2];
    bool reverse, has_rb;
    bool return_sequences, return_state;
    bool has_lengths;
    int version;            ///< of the chain behind it
    const char *merge;      ///< "concat", "sum", "mul"
    const char *activation; ///< as YAML: "{leaky_relu: 0.1}"; dense and activation
    double rate;            ///< dropout
};

enum { ONNX_AXIS_OPEN = -1, ONNX_AXIS_NONE = -2, ONNX_NAMES = 1024 };

typedef struct {
    Arena *arena;
    Diags *diags;
    OnnxFile *file;
    int64_t opset;
    OnnxValue *names[ONNX_NAMES];
    int depth;           ///< of `If` branches
    int64_t spent_elems; ///< made by folding so far
    const char *symbols[ONNX_SYMBOLS_MAX];
    int symbol_count;
    OnnxLayer *first, *last, *recurrent; ///< `recurrent`: the last one that is
    int layer_count, version;
    int x_input;               ///< the graph's input that is the model's; -1: none yet
    OnnxFlow x;                ///< as the graph has it; known at the end
    int time_axis, batch_axis; ///< of x, ONNX_AXIS_OPEN or ONNX_AXIS_NONE (size 1)
    int lengths_input;         ///< -1: none
    OnnxPort *ports;
    int port_count;
    OnnxLeftInput *left; ///< weights of test_data_set_0; at the end also what no node reads
    int left_count;
} OnnxReader;

/// A node, with its name as it is shown in messages: "node 'enc' (LSTM)".
typedef struct {
    const Onnx__NodeProto *proto;
    const char *shown;
    OnnxValue **inputs; ///< NULL where left out
    int input_count, output_count;
} OnnxNode;

/// Adds E0451, "node 'enc' (LSTM): ...", and returns false; with `help` where it is not NULL.
bool onnx_refuse(OnnxReader *reader, const OnnxNode *node, const char *help, const char *format,
                 ...) __attribute__((format(printf, 4, 5)));

/// The value of that name, or NULL.
OnnxValue *onnx_find(const OnnxReader *reader, const char *name);

/// A new, broken value of that name, to be filled in; NULL, with E0451, where the name is taken.
OnnxValue *onnx_name(OnnxReader *reader, const char *name);

/// The value that a node's output is to be filled in; one that nobody can name where the output is
/// left out.
OnnxValue *onnx_output(OnnxReader *reader, const OnnxNode *node, int index);

/// The node's input where it is there, else NULL.
OnnxValue *onnx_input(const OnnxNode *node, int index);

/// Attributes. The default where it is not given; a value of another kind was refused before.
const Onnx__AttributeProto *onnx_attribute(const OnnxNode *node, const char *name);
int64_t onnx_int(const OnnxNode *node, const char *name, int64_t otherwise);
double onnx_float(const OnnxNode *node, const char *name, double otherwise);
const char *onnx_string(OnnxReader *reader, const OnnxNode *node, const char *name,
                        const char *otherwise);

/// Sizes.
OnnxSize onnx_number(int64_t value);
bool onnx_is_number(OnnxSize size);
bool onnx_size_equal(OnnxSize a, OnnxSize b);
bool onnx_size_multiply(OnnxSize a, OnnxSize b, OnnxSize *out); ///< false where it overflows
bool onnx_axis_size(const OnnxAxis *axis, OnnxSize *out);

/// Takes `elems` from what folding and copying weights may make, which grows with the file, so that
/// a small file cannot ask for much memory. False, with E0451, beyond it.
bool onnx_spend(OnnxReader *reader, const OnnxNode *node, int64_t elems);

/// Makes `out` a constant of that shape; the elements are written to what is returned, `elems` of
/// them. NULL, after E0451, where folding makes more than the file can ask for.
float *onnx_make_floats(OnnxReader *reader, const OnnxNode *node, OnnxValue *out,
                        const int64_t *dims, int dim_count);
OnnxSize *onnx_make_sizes(OnnxReader *reader, const OnnxNode *node, OnnxValue *out,
                          const int64_t *dims, int dim_count);

/// Makes `out` the constant that a tensor of the file holds.
bool onnx_make_tensor(OnnxReader *reader, const OnnxNode *node, OnnxValue *out,
                      const Onnx__TensorProto *tensor);

/// The integers of a constant input ("axes"): false, refused, where it is no constant of at most
/// ONNX_DIMS_MAX known integers. `what` names it in the message.
bool onnx_integers(OnnxReader *reader, const OnnxNode *node, const OnnxValue *value,
                   const char *what, int64_t *out, int *out_count);

/// Axes as an attribute, or as an input in later opsets, made non-negative and checked against
/// `rank`, each once; `*out_count` -1: not given.
bool onnx_axes(OnnxReader *reader, const OnnxNode *node, int input, int rank, int64_t *out,
               int *out_count);

/// One integer of a constant of integers.
bool onnx_integer(OnnxReader *reader, const OnnxNode *node, const OnnxValue *value,
                  const char *what, int64_t *out);

/// `axis` in [-rank, rank) to [0, rank); refused otherwise.
bool onnx_axis(OnnxReader *reader, const OnnxNode *node, int64_t axis, int rank, int *out);

/// The chain: what a layer that computes is given. Checks that `flow` is the newest of the chain
/// and whole, and settles whether the recurrent layer before returns sequences.
bool onnx_take_chain(OnnxReader *reader, const OnnxNode *node, const OnnxFlow *flow);

/// Whether axis `at` holds all features and the others time and batch only; gives their number.
bool onnx_take_features(OnnxReader *reader, const OnnxNode *node, const OnnxFlow *flow, int at,
                        int64_t *out_features);

/// Whether axes `time_at` and `batch_at` are the time and batch of the layers before; of the first
/// recurrent layer they become these.
bool onnx_take_sequence(OnnxReader *reader, const OnnxNode *node, const OnnxFlow *flow, int time_at,
                        int batch_at);

/// "[batch, time, directions*features]", for messages.
const char *onnx_axes_text(const OnnxReader *reader, const OnnxFlow *flow);

/// Adds what an input or output of the graph is to the module.
void onnx_add_port(OnnxReader *reader, const OnnxPort *port);

/// Appends a layer named after the node, behind onnx_take_chain.
OnnxLayer *onnx_add_layer(OnnxReader *reader, const OnnxNode *node, OnnxLayerKind kind);

/// The chain after a layer: `flow` as it was taken, with axis `at` of `units` features.
void onnx_give_chain(OnnxReader *reader, OnnxValue *out, const OnnxFlow *flow, int at,
                     int64_t units);

/// Takes the nodes of a graph in order, and its initialisers and nested graphs.
void onnx_walk(OnnxReader *reader, const Onnx__GraphProto *graph);

/// Whether the graph has an initializer of that name; and the name of input `index` of those
/// without.
bool onnx_has_initializer(const Onnx__GraphProto *graph, const char *name);
const char *onnx_input_name(const OnnxReader *reader, int index);

/// The layers as an Imported, when all nodes are taken.
const OnnxModel *onnx_write(OnnxReader *reader);

/// Operators, one a row of onnx_ops.def. Each fills in the node's outputs, or reports a fault and
/// leaves them broken.
#define ONNX_OP(name, handler, attributes, inputs_least, inputs_most, outputs)                     \
    void handler(OnnxReader *reader, const OnnxNode *node);
#include "import/onnx_ops.def"
#undef ONNX_OP

/// `out` becomes what `from` is; the name stays.
void onnx_give(OnnxValue *out, const OnnxValue *from);

/// Makes `out` the constant of shape `dims` whose element at i, j, ... is that of the constant
/// `from` at `base` + i*strides[0] + j*strides[1] + ..., all within `from`.
bool onnx_copy_strided(OnnxReader *reader, const OnnxNode *node, OnnxValue *out,
                       const OnnxValue *from, const int64_t *dims, int dim_count, int64_t base,
                       const int64_t *strides);

/// The strides of a constant in elements.
void onnx_strides(const OnnxValue *value, int64_t *out);

#endif
