// Expressions: the language of formulas in cells, activations and derivatives, parsed into graph
// nodes. What a name stands for is the caller's to say, through a Scope.
#ifndef RNNC_CELL_EXPRESSION_H
#define RNNC_CELL_EXPRESSION_H

#include "cell/activation.h"

typedef struct Parser Parser;

/// What the caller knows. Each function returns a node, or -1 after adding a diagnostic.
typedef struct {
    /// The value of `name` or `name'`.
    int (*name)(Parser *parser, const char *name, Span span);
    /// The value of `family.member` (b.i); NULL where there are none.
    int (*member)(Parser *parser, const char *family, const char *member, Span span);
    /// The product `family.member * operand`; member NULL: `P*operand`. NULL where there are none.
    /// `operand_is_x`: the operand is the name x itself and `operand` is -1.
    int (*product)(Parser *parser, const char *family, const char *member, int operand,
                   bool operand_is_x, Span span);
    /// An activation bound under this name (activation, recurrent_activation), or NULL.
    const Activation *(*activation)(Parser *parser, const char *name);
    void *context;
} Scope;

struct Parser {
    Arena *arena;
    Diags *diags;
    const Source *source;
    const char *at; ///< within source->text
    Graph *graph;
    Scope scope;
    int depth;
};

/// Parses one expression from `parser->at` and stops behind it. -1 after a diagnostic.
int expression_parse(Parser *parser);

/// Parses all of `source`, an expression over the given names, into `graph`. -1 after a diagnostic.
int expression_in(Arena *arena, Diags *diags, const Source *source, Graph *graph,
                  const char *const *names, const int *nodes, int count);

/// The same for `text`, a formula over the given names; used for rows of tables, which are right by
/// test. Returns the node.
int expression_of(Graph *graph, const char *text, const char *const *names, const int *nodes,
                  int count);

/// Lexer: skips blanks and comments within the line; reads a name into the arena, or NULL; accepts
/// one character.
void parser_skip(Parser *parser);
const char *parser_name(Parser *parser, Span *out_span);
bool parser_accept(Parser *parser, char character);

/// The place of `length` bytes from `at` in the parser's source.
Span parser_span(const Parser *parser, const char *at, size_t length);

#endif
