// Activation values: a name, a name with its parameters, or an expression.
#include "spec/activation_value.h"

#include <math.h>

enum { MOST_PARAMETERS = sizeof((SpecActivation *)0)->parameters / sizeof(double) };

static void refuse(const SpecValue *value, const DocNode *at)
{
    Diag *diag =
        diag_add(value->reader->diags, DIAG_E0215,
                 at->span.length > 0 ? at->span : value->entry->key->span, "'%s' %s cannot be %s",
                 value->key->name, value->where, value_describe(value->reader->arena, at));
    diag_help(diag, "write a name (`tanh`), a name with its parameters (`{leaky_relu: 0.05}`, "
                    "`{affine: [0.5, 0.25]}`) or `{expr: \"x > 0 ? x : 0.05*x\"}`");
}

static bool read_parameter(const SpecValue *value, const DocNode *node, double *out)
{
    if (value_parse_number(node, out) && isfinite(*out))
        return true;
    Diag *diag = diag_add(value->reader->diags, DIAG_E0201, node->span,
                          "a parameter of an activation is a number, not %s",
                          value_describe(value->reader->arena, node));
    diag_help(diag, "write a finite number such as 0.05");
    return false;
}

static bool read_parameters(const SpecValue *value, const DocNode *node, SpecActivation *out)
{
    const DocNode *const *items = node->kind == DOC_SEQUENCE ? node->items : &node;
    int count = node->kind == DOC_SEQUENCE ? node->count : 1;
    if (count > MOST_PARAMETERS || node->kind == DOC_MAPPING) {
        refuse(value, node);
        return false;
    }
    for (int i = 0; i < count; i++)
        if (!read_parameter(value, items[i], &out->parameters[i]))
            return false;
    out->parameter_count = count;
    return true;
}

void activation_value_read(const SpecValue *value, SpecActivation *out)
{
    const DocNode *node = value->entry->value;
    SpecActivation read = {.span = doc_entry_span(value->entry), .value_span = node->span};
    if (node->kind == DOC_SCALAR) {
        read.name = node->text;
    } else if (node->kind == DOC_MAPPING && node->count == 1) {
        const DocNode *given = node->entries[0].value;
        read.name = node->entries[0].key->text;
        if (text_equal(read.name, "expr")) {
            read.expression = given->kind == DOC_SCALAR ? given->text : NULL;
            if (!read.expression || !*read.expression) {
                refuse(value, given);
                return;
            }
            read.value_span = given->span;
        } else if (!read_parameters(value, given, &read)) {
            return;
        }
    }
    bool is_null = read.name && node->kind == DOC_SCALAR && node->plain &&
                   (!*read.name || text_equal(read.name, "~") || text_equal(read.name, "null"));
    if (!read.name || !*read.name || is_null) {
        refuse(value, node);
        return;
    }
    *out = read;
}
