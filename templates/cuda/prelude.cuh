// Prelude of the CUDA code: the number type rnn_f and the functions that generated pointwise code
// is written in (listed in compiler/cell/ops.def). One number a thread. Each function is right to a
// few units in the last place over all floats; infinities are values like any other and NaN goes
// through. None of them branches, so that a step has one straight path.
#ifndef RNN_PRELUDE_CUH
#define RNN_PRELUDE_CUH

typedef float rnn_f;

#define RNN_INLINE static __device__ __forceinline__
#define RNN_MEMBER __device__ __forceinline__
#define RNN_INFINITY __int_as_float(0x7f800000)

enum { RNN_GATES_MAX = 16, RNN_STATES_MAX = 8, RNN_PHASES_MAX = 8 };

RNN_INLINE rnn_f rnn_const(float c)
{
    return c;
}
RNN_INLINE rnn_f rnn_lt(rnn_f a, rnn_f b)
{
    return a < b ? 1.0f : 0.0f;
}
RNN_INLINE rnn_f rnn_le(rnn_f a, rnn_f b)
{
    return a <= b ? 1.0f : 0.0f;
}
RNN_INLINE rnn_f rnn_gt(rnn_f a, rnn_f b)
{
    return a > b ? 1.0f : 0.0f;
}
RNN_INLINE rnn_f rnn_ge(rnn_f a, rnn_f b)
{
    return a >= b ? 1.0f : 0.0f;
}
RNN_INLINE rnn_f rnn_eq(rnn_f a, rnn_f b)
{
    return a == b ? 1.0f : 0.0f;
}
RNN_INLINE rnn_f rnn_ne(rnn_f a, rnn_f b)
{
    return a != b ? 1.0f : 0.0f;
}
RNN_INLINE rnn_f rnn_select(rnn_f condition, rnn_f a, rnn_f b)
{
    return condition != 0.0f ? a : b;
}
RNN_INLINE rnn_f rnn_min(rnn_f a, rnn_f b)
{
    return a < b || a != a ? a : b;
}
RNN_INLINE rnn_f rnn_max(rnn_f a, rnn_f b)
{
    return a > b || a != a ? a : b;
}
RNN_INLINE rnn_f rnn_abs(rnn_f x)
{
    return fabsf(x);
}
RNN_INLINE rnn_f rnn_sqrt(rnn_f x)
{
    return sqrtf(x);
}
RNN_INLINE rnn_f rnn_exp(rnn_f x)
{
    return expf(x);
}
RNN_INLINE rnn_f rnn_expm1(rnn_f x)
{
    return expm1f(x);
}
RNN_INLINE rnn_f rnn_log(rnn_f x)
{
    return logf(x);
}
RNN_INLINE rnn_f rnn_erf(rnn_f x)
{
    return erff(x);
}

/// 1/x to one unit in the last place; 0 where the result would be subnormal.
RNN_INLINE rnn_f rnn_reciprocal(rnn_f x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/// 2^x, relative error 2^-22; subnormal results are 0.
RNN_INLINE rnn_f rnn_exp2(rnn_f x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/// log2(e): exp(x) = 2^(x*RNN_LOG2E). The rounding of the product is |x|*2^-24 of the result, which
/// expf avoids with five instructions more; where |x| is large a sigmoid or tanh does not see it.
#define RNN_LOG2E 1.442695041f

/// 1 / (1 + exp(-x)): exp overflows to infinity, whose reciprocal is the right 0.
RNN_INLINE rnn_f rnn_sigmoid(rnn_f x)
{
    return rnn_reciprocal(1.0f + rnn_exp2(-RNN_LOG2E * x));
}

#if defined(RNN_PRECISION) && RNN_PRECISION >= 2
/// With operands of 16 bits the hardware's: relative error 2^-11, half a unit of float16.
RNN_INLINE rnn_f rnn_tanh(rnn_f x)
{
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#else
/// 1 - 2/(exp(2|x|) + 1) from 0.55 on; below it x + x^3*p(x^2) with the polynomial of
/// CUDA's tanhf (1.8 units in the last place there).
RNN_INLINE rnn_f rnn_tanh(rnn_f x)
{
    const float a = fabsf(x), s = x * x;
    const float outer =
        copysignf(fmaf(-2.0f, rnn_reciprocal(rnn_exp2(2.0f * RNN_LOG2E * a) + 1.0f), 1.0f), x);
    float p = fmaf(0.01573946f, s, -0.05230396f);
    p = fmaf(p, s, 0.13315298f);
    p = fmaf(p, s, -0.33332768f);
    const float inner = fmaf(p * s, x, x);
    return a < 0.55f ? inner : outer;
}
#endif

/// min(x, 0) - log(1 + exp(-|x|)).
RNN_INLINE rnn_f rnn_log_sigmoid(rnn_f x)
{
    return rnn_min(x, 0.0f) - log1pf(expf(-fabsf(x)));
}

#endif
