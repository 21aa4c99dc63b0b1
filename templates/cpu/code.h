// Code: how the compiled functions of a layer are handed to the module's tables, one record for
// each instruction-set level. RNN_LAYER comes from the generated file, RNN_ISA and RNN_ISA_NAME
// from the compiler's command line; the defaults let a skeleton compile alone.
#ifndef RNN_CODE_H
#define RNN_CODE_H

#include "cpu/prelude.h"
#include "rnnc/module.h"

#ifndef RNN_LAYER
#define RNN_LAYER 0
#endif
#ifndef RNN_ISA
#define RNN_ISA baseline
#define RNN_ISA_NAME "baseline"
#endif

#define RNN_JOIN3(a, b, c) a##_##b##_##c
#define RNN_JOIN(a, b, c) RNN_JOIN3(a, b, c)
#define RNN_SUPPORTS2(isa) rnnc_supports_##isa
#define RNN_SUPPORTS(isa) RNN_SUPPORTS2(isa)

/// In the module's host code, which is compiled for every machine.
extern int RNN_SUPPORTS(RNN_ISA)(void);

/// Rows of the batch taken together: a multiple of the blocks of product.h.
enum { RNN_TILE = 24 };

/// A layer of a module for training defines rnn_training; RNN_TRAINING comes from the generated
/// file.
#ifndef RNN_TRAINING
#define RNN_TRAINING 0
#endif
#if RNN_TRAINING
#define RNN_TRAINING_CODE &rnn_training
#else
#define RNN_TRAINING_CODE 0
#endif

#define RNN_DEFINE_CODE(PACKED_FLOATS) RNN_DEFINE_CODE_WITH(PACKED_FLOATS, .table_floats = 0)

/// The same with further fields.
#define RNN_DEFINE_CODE_WITH(PACKED_FLOATS, ...)                                                   \
    extern const rnnc_cpu_code RNN_JOIN(rnnc_cpu, RNN_LAYER, RNN_ISA);                             \
    const rnnc_cpu_code RNN_JOIN(rnnc_cpu, RNN_LAYER, RNN_ISA) = {                                 \
        .isa = RNN_ISA_NAME,                                                                       \
        .supported = RNN_SUPPORTS(RNN_ISA),                                                        \
        .packed_bytes = sizeof(float) * (size_t)(PACKED_FLOATS),                                   \
        .scratch_bytes = rnn_scratch_bytes,                                                        \
        .pack = rnn_pack_weights,                                                                  \
        .run = rnn_run,                                                                            \
        __VA_ARGS__,                                                                               \
        .training = RNN_TRAINING_CODE,                                                             \
    };

#endif
