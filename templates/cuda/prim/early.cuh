// Kernels that begin while the one before them on their stream still runs (programmatic dependent
// launch, PTX griddepcontrol, sm_90). Older GPUs launch one after the other, and nothing is done.
#ifndef RNN_PRIM_EARLY_CUH
#define RNN_PRIM_EARLY_CUH

/// Lets the next kernel of the stream begin, where it was launched to begin early; what this one
/// writes is there after that one's rnn_grid_wait.
static __device__ __forceinline__ void rnn_grid_launch_next()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
/// Waits for the kernels before, where this one was launched to begin early. Each thread that reads
/// what they wrote calls it.
static __device__ __forceinline__ void rnn_grid_wait()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

#endif
