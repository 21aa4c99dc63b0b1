// Schema: the table of all keys (schema.def) as data, and what is asked of it.
#ifndef RNNC_SPEC_SCHEMA_H
#define RNNC_SPEC_SCHEMA_H

#include "base/text.h"
#include "spec/spec.h"

/// Mappings in which keys stand; a row may name several. AT_CELL_LAYER is the item of `layers`
/// that has the key `cell`, AT_DENSE the mapping after `dense:`.
enum {
    AT_TOP = 1 << 0,
    AT_INPUT = 1 << 1,
    AT_CELL_LAYER = 1 << 2,
    AT_BIDIRECTIONAL_LAYER = 1 << 3,
    AT_EMBEDDING_LAYER = 1 << 4,
    AT_DENSE_LAYER = 1 << 5,
    AT_MASKING_LAYER = 1 << 6,
    AT_DROPOUT_LAYER = 1 << 7,
    AT_ACTIVATION_LAYER = 1 << 8,
    AT_BIDIRECTIONAL = 1 << 9,
    AT_EMBEDDING = 1 << 10,
    AT_DENSE = 1 << 11,
    AT_COMPILE = 1 << 12,
    AT_WEIGHTS = 1 << 13,
    AT_ANY_LAYER = AT_CELL_LAYER | AT_BIDIRECTIONAL_LAYER | AT_EMBEDDING_LAYER | AT_DENSE_LAYER |
                   AT_MASKING_LAYER | AT_DROPOUT_LAYER | AT_ACTIVATION_LAYER,
};

/// What a value is; values.c has one reader for each but the mappings.
typedef enum {
    TYPE_VERSION,
    TYPE_TEXT,
    TYPE_NAME,
    TYPE_SIZE,
    TYPE_SIZE_OR_ANY,
    TYPE_DEPTH,
    TYPE_SEED,
    TYPE_BOOL,
    TYPE_RATE,
    TYPE_NUMBER,
    TYPE_POSITIVE,
    TYPE_ZONEOUT,
    TYPE_ACTIVATION,
    TYPE_WORD,
    TYPE_UNROLL,
    TYPE_TARGETS,
    TYPE_INPUT,
    TYPE_LAYERS,
    TYPE_COMPILE,
    TYPE_WEIGHTS,
    TYPE_EMBEDDING,
    TYPE_DENSE,
    TYPE_BIDIRECTIONAL,
    TYPE_DIRECTION, ///< a cell layer within `bidirectional`
} SchemaType;

typedef enum { STATUS_NEEDED, STATUS_OPTIONAL } SchemaStatus;

enum { SCHEMA_NOWHERE = -1 };

typedef struct {
    unsigned places;
    const char *name;
    SchemaType type;
    SchemaStatus status;
    const char *default_text; ///< NULL: none
    const char *words;        ///< TYPE_WORD
    int offset, span_offset;  ///< in Spec or SpecLayer; SCHEMA_NOWHERE
    const char *help;
} SchemaKey;

/// The rows; ends with a NULL name.
extern const SchemaKey schema_keys[];

/// A kind of layer: the key that makes it one, and its mapping.
typedef struct {
    const char *key;
    unsigned place;
    SpecLayerKind kind;
} SchemaKind;

/// The kinds; those whose key may also stand in another kind's layer come last. NULL key at the
/// end.
extern const SchemaKind schema_kinds[];

/// The row of `name` in that mapping, or NULL.
const SchemaKey *schema_find(unsigned place, const char *name);

/// The key of that mapping nearest to `name`, or NULL.
const char *schema_nearest(unsigned place, const char *name);

/// In words, where a key that stands nowhere in `place` belongs ("input"); NULL: nowhere.
const char *schema_home(const char *name);

#endif
