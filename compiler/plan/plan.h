// Plan: for each layer the variants it can run, their numbers, and the order in which the runtime
// tries them. One file per variant answers the questions of the Variant table below; plan.c asks.
//
// To add a variant: one file compiler/plan/variants/<name>.c that defines
// `const Variant variant_<name>`. CMake writes the table `plan_variants` from that folder; nothing
// else names them all.
#ifndef RNNC_PLAN_PLAN_H
#define RNNC_PLAN_PLAN_H

#include "model/model.h"
#include "plan/layout.h"

/// One reason against a variant: what is in the way, and the spec's key that causes it.
typedef struct {
    const char *text;
    Span span; ///< source NULL: no key (a size, a policy)
} Reason;

typedef struct {
    Reason *items;
    int count;
} Reasons;

/// A GPU as the planner needs it; one row an arch in devices.def, so that no GPU is needed to plan.
typedef struct {
    const char *name;
    int arch, sm_count;
    int64_t shared_bytes_per_cta, registers_per_sm, l2_bytes;
    double memory_bytes_per_ns, fp32_flops_per_ns, fp16_flops_per_ns;
} Device;

/// The row of `arch` (90), or NULL.
const Device *device_find(int arch);

/// Reads "sm_90" or "sm_90a"; 0 where the text is no GPU target. Adds E0601 at `span` (naming the
/// known ones) and returns -1 where it is one that devices.def lacks.
int device_arch(Arena *arena, Diags *diags, Span span, const char *target);

/// "sm_80, sm_86, ...".
const char *device_names(Arena *arena);

/// What is fixed before choosing.
typedef struct {
    const Model *model;
    const Layer *layer;
    const Device *device; ///< NULL when only the CPU is a target
    Precision precision;
    int64_t batch, timesteps; ///< what to optimise for (1 and 100 where `any`)
    int64_t unroll;           ///< asked factor, 0: false, -1: auto
    int at_once;              ///< layers of a stack that share the GPU at a time; 1: this one alone
    WorkLayout layout;        ///< only layouts with these numbers are tried; none: all are
    LayoutList *layouts;      ///< takes the cheapest that fit; NULL: nobody asks
} PlanContext;

/// One variant of one layer, with its numbers.
typedef struct Choice {
    const struct Variant *variant;
    double cost_us; ///< estimated time of the layer
    int threads, rows_per_cta, unroll;
    int ctas;          ///< of a group that shares R; 0: each works alone
    WorkLayout layout; ///< what it was estimated for
    int64_t shared_bytes, packed_bytes;
    int64_t buffer_bytes; ///< device memory of one group, through which its CTAs exchange
    int64_t memory_bytes; ///< device memory beyond weights
    const char *reason;   ///< one line: why it stands where it stands
} Choice;

/// A variant; each lives in plan/variants/<name>.c as `const Variant variant_<name>`.
typedef struct Variant {
    const char *name;
    int kind; ///< rnnc_variant_kind
    bool gpu;
    bool for_comparison; ///< taken only where a list names it, not by `all`: it is there to be
                         ///< slower
    bool trains;   ///< has a forward pass that saves, and a backward pass; a GPU's is there for
                   ///< models that train alone
    bool own_arch; ///< its code for sm_90 is for sm_90a; elsewhere it has no kernels
    /// Adds a reason for each obstacle; applicable when none was added.
    void (*check)(Arena *arena, const PlanContext *context, Reasons *reasons);
    /// Fills numbers and cost. Only called when applicable.
    void (*estimate)(Arena *arena, const PlanContext *context, Choice *choice);
    /// Prints what this choice adds to the stub: its RNN_* defines and the include of the skeleton.
    /// images_print prints the cell's part (emit_cuda_cell) before it, and asks with the choice's
    /// layout in the context. NULL: no device code.
    void (*print_stub)(const PlanContext *context, const Choice *choice, Text *out);
    bool stub_alone; ///< the stub needs nothing of the cell, and nothing is printed before it
} Variant;

/// Every variant in order of name, NULL-ended.
extern const Variant *const plan_variants[];

/// The variant of that name, or NULL.
const Variant *variant_find(const char *name);

void reason_add(Arena *arena, Reasons *reasons, Span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

typedef struct {
    const Layer *layer;
    PlanContext context; ///< what the variants were asked with; print_stub gets it again
    int stack;           ///< layers of the stack that it belongs to (plan/stack.h); 1: none
    Choice *choices;     ///< applicable GPU variants that the module holds, best first
    int choice_count;
    Choice *others; ///< applicable GPU variants that the policy leaves out, best first
    int other_count;
    const Choice *cpu; ///< NULL: the CPU is no target, or its variant refuses
    struct Refusal {
        const Variant *variant;
        Reasons reasons;
    } * refusals;
    int refusal_count;
} LayerPlan;

typedef struct {
    const Model *model;
    const Device *device; ///< first target, with the least shared memory of all; NULL: CPU only
    const int *arches;
    int arch_count;
    LayerPlan *layers; ///< one for each layer of the model; only cells have choices
    int layer_count;
    bool cpu;                          ///< CPU code is a target
    const struct Generator *generator; ///< of text; NULL: x holds no tokens
} Plan;

/// `variants`: "auto" (the best generated one, cudnn where it applies, and `stepwise` as fallback),
/// "all" (but those for comparison), a comma-separated list, or NULL: the spec's `variant`. Adds
/// E06xx and returns NULL where nothing is left, or `cudnn: require` cannot be met (each criterion
/// an error at its key). `arches` NULL: CPU only.
const Plan *plan_make(Arena *arena, Diags *diags, const Model *model, const int *arches,
                      int arch_count, bool cpu, const char *variants);

struct PlanFile;

/// The plan that a file holds (plan/plan_file.h), with stepwise behind each variant. Adds E0607 and
/// returns NULL where it does not fit.
const Plan *plan_make_from_file(Arena *arena, Diags *diags, const Model *model, const int *arches,
                                int arch_count, bool cpu, const struct PlanFile *file);

/// What the module tells cuDNN of a layer: the values of rnnc_cudnn_desc.
typedef struct {
    int mode;       ///< cudnnRNNMode_t: 0 rnn relu, 1 rnn tanh, 2 lstm, 3 gru
    int projection; ///< 0: none
    int bias;       ///< 0: none; 2: double
} CudnnDescription;

/// Fills `out` for a layer where the variant cudnn applies. False where cuDNN has no such cell.
bool cudnn_description(Arena *arena, const Layer *layer, CudnnDescription *out);

/// The plan as text (goes into the module), and the table of `rnnc explain`.
void plan_print(const Plan *plan, Text *out);
void plan_explain(Arena *arena, const Plan *plan, Text *out, bool colour);

#endif
