// Numbers of the variants that keep a batch row's whole recurrence in one CTA (unrolled,
// persistent_cta): how R is spread over lanes, registers and shared memory. The layout itself is
// drawn in templates/cuda/recurrence.cuh.
#ifndef RNNC_PLAN_CTA_H
#define RNNC_PLAN_CTA_H

#include "plan/plan.h"

typedef struct {
    int lanes, threads, ring;
    int chunks, register_chunks; ///< of four weights, in one thread
    int64_t shared_bytes, packed_bytes;
    WorkLayout numbers; ///< those that are searched: lanes
    double step_us;     ///< estimate for one row in one CTA
    int ctas_per_sm;
} CtaLayout;

/// The fastest layout that fits the device, by estimate. `registers_only`: no weight in shared
/// memory. False where none fits; then `out` holds the one that comes nearest (least shared
/// memory).
bool cta_layout(const PlanContext *context, bool registers_only, CtaLayout *out);

/// Launch, input product and all steps of a layer, in microseconds.
double cta_cost_us(const PlanContext *context, const CtaLayout *layout);

/// Time of the product W*x for all steps.
double input_product_us(const PlanContext *context);

/// Device memory of W*x, x and what training saves.
int64_t training_memory_bytes(const PlanContext *context);

/// 2 for bfloat16 and float16, else 4.
int operand_bytes(Precision precision);

/// Fills a choice and prints the stub's part for `skeleton` ("cuda/unrolled.cu").
void cta_fill(const CtaLayout *layout, int unroll, Choice *choice);
void cta_print_stub(const PlanContext *context, const Choice *choice, bool registers_only,
                    const char *skeleton, Text *out);

#endif
