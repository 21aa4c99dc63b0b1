// Self-test: see self_test.h.
#include "emit/self_test.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "prim/philox.h"

enum { ANY_BATCH = 2, ANY_TIMESTEPS = 5, ALIGNMENT = 64, BYTES_MAX = 1 << 20 };

/// About a third of a second's work, and what is too much of it.
static const double OPERATIONS = 4e8, OPERATIONS_MAX = 3e9;

static size_t aligned(size_t size_bytes)
{
    return (size_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/// Uniform in (-1, 1); tokens from 1 on, for 0 may be a mask.
static void *draw_input(Arena *arena, const Model *model, int64_t count)
{
    float *values = ARENA_ARRAY(arena, float, count);
    int32_t *tokens = (int32_t *)(void *)values;
    uint32_t words[4] = {0};
    for (int64_t i = 0; i < count; i++) {
        if (i % 4 == 0) {
            memcpy(words, (const uint32_t[]){(uint32_t)(i / 4), 0, 0, 0}, sizeof words);
            rnn_philox(words, 1, 0);
        }
        const double unit = ((double)(words[i % 4] >> 8) + 0.5) * 0x1p-24;
        if (model->tokens)
            tokens[i] =
                model->features > 1 ? 1 + (int32_t)(unit * (double)(model->features - 1)) : 0;
        else
            values[i] = (float)(2 * unit - 1);
    }
    return values;
}

static double operations_of(const Model *model, const ReferencePart *part)
{
    double weights = 0;
    for (int i = 0; i < model->layer_count; i++)
        for (int kind = 0; kind < WEIGHT_COUNT; kind++)
            if (kind != WEIGHT_E)
                weights += (double)model->layers[i].weights[kind].rows *
                           (double)model->layers[i].weights[kind].columns;
    return 2 * weights * (double)part->row_count * (double)part->timesteps;
}

/// Of a model whose first steps can be computed alone: as many of them as a test wants, R being
/// without effect in the first.
static void shorten(const Model *model, ReferencePart *part, int64_t timesteps)
{
    part->row_count = 1;
    part->timesteps = timesteps < ANY_TIMESTEPS ? timesteps : ANY_TIMESTEPS;
    while (part->timesteps > 2 && operations_of(model, part) > OPERATIONS_MAX)
        part->timesteps--;
}

double self_test_tolerance(const Model *model, int64_t timesteps)
{
    switch (model->spec->precision) {
    case PRECISION_FLOAT32:
        return 2e-6 * sqrt((double)timesteps);
    case PRECISION_BFLOAT16:
        return 1.5e-2;
    default:
        return 2e-3;
    }
}

static size_t output_bytes(const SelfTest *test, int index)
{
    const ReferenceOutput *output = &test->outputs[index];
    return output->values
               ? aligned(sizeof(double) * (size_t)(test->rows * output->steps * output->width))
               : 0;
}

static bool is_finite(const SelfTest *test, int index)
{
    const ReferenceOutput *output = &test->outputs[index];
    const int64_t count = output->values ? test->rows * output->steps * output->width : 0;
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(output->values[i]) <= (double)FLT_MAX))
            return false;
    return true;
}

const SelfTest *self_test_make(Arena *arena, const Model *model, const char **out_refusal)
{
    const int64_t batch = model->batch == 1 ? 1 : ANY_BATCH;
    const int64_t timesteps = model->timesteps ? model->timesteps : ANY_TIMESTEPS;
    const int64_t width = model->tokens ? 1 : model->features;
    *out_refusal = reference_refusal(model);
    if (*out_refusal)
        return NULL;
    ReferencePart part = reference_choose(arena, model, batch, timesteps, OPERATIONS);
    if (part.timesteps < timesteps)
        shorten(model, &part, timesteps);
    ReferencePart full = part;
    full.row_count = batch;
    if (operations_of(model, &full) <= OPERATIONS_MAX)
        part.row_count = batch;
    part.rows = ARENA_ARRAY(arena, int64_t, part.row_count);
    SelfTest *test = ARENA_NEW(arena, SelfTest);
    *test = (SelfTest){.rows = part.row_count, .timesteps = part.timesteps};
    for (int64_t row = 0; row < part.row_count; row++)
        part.rows[row] = row;
    *out_refusal = "its reference in float64 would take too long or too much room";
    const double room = 4.0 * (double)width * (double)(test->rows * test->timesteps);
    if (operations_of(model, &part) > OPERATIONS_MAX || room > 4.0 * BYTES_MAX)
        return NULL;
    test->x_bytes = 4 * (size_t)(test->rows * test->timesteps * width);
    test->x = draw_input(arena, model, test->rows * test->timesteps * width);
    test->tolerance = self_test_tolerance(model, test->timesteps);
    reference_run(arena, model, &part, test->timesteps, test->x, test->outputs);
    if (output_bytes(test, 0) + output_bytes(test, 1) > 16 * (size_t)BYTES_MAX)
        return NULL;
    *out_refusal = "its outputs are beyond float32";
    if (!is_finite(test, 0) || !is_finite(test, 1))
        return NULL;
    *out_refusal = NULL;
    return test;
}

const void *self_test_bytes(Arena *arena, const SelfTest *test, size_t *out_size_bytes)
{
    *out_size_bytes = aligned(test->x_bytes) + output_bytes(test, 0) + output_bytes(test, 1);
    unsigned char *bytes = arena_alloc(arena, *out_size_bytes);
    unsigned char *at = bytes + aligned(test->x_bytes);
    memcpy(bytes, test->x, test->x_bytes);
    for (int i = 0; i < 2; i++) {
        const ReferenceOutput *output = &test->outputs[i];
        if (output->values)
            memcpy(at, output->values,
                   sizeof(double) * (size_t)(test->rows * output->steps * output->width));
        at += output_bytes(test, i);
    }
    return bytes;
}

void self_test_print(const SelfTest *test, const char *data, Text *out)
{
    text_addf(out,
              "static const rnnc_self_test rnnc_test = {\n    .rows = %lld, .timesteps = %lld, "
              ".x = %s, .tolerance = %.9g,\n    .outputs = {",
              (long long)test->rows, (long long)test->timesteps, data, test->tolerance);
    size_t at = aligned(test->x_bytes);
    for (int i = 0; i < 2; i++) {
        const ReferenceOutput *output = &test->outputs[i];
        if (output->values)
            text_addf(out, "{(const double *)(const void *)(%s + %zu), %lld, %lld}, ", data, at,
                      (long long)output->steps, (long long)output->width);
        at += output_bytes(test, i);
    }
    text_add(out, "},\n};\n\n");
}
