/* The table of the variants' host sides. */
#include "variant.h"

const rnnc_cuda_variant *rnnc_cuda_variant_find(rnnc_variant_kind kind)
{
    static const rnnc_cuda_variant *const rows[RNNC_VARIANT_COUNT] = {
        [RNNC_VARIANT_CUDNN] = &rnnc_cuda_cudnn,
        [RNNC_VARIANT_STEPWISE] = &rnnc_cuda_stepwise,
        [RNNC_VARIANT_UNROLLED] = &rnnc_cuda_unrolled,
        [RNNC_VARIANT_PERSISTENT_CTA] = &rnnc_cuda_persistent_cta,
        [RNNC_VARIANT_PERSISTENT_CLUSTER] = &rnnc_cuda_persistent_cluster,
        [RNNC_VARIANT_PERSISTENT_GRID] = &rnnc_cuda_persistent_grid,
        [RNNC_VARIANT_PERSISTENT_WIDE] = &rnnc_cuda_persistent_wide,
        [RNNC_VARIANT_LOOP] = &rnnc_cuda_loop,
        [RNNC_VARIANT_TRAIN_STEPWISE] = &rnnc_cuda_train_stepwise,
        [RNNC_VARIANT_TRAIN_CLUSTER] = &rnnc_cuda_train_cluster,
    };
    return (unsigned)kind < RNNC_VARIANT_COUNT ? rows[kind] : NULL;
}
