// The elementwise graph of one recurrent step: what a cell's equations and activations become after
// parsing. A node is an operation on earlier nodes (a node's index is greater than its operands'),
// so the array order is an evaluation order. Matrix products are leaves here: their results come
// from outside, one number a unit. Knows nothing of layers, devices or files.
#ifndef RNNC_CELL_GRAPH_H
#define RNNC_CELL_GRAPH_H

#include "base/diag.h"
#include "base/text.h"

/// One row per operation in ops.def: OPERATION(NAME, arity, "code format", strength, evaluator).
/// Comparisons give 1 or 0; SELECT is args[0] != 0 ? args[1] : args[2].
typedef enum {
#define OPERATION(name, arity, ...) OP_##name,
#include "cell/ops.def"
#undef OPERATION
    OP_COUNT
} Op;

typedef struct {
    Op op;
    int args[3];      ///< operand node indices
    double value;     ///< OP_CONST
    int index;        ///< leaves: which product, vector, state or argument (see CellProduct etc.)
    const char *name; ///< the cell's own name for the value, or NULL; printers use it
    Span span;
} Node;

typedef struct {
    Arena *arena;
    Node *nodes;
    int count;
} Graph;

/// Appends a node, or returns an equal one that exists (hash-consing); constants fold.
int graph_add(Graph *graph, Node node);

/// The same for an operation on nodes (unused operands: 0), and for a constant.
int graph_op(Graph *graph, Op op, int a, int b, int c);
int graph_constant(Graph *graph, double value);

/// Facts of an operation: operand count, C format (see ops.def) and its strength, name ("ADD").
int op_arity(Op op);
const char *op_format(Op op);
int op_strength(Op op);
const char *op_name(Op op);

/// The operation that the cell language knows as function `name` ("exp", "tanh", ...), or OP_COUNT;
/// and the names of all of them.
Op op_function(const char *name);
const char *const *op_function_names(size_t *out_count);

/// Evaluates nodes 0 .. count-1 in float64; leaves read from `leaf(context, node)`.
void graph_evaluate(const Graph *graph, double (*leaf)(const void *context, const Node *node),
                    const void *context, double *out_values);

/// Appends to `graph` the reverse-mode derivative: given the node indices `outputs[n]` and the
/// nodes that hold their adjoints `seeds[n]`, returns for each of `inputs[m]` (leaf nodes) the node
/// index of its adjoint in `out_adjoints[m]` (a constant 0 where there is no path). All is per
/// unit, but a statistic of layer_norm depends on all units: false, and nothing is added, where an
/// output depends on an OP_STATISTIC that is not among the inputs. The caller passes the adjoints
/// of those on to the norm's members: with M and S the sums over units of the adjoints of mean and
/// rstd, and N = members * units, the member v of a unit gets M/N - S*(v - mean)*rstd^3/N.
bool graph_differentiate(Graph *graph, const int *outputs, const int *seeds, int output_count,
                         const int *inputs, int input_count, int *out_adjoints);

/// Prints the graph in its own readable form, one node a line (for --dump and golden tests).
void graph_print(const Graph *graph, Text *out);

#endif
