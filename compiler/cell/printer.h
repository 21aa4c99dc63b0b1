// Printer: nodes of a graph as statements of C. A value is declared by its own name, or as
// t<number> where it is read more than once; what is read once stands in its place. Knows graphs,
// not cells.
#ifndef RNNC_CELL_PRINTER_H
#define RNNC_CELL_PRINTER_H

#include "cell/graph.h"

/// One function that is printed. All arrays but the last two are by node.
typedef struct {
    const Graph *graph;
    int *uses;             ///< in this function
    const char **given;    ///< what comes from outside, as it is written there: "carry_in[0]"
    const char **names;    ///< declared so far
    const int *products;   ///< index in `product` of each product; NULL: its own
    const int *statistics; ///< index in `statistic` of each of the cell's; NULL: its own
    Text *out;
} Printer;

/// Of a function whose body goes to `out`.
Printer printer_of(const Graph *graph, Text *out);

/// Counts the uses of everything that `node` needs within this function; before declarations.
void printer_use(Printer *printer, int node);

/// Declares, in order, what has a name or is used more than once.
void printer_declare(Printer *printer);

/// The text of a node's value; and `array[index] = <value>;` on a line of its own.
void printer_value(Printer *printer, int node);
void printer_assign(Printer *printer, const char *array, int index, int node);

/// The function around `body`: its first `inputs` arguments are `const rnn_f *`, the others
/// `rnn_f *`; those that the body does not touch are cast to void.
void printer_function(const char *name, const char *const *arguments, int inputs, int count,
                      const char *body, Text *out);

#endif
