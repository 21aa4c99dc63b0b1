// Spec: the typed, checked content of a model.yaml, one struct a layer, each value with its span.
// Knows no cells' equations and no shapes beyond what the file says.
#ifndef RNNC_SPEC_SPEC_H
#define RNNC_SPEC_SPEC_H

#include "base/diag.h"
#include "base/text.h"

/// A size that may be `any`: then `any` is true and value is 0.
typedef struct {
    int64_t value;
    bool any;
    Span span;
} SpecSize;

/// A value with its place; `span.source` NULL where the file does not give it (the default holds).
typedef struct {
    const char *text;
    Span span;
} SpecText;
typedef struct {
    bool value;
    Span span;
} SpecBool;
typedef struct {
    int64_t value;
    Span span;
} SpecInteger;
typedef struct {
    double value;
    Span span;
} SpecNumber;

/// `tanh`, `{leaky_relu: 0.05}`, `{affine: [0.5, 0.25]}` or `{expr: "..."}`; `span` covers key and
/// value (`activation: {leaky_relu: 0.05}`), `value_span` the value alone (the text of an
/// expression).
typedef struct {
    const char *name;       ///< NULL: not given and without a default; "expr" for an expression
    const char *expression; ///< NULL unless name is "expr"
    double parameters[4];
    int parameter_count;
    Span span, value_span;
} SpecActivation;

typedef enum {
    SPEC_CELL,
    SPEC_BIDIRECTIONAL,
    SPEC_EMBEDDING,
    SPEC_DENSE,
    SPEC_DROPOUT,
    SPEC_ACTIVATION,
    SPEC_MASKING
} SpecLayerKind;

typedef enum { DIRECTION_FORWARD, DIRECTION_REVERSE } Direction;
typedef enum { MERGE_CONCAT, MERGE_SUM, MERGE_MUL, MERGE_AVE, MERGE_NONE } Merge;

/// `zoneout: 0.1` for every state, or `{h: 0.1, c: 0.05}`.
typedef struct {
    const char *state; ///< NULL: every state
    double rate;
    Span span;
} SpecZoneout;

typedef struct SpecLayer {
    SpecLayerKind kind;
    SpecText name;     ///< never NULL text after checking: `l<position>` (0-based) where not given
    Span span;         ///< the layer's first key
    SpecText cell;     ///< built-in name or path
    SpecInteger units; ///< cell, dense; embedding's width
    SpecInteger projection; ///< 0: none
    SpecInteger layers;     ///< stack depth, 1 unless given
    SpecActivation activation, recurrent_activation, output_activation;
    SpecBool use_bias, return_sequences, return_state, stateful, reset_after, go_backwards;
    SpecNumber dropout, recurrent_dropout; ///< rates; identity at inference by default
    Direction direction;
    Span direction_span;
    SpecZoneout *zoneouts;
    int zoneout_count;
    SpecNumber clip; ///< 0: none
    SpecBool input_forget, zero_output_for_mask, mask_zero;
    SpecInteger heads;     ///< 1 unless given
    SpecNumber mask_value; ///< masking
    Merge merge;           ///< bidirectional
    Span merge_span;
    struct SpecLayer *forward, *backward; ///< bidirectional: cell layers; backward NULL: as forward
} SpecLayer;

typedef enum { PRECISION_FLOAT32, PRECISION_TF32, PRECISION_BFLOAT16, PRECISION_FLOAT16 } Precision;
typedef enum { LAYOUT_BATCH_MAJOR, LAYOUT_TIME_MAJOR } Layout; ///< time major: [T, B, ...]
typedef enum { MODE_INFERENCE, MODE_TRAINING } Mode;
typedef enum { CUDNN_AUTO, CUDNN_REQUIRE, CUDNN_NEVER } CudnnPolicy;
typedef enum {
    CONVENTION_CANONICAL,
    CONVENTION_PYTORCH,
    CONVENTION_KERAS,
    CONVENTION_ONNX
} Convention;

/// unroll: true, false, auto, N.
typedef struct {
    bool is_auto;
    int64_t factor; ///< 0: false; INT64_MAX: true (all timesteps)
    Span span;
} SpecUnroll;

typedef struct {
    const char *path;
    const Source *source;
    const char *name; ///< `name:`, or the file's name without folder and ending
    SpecText model_name;
    SpecInteger features; ///< 0 where tokens are given
    SpecInteger tokens;   ///< 0 where features are given
    SpecSize batch, timesteps;
    Layout layout;
    Span layout_span;
    SpecLayer *layers;
    int layer_count;
    Precision precision;
    Span precision_span;
    SpecText variant; ///< "auto" or a variant's name
    SpecUnroll unroll;
    Mode mode;
    Span mode_span;
    CudnnPolicy cudnn;
    Span cudnn_span;
    SpecBool dropout_at_inference;
    SpecText *targets; ///< "cpu", "sm_NN"; empty: the command line or the default decides
    int target_count;
    SpecText weights_file;                   ///< NULL text: none
    const struct Safetensors *weights_given; ///< what is read in place of weights_file; NULL: none
    Convention convention;                   ///< given wherever weights_file is
    Span convention_span;
    SpecText weights_prefix;
    SpecInteger seed; ///< used where no file is given (default 0)
} Spec;

/// Reads `path`. Adds E00xx to E02xx and returns NULL where any error was found; warnings alone
/// return a spec.
const Spec *spec_read(Arena *arena, Diags *diags, const char *path);

/// The same from a text in memory, whose `path` is taken for the file's.
const Spec *spec_parse(Arena *arena, Diags *diags, const Source *source);

/// Appends the reference page of all keys (`docs/spec.md`), made from the schema table.
void spec_print_reference(Text *out);

/// "float32", "tf32", ...
const char *precision_name(Precision precision);

#endif
