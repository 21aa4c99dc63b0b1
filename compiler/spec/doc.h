// Doc: a YAML file as a tree of nodes with their places, and nothing more: no key has a meaning
// here. What YAML allows and a spec does not is refused here (duplicate keys, anchors, tags,
// further documents, deep nesting), so that the reader after it sees plain data only.
#ifndef RNNC_SPEC_DOC_H
#define RNNC_SPEC_DOC_H

#include "base/diag.h"

typedef enum { DOC_SCALAR, DOC_SEQUENCE, DOC_MAPPING } DocKind;

typedef struct DocNode DocNode;

typedef struct {
    const DocNode *key, *value; ///< `key` is a scalar
} DocEntry;

/// A node. Its span begins at its first character; where it goes on over several lines, the span
/// covers the first of them.
struct DocNode {
    DocKind kind;
    Span span;
    int end_line, end_column; ///< 1-based, just after the node's last scalar or bracket
    const char *text;         ///< scalar: its value; else NULL
    bool plain;               ///< scalar: written without quotes
    const DocNode **items;    ///< sequence
    DocEntry *entries;        ///< mapping
    int count;                ///< of items or entries
};

/// Parses `source` into a tree that lives in the arena. Adds E01xx and returns NULL on any fault.
const DocNode *doc_read(Arena *arena, Diags *diags, const Source *source);

/// The value of `key`, or NULL where the mapping has no such key.
const DocEntry *doc_find(const DocNode *mapping, const char *key);

/// The place of a key with its value: `activation: {leaky_relu: 0.05}`.
Span doc_entry_span(const DocEntry *entry);

#endif
