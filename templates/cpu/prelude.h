// Prelude of the CPU code: the vector type rnn_f and the functions that generated pointwise code is
// written in. One file serves every instruction set; the compiler's flags decide the width. No
// function here calls libm, so that a step stays in registers and gives the same bits wherever the
// same level runs. Each is exact to about 2 units in the last place over all floats (measured by
// tests/unit/test_cpu_math.c), infinity is a value like any other, and NaN goes through.
#ifndef RNN_PRELUDE_H
#define RNN_PRELUDE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef RNN_LANES
#if defined __AVX512F__
#define RNN_LANES 16
#elif defined __AVX2__
#define RNN_LANES 8
#else
#define RNN_LANES 4
#endif
#endif

typedef float rnn_f __attribute__((vector_size(RNN_LANES * 4)));
typedef int32_t rnn_i __attribute__((vector_size(RNN_LANES * 4)));
typedef uint32_t rnn_u __attribute__((vector_size(RNN_LANES * 4)));

#define RNN_INFINITY __builtin_inff()
#define RNN_INLINE static inline __attribute__((always_inline, unused))

RNN_INLINE rnn_f rnn_const(float c)
{
    return c - (rnn_f){0};
}

RNN_INLINE rnn_f rnn_load(const float *from)
{
    return *(const rnn_f *)from;
}

RNN_INLINE void rnn_store(float *to, rnn_f value)
{
    *(rnn_f *)to = value;
}

/// `mask` lanes are all ones or all zeros, as vector comparisons give them.
RNN_INLINE rnn_f rnn_blend(rnn_i mask, rnn_f a, rnn_f b)
{
    return (rnn_f)((mask & (rnn_i)a) | (~mask & (rnn_i)b));
}

/// Comparisons as numbers, 1 or 0, and a choice by such a number; the compiler folds the pair.
RNN_INLINE rnn_f rnn_truth(rnn_i mask)
{
    return (rnn_f)(mask & (rnn_i)rnn_const(1));
}
RNN_INLINE rnn_f rnn_lt(rnn_f a, rnn_f b)
{
    return rnn_truth(a < b);
}
RNN_INLINE rnn_f rnn_le(rnn_f a, rnn_f b)
{
    return rnn_truth(a <= b);
}
RNN_INLINE rnn_f rnn_gt(rnn_f a, rnn_f b)
{
    return rnn_truth(a > b);
}
RNN_INLINE rnn_f rnn_ge(rnn_f a, rnn_f b)
{
    return rnn_truth(a >= b);
}
RNN_INLINE rnn_f rnn_eq(rnn_f a, rnn_f b)
{
    return rnn_truth(a == b);
}
RNN_INLINE rnn_f rnn_ne(rnn_f a, rnn_f b)
{
    return rnn_truth(a != b);
}
RNN_INLINE rnn_f rnn_select(rnn_f condition, rnn_f a, rnn_f b)
{
    return rnn_blend(condition != 0, a, b);
}

RNN_INLINE rnn_f rnn_abs(rnn_f x)
{
    return (rnn_f)((rnn_i)x & 0x7fffffff);
}
RNN_INLINE rnn_f rnn_neg(rnn_f x)
{
    return -x;
}
/// -|x|.
RNN_INLINE rnn_f rnn_below_zero(rnn_f x)
{
    return (rnn_f)((rnn_i)x | (int32_t)0x80000000);
}

/// NaN in either operand gives NaN.
RNN_INLINE rnn_f rnn_min(rnn_f a, rnn_f b)
{
    return rnn_blend((a < b) | (a != a), a, b);
}
RNN_INLINE rnn_f rnn_max(rnn_f a, rnn_f b)
{
    return rnn_blend((a > b) | (a != a), a, b);
}

/// The larger (smaller) of a bound and x, in one instruction where there is one; NaN in x stays.
RNN_INLINE rnn_f rnn_at_least(float low, rnn_f x)
{
#if RNN_LANES == 16 && defined __AVX512F__
    return (rnn_f)__builtin_ia32_maxps512_mask(rnn_const(low), x, x, (int16_t)-1, 4);
#elif RNN_LANES == 8 && defined __AVX__
    return (rnn_f)__builtin_ia32_maxps256(rnn_const(low), x);
#elif RNN_LANES == 4 && defined __SSE__
    return (rnn_f)__builtin_ia32_maxps(rnn_const(low), x);
#else
    return rnn_blend(x < low, rnn_const(low), x);
#endif
}
RNN_INLINE rnn_f rnn_at_most(float high, rnn_f x)
{
#if RNN_LANES == 16 && defined __AVX512F__
    return (rnn_f)__builtin_ia32_minps512_mask(rnn_const(high), x, x, (int16_t)-1, 4);
#elif RNN_LANES == 8 && defined __AVX__
    return (rnn_f)__builtin_ia32_minps256(rnn_const(high), x);
#elif RNN_LANES == 4 && defined __SSE__
    return (rnn_f)__builtin_ia32_minps(rnn_const(high), x);
#else
    return rnn_blend(x > high, rnn_const(high), x);
#endif
}

/// `magnitude`, which is not negative, with the sign of another number.
RNN_INLINE rnn_f rnn_with_sign(rnn_f magnitude, rnn_f sign)
{
    return (rnn_f)((rnn_i)magnitude | ((rnn_i)sign & (int32_t)0x80000000));
}

RNN_INLINE rnn_f rnn_sqrt(rnn_f x)
{
#if RNN_LANES == 16 && defined __AVX512F__
    return (rnn_f)__builtin_ia32_sqrtps512_mask(x, x, (int16_t)-1, 4);
#elif RNN_LANES == 8 && defined __AVX__
    return (rnn_f)__builtin_ia32_sqrtps256(x);
#elif RNN_LANES == 4 && defined __SSE__
    return (rnn_f)__builtin_ia32_sqrtps(x);
#else
    for (int i = 0; i < RNN_LANES; i++)
        x[i] = __builtin_sqrtf(x[i]);
    return x;
#endif
}

/// exp(x) = 2^n * (1 + p): n, and p = exp(r) - 1 on |r| <= ln(2)/2, with ln(2) split in two (Cody
/// and Waite), p = r + r^2 * q(r) and q of degree 4 fitted to the least error relative to exp(r),
/// 3.1e-9. n is also in the low bits of `shifted`.
typedef struct {
    rnn_f n, shifted, p;
} rnn_exp_parts;

#define RNN_ROUNDER 12582912.0f // 1.5 * 2^23: adding it rounds to an integer

RNN_INLINE rnn_exp_parts rnn_exp_reduce(rnn_f x)
{
    rnn_f shifted = x * 1.44269504088896341f + RNN_ROUNDER;
    rnn_f n = shifted - RNN_ROUNDER;
    rnn_f r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    rnn_f square = r * r;
    rnn_f low = r * 0.16666521f + 0.49999994f, high = r * 8.368745e-3f + 4.166839e-2f;
    rnn_f q = (square * 1.3814539e-3f + high) * square + low;
    return (rnn_exp_parts){n, shifted, q * square + r};
}

/// value * 2^n for any n that exp can have, subnormal results included.
RNN_INLINE rnn_f rnn_scale(rnn_f value, const rnn_exp_parts *parts)
{
#if RNN_LANES == 16 && defined __AVX512F__
    return (rnn_f)__builtin_ia32_scalefps512_mask(value, parts->n, value, (int16_t)-1, 4);
#else
    rnn_i n = (rnn_i)parts->shifted - (rnn_i)rnn_const(RNN_ROUNDER), half = n >> 1;
    return value * (rnn_f)((half + 127) << 23) * (rnn_f)((n - half + 127) << 23);
#endif
}

/// 2^n for n in [-126, 127].
RNN_INLINE rnn_f rnn_power_of_two(const rnn_exp_parts *parts)
{
#if RNN_LANES == 16 && defined __AVX512F__
    return rnn_scale(rnn_const(1), parts);
#else
    return (rnn_f)(((rnn_i)parts->shifted - (rnn_i)rnn_const(RNN_ROUNDER) + 127) << 23);
#endif
}

RNN_INLINE rnn_f rnn_exp(rnn_f x)
{
    rnn_exp_parts parts = rnn_exp_reduce(rnn_at_most(90.0f, rnn_at_least(-105.0f, x)));
    return rnn_scale(parts.p + 1, &parts);
}

/// exp(x) - 1 without cancellation near 0; the last doubling is apart, for it may overflow.
RNN_INLINE rnn_f rnn_expm1(rnn_f x)
{
    rnn_exp_parts parts = rnn_exp_reduce(rnn_at_most(90.0f, rnn_at_least(-18.0f, x)));
    rnn_exp_parts less = {parts.n - 4, parts.shifted - 4, parts.p};
    rnn_f scale = rnn_power_of_two(&less);
    rnn_f y = (parts.p * scale + (scale - 0.0625f)) * 16;
    return rnn_blend(rnn_abs(x) < 1e-20f, x, y);
}

/// expm1(2|x|) / (expm1(2|x|) + 2); 1 beyond 10, where float has no other value.
RNN_INLINE rnn_f rnn_tanh(rnn_f x)
{
    rnn_f bounded = rnn_at_most(10.0f, rnn_abs(x));
    rnn_exp_parts parts = rnn_exp_reduce(bounded + bounded);
    rnn_f scale = rnn_power_of_two(&parts);
    rnn_f e = parts.p * scale + (scale - 1);
    return rnn_with_sign(e / (e + 2), x);
}

/// z / (1 + z) or 1 / (1 + z) by the sign of x, z = exp(-|x|).
RNN_INLINE rnn_f rnn_sigmoid(rnn_f x)
{
    rnn_exp_parts parts = rnn_exp_reduce(rnn_at_least(-105.0f, rnn_below_zero(x)));
    rnn_f z = rnn_scale(parts.p + 1, &parts);
    return rnn_blend((rnn_i)x < 0, z, rnn_const(1)) / (1 + z);
}

/// ln(x) = e*ln(2) + ln(m), m in [sqrt(1/2), sqrt(2)): the polynomial of Cephes' logf.
RNN_INLINE rnn_f rnn_log_of_normal(rnn_f x, rnn_f exponent_offset)
{
    rnn_i shifted = (rnn_i)((rnn_u)x - 0x3f3504f3); // unsigned: a negative x wraps
    rnn_i exponent = shifted >> 23;
    rnn_f m = (rnn_f)((shifted & 0x7fffff) + 0x3f3504f3) - 1;
    rnn_f e = __builtin_convertvector(exponent, rnn_f) + exponent_offset;
    rnn_f q = rnn_const(7.0376836292e-2f);
    q = q * m - 1.1514610310e-1f;
    q = q * m + 1.1676998740e-1f;
    q = q * m - 1.2420140846e-1f;
    q = q * m + 1.4249322787e-1f;
    q = q * m - 1.6668057665e-1f;
    q = q * m + 2.0000714765e-1f;
    q = q * m - 2.4999993993e-1f;
    q = q * m + 3.3333331174e-1f;
    rnn_f square = m * m;
    rnn_f tail = q * m * square + e * -2.12194440e-4f;
    tail = tail - 0.5f * square;
    return (m + tail) + e * 0.693359375f;
}

RNN_INLINE rnn_f rnn_log(rnn_f x)
{
    rnn_i is_subnormal = x < 1.17549435e-38f;
    rnn_f scaled = rnn_blend(is_subnormal, x * 8388608.0f, x);
    rnn_f y = rnn_log_of_normal(scaled, rnn_blend(is_subnormal, rnn_const(-23), rnn_const(0)));
    y = rnn_blend(x == RNN_INFINITY, x, y);
    y = rnn_blend(x == 0, rnn_const(-RNN_INFINITY), y);
    return rnn_blend((x < 0) | (x != x), rnn_const(__builtin_nanf("")), y);
}

/// ln(1 + z) for z >= 0, with the rounding of 1 + z put back to first order.
RNN_INLINE rnn_f rnn_log1p_positive(rnn_f z)
{
    rnn_f u = 1 + z;
    rnn_f y = rnn_log_of_normal(u, rnn_const(0)) + (z - (u - 1)) / u;
    return rnn_blend(z != z, z, y);
}

/// ln(1 + exp(x)) = max(x, 0) + ln(1 + exp(-|x|)).
RNN_INLINE rnn_f rnn_softplus(rnn_f x)
{
    return rnn_max(x, rnn_const(0)) + rnn_log1p_positive(rnn_exp(-rnn_abs(x)));
}
RNN_INLINE rnn_f rnn_log_sigmoid(rnn_f x)
{
    return -rnn_softplus(-x);
}

/// Two polynomials that meet at 475/512, the outer one in the exponent: 1 - exp(-t - t*u(t)).
RNN_INLINE rnn_f rnn_erf(rnn_f x)
{
    rnn_f t = rnn_at_most(4.0f, rnn_abs(x)), s = t * t;
    rnn_f outer =
        (t * -1.72853470e-5f + 3.83197126e-4f) * s + (t * -3.88396438e-3f + 2.42546219e-2f);
    outer = outer * t - 1.06777877e-1f;
    outer = outer * t - 6.34846687e-1f;
    outer = outer * t - 1.28717512e-1f;
    outer = 1 - rnn_exp(outer * t - t);
    rnn_f inner = rnn_const(-5.96761703e-4f);
    inner = inner * s + 4.99119423e-3f;
    inner = inner * s - 2.67681349e-2f;
    inner = inner * s + 1.12819925e-1f;
    inner = inner * s - 3.76125336e-1f;
    inner = inner * s + 1.28379166e-1f;
    inner = inner * t + t;
    return rnn_with_sign(rnn_blend(t > 0.927734375f, outer, inner), x);
}

#endif
