/* cuDNN's library, opened at run time: its functions as a table, and the few types and numbers of
 * its API that the driver needs, so that building takes no cuDNN headers. tests/unit/
 * test_cudnn_numbers.c checks them against the headers where these are installed. */
#ifndef RNNC_CUDA_CUDNN_LIBRARY_H
#define RNNC_CUDA_CUDNN_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

typedef struct cudnnContext *CudnnHandle;
typedef struct cudnnTensorStruct *CudnnTensor;
typedef struct cudnnDropoutStruct *CudnnDropout;
typedef struct cudnnRNNStruct *CudnnRnn;
typedef struct cudnnRNNDataStruct *CudnnRnnData;

enum {
    DNN_SUCCESS = 0,
    DNN_NOT_SUPPORTED = 3000,
    DNN_ALLOC_FAILED = 4003,
    DNN_EXECUTION_FAILED = 5000
};
enum { DNN_FLOAT = 0, DNN_HALF = 2, DNN_BFLOAT16 = 9 };
enum { DNN_DEFAULT_MATH = 0, DNN_TENSOR_OP_MATH = 1, DNN_FMA_MATH = 3 };
enum { DNN_STANDARD, DNN_PERSIST_STATIC, DNN_PERSIST_DYNAMIC, DNN_PERSIST_SMALL_H, DNN_ALGORITHMS };
enum { DNN_RNN_RELU, DNN_RNN_TANH, DNN_LSTM, DNN_GRU };
enum { DNN_NO_BIAS = 0, DNN_DOUBLE_BIAS = 2 };
enum {
    DNN_UNIDIRECTIONAL = 0,
    DNN_BIDIRECTIONAL = 1,
    DNN_LINEAR_INPUT = 0,
    DNN_INFERENCE = 0,
    DNN_TRAINING = 1,
    DNN_ADD_GRADIENTS = 0,
    DNN_PADDED_IO_DISABLED = 0
};
enum { DNN_SEQ_MAJOR_PACKED = 1 };

typedef struct {
#define CUDNN_SYMBOL(name, parameters) int(*name) parameters;
#include "cudnn_symbols.def"
#undef CUDNN_SYMBOL
    size_t (*cudnnGetVersion)(void);
    const char *(*cudnnGetErrorString)(int status);
    void (*cudnnGetLastErrorString)(char *message, size_t message_bytes); /* may be NULL */
} CudnnLibrary;

/* The library, opened once a process; NULL, with the reason in `*out_reason` (static storage),
 * where it is missing, older than 9, or lacks a function. Any thread. */
const CudnnLibrary *cudnn_library_open(const char **out_reason);

#endif
