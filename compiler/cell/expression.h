// Expressions of the cell language, parsed straight into graph nodes by recursive descent:
//     choice  = compare ["?" choice ":" choice]        compare = sum [("<"|"<="|...) sum]
//     sum     = product {("+"|"-") product}            product = sign {("*"|"/") sign}
//     sign    = {"-"|"+"} primary
//     primary = number | name ["'"] | name "." gate ["*" primary] | name "(" choice, ... ")"
//             | "(" choice ")"
// What a name means is the scope's to say. Functions and activations are known here; cells add
// theirs. Faults are reported and give the value POISON, which is not reported again.
#ifndef RNNC_CELL_EXPRESSION_H
#define RNNC_CELL_EXPRESSION_H

#include "cell/activation.h"
#include "cell/lexer.h"

typedef enum { VALUE_POISON, VALUE_NODE, VALUE_INPUT } ValueKind;

/// What a value is as it stands, beside what its node computes.
typedef enum { ORIGIN_OTHER, ORIGIN_ACTIVATION, ORIGIN_PRODUCT } ValueOrigin;

/// What an expression gives: a node; a cell's `x`, which only a matrix may multiply; or poison.
typedef struct {
    ValueKind kind;
    int node;
    int domain; ///< a Domain, or DOMAIN_ANY for constants
    Span span;
    ValueOrigin origin;
} Value;

enum { DOMAIN_ANY = -1 };

typedef struct Parser Parser;

/// How names resolve. Each reports its own faults.
typedef struct {
    /// `name` or `name'`.
    Value (*variable)(Parser *parser, const Token *name, bool primed);
    /// `name.gate`; `operand` is NULL where no product follows. NULL function: there are none.
    Value (*gate)(Parser *parser, const Token *name, const Token *gate, const Value *operand);
    /// Whether `name` is a family whose members multiply a vector ("W").
    bool (*is_matrix)(const Parser *parser, const char *name);
    /// `name(argument)` of the scope's own functions; false where it knows no such function.
    bool (*call)(Parser *parser, const Token *name, const Value *arguments, int count, Value *out);
    /// Names in scope, for suggestions.
    const char *const *names;
    int name_count;
    const char *const *functions;
    int function_count;
    double clip; ///< above 0: bounds the argument of every activation to [-clip, clip]
} Scope;

struct Parser {
    Arena *arena;
    Diags *diags;
    Graph *graph;
    const Token *at; ///< the next token
    const Scope *scope;
    void *context; ///< the scope's own
    int depth;
    bool failed;    ///< a syntax error: the rest of the statement is to be skipped
    bool too_large; ///< E0315 for size was reported
};

/// Parses one expression at `parser->at` and leaves it behind its last token.
Value expression_parse(Parser *parser);

/// A value from a node; and poison at a place.
Value expression_value(int node, int domain, Span span);
Value expression_poison(Span span);

/// The activation of `argument`, a node over `domain`, which the scope's clip bounds before.
Value expression_activate(Parser *parser, const Activation *activation, const Value *argument,
                          int domain, Span span);

/// Whether all may stand in one elementwise operation, over `*out_domain`; reports what may not.
bool expression_check(Parser *parser, const Value *values, int count, int *out_domain);

/// Whether the next token is that sign; and consumes it if so.
bool parser_is(const Parser *parser, const char *sign);
bool parser_take(Parser *parser, const char *sign);

/// Reports a syntax error at the next token, once a statement: "expected WHAT before 'x'".
void parser_expect(Parser *parser, const char *what);

/// Reports an unknown name with the nearest of the scope's names.
Value parser_unknown_name(Parser *parser, const Token *name);

#endif
