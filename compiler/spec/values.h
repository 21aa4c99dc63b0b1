// Values: the reader of one key's value, by the type that its schema row names.
#ifndef RNNC_SPEC_VALUES_H
#define RNNC_SPEC_VALUES_H

#include "spec/doc.h"
#include "spec/schema.h"

/// What names of layers and models are made of.
#define VALUE_NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."

/// What all readers of one spec share.
typedef struct {
    Arena *arena;
    Diags *diags;
    Spec *spec;
} SpecReader;

/// One value to read. `where` says in words in which mapping ("in layer 2").
typedef struct {
    SpecReader *reader;
    const SchemaKey *key;
    const DocEntry *entry;
    const char *where;
    void *target; ///< the Spec or SpecLayer that the row's offsets count in
} SpecValue;

/// Reads a value whose type is not a mapping or list of layers into its field. Adds E02xx; the
/// field then keeps what it had.
void value_read(const SpecValue *value);

/// Fills the field of a row from the row's default, without a place. Rows without both: nothing.
void value_default(SpecReader *reader, const SchemaKey *key, void *target);

/// "'64'", "a list", "a mapping" or "nothing": what stands where something else should.
const char *value_describe(Arena *arena, const DocNode *node);

/// Reads a plain scalar as a number, `.nan` and `.inf` included; false where it is none.
bool value_parse_number(const DocNode *node, double *out);

#endif
