/* Measuring: how long a session's runs take and how much memory it holds, what GPU there is, and
 * cuDNN's own recurrent calls alone, to compare with. For benchmarks and tuners; running a model
 * needs none of it. */
#ifndef RNNC_MEASURE_H
#define RNNC_MEASURE_H

#include "rnnc/rnnc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a GPU is. */
typedef struct rnnc_gpu_facts {
    char name[128];                 /* "NVIDIA H200" */
    int32_t arch;                   /* 90 */
    int32_t multiprocessors;        /* 132 */
    int32_t clock_mhz, driver_cuda; /* highest clock; CUDA version of the driver, 13000 */
} rnnc_gpu_facts;

/* The facts of GPU `ordinal`. RNNC_UNAVAILABLE, with the driver's reason in rnnc_last_error(),
 * where there is none. */
RNNC_API rnnc_status rnnc_gpu_find(int32_t ordinal, rnnc_gpu_facts *out_facts);

/* How to time: `samples` times `runs` runs that follow one another. On CUDA a sample lies between
 * two events of the stream. */
typedef struct rnnc_timing {
    int32_t runs, samples; /* at least 1 */
    int32_t in_graph;      /* one run captured in a CUDA graph, which is then launched */
} rnnc_timing;

/* The run that is timed and traced: rnnc_run, or, of a session for training, rnnc_forward and
 * rnnc_backward. */
RNNC_API rnnc_status rnnc_measured_run(rnnc_session *session);

/* Times runs of a session as it is bound: out_us[samples], the mean of each sample's runs in
 * microseconds. Waits for the end of each sample. Run it once before. RNNC_UNAVAILABLE for
 * `in_graph` on the CPU, and where a run cannot be captured. */
RNNC_API rnnc_status rnnc_session_time(rnnc_session *session, const rnnc_timing *timing,
                                       double *out_us);

/* Bytes that creating the session took on its device: packed weights, workspaces and the buffers
 * between layers; not what is bound, nor what a library keeps for itself. */
RNNC_API size_t rnnc_session_memory(const rnnc_session *session);

/* What ran on the GPU: a kernel, a copy or a filling of memory. */
typedef enum rnnc_trace_kind { RNNC_TRACE_KERNEL, RNNC_TRACE_COPY, RNNC_TRACE_SET } rnnc_trace_kind;

typedef struct rnnc_trace_event {
    rnnc_trace_kind kind;
    const char *name;                                   /* of a kernel; else NULL */
    uint32_t stream;                                    /* the driver's number */
    double start_us, end_us;                            /* on the GPU's clock */
    int32_t grid[3], block[3], registers, shared_bytes; /* kernels */
    uint64_t bytes;                                     /* copies and fillings */
} rnnc_trace_event;

typedef struct rnnc_trace {
    rnnc_trace_event *events; /* in no order */
    size_t count;
} rnnc_trace;

/* Records what `runs` runs of a session put on the GPU, through CUPTI, which slows the runs down a
 * little. One thread at a time traces; what other threads run meanwhile is in it. RNNC_UNAVAILABLE,
 * with the reason in rnnc_last_error(), where CUPTI is missing or refuses. The caller frees it. */
RNNC_API rnnc_status rnnc_session_trace(rnnc_session *session, int32_t runs, rnnc_trace *out_trace);
RNNC_API void rnnc_trace_free(rnnc_trace *trace);

/* cuDNN's algorithms by number: "standard", "persist_static", "persist_dynamic",
 * "persist_static_small_h"; NULL beyond. A session's `variant` takes them behind a colon, as in
 * "cudnn:persist_static". */
RNNC_API const char *rnnc_cudnn_algorithm_name(int32_t algorithm);

/* One call of cuDNN: a stack of `layers` of one size, in one or both directions. */
typedef struct rnnc_cudnn_case {
    int32_t ordinal;            /* of the GPU */
    int32_t mode;               /* as rnnc_cudnn_desc: 0 rnn relu, 1 rnn tanh, 2 lstm, 3 gru */
    int32_t precision;          /* rnnc_precision */
    int32_t layers, directions; /* 1 or more; 1 or 2 */
    int32_t bias;               /* 0: none; 2: double */
    int64_t inputs, units;
    int64_t projection; /* 0: none */
    int64_t batch, timesteps;
    int32_t training; /* 1: a run is the forward pass for training, and the gradients of x, states
                       * and weights, the last of which it adds to what is there */
} rnnc_cudnn_case;

typedef struct rnnc_cudnn_call rnnc_cudnn_call;

/* Sets up cudnnRNNForward, in training also cudnnRNNBackwardData_v8 and
 * cudnnRNNBackwardWeights_v8, by one algorithm, with random weights and input in the
 * case's own type, time-major: no copy, conversion or other kernel of ours is in its time.
 * RNNC_UNAVAILABLE, with the library's words in rnnc_last_error(), where it refuses. */
RNNC_API rnnc_status rnnc_cudnn_open(const rnnc_cudnn_case *of, int32_t algorithm,
                                     rnnc_cudnn_call **out_call);
/* NULL is allowed. */
RNNC_API void rnnc_cudnn_close(rnnc_cudnn_call *call);

/* As rnnc_session_time; and the bytes of weights, work space and tensors. */
RNNC_API rnnc_status rnnc_cudnn_time(rnnc_cudnn_call *call, const rnnc_timing *timing,
                                     double *out_us);
RNNC_API size_t rnnc_cudnn_memory(const rnnc_cudnn_call *call);

#ifdef __cplusplus
}
#endif
#endif
