// Emit: prints the sources of a module. Formulas come as generated pointwise functions, numbers as
// defines, structure as flat tables; the loops are in templates/.
#ifndef RNNC_EMIT_EMIT_H
#define RNNC_EMIT_EMIT_H

#include "base/text.h"
#include "plan/plan.h"

/// CPU code of layer `index`: a C file that defines `const rnnc_cpu_code rnnc_cpu_<index>_<isa>`,
/// compiled once for each instruction-set level with -DRNN_ISA=... and its -march.
void emit_cpu_layer(const Layer *layer, int index, Text *out);

/// Device code of a layer beside its recurrence: W*x of a cell, all of a dense, embedding or
/// activation layer; nothing is added for the others.
void emit_cuda_layer(const Layer *layer, Precision precision, Text *out);

/// Device code of the masks, merges, dropout and token checks of a model, for the kinds of layers
/// that it has; nothing is added where it has none of those.
void emit_cuda_sequence(const Model *model, Text *out);

/// Whether that code has a product which the instructions of one arch make faster (wgmma of
/// sm_90a): its cubin for that arch then runs on no other.
bool emit_cuda_blocks(const Layer *layer);

/// Device code that generates text in one launch, for a plan whose generator refuses nothing.
void emit_cuda_generator(const Plan *plan, Text *out);

/// The #defines and pointwise functions that the CUDA stub of a recurrence starts with.
void emit_cuda_cell(const Layer *layer, Precision precision, Text *out);

#endif
