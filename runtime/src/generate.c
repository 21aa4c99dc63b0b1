// Generate: texts, a token of every row a step. The prompts run as sequences; then, step by step,
// the layers behind the last cell give logits from its output, the host draws, and the tokens go
// through embedding and cells. Meanwhile the session's x and y are buffers of this file:
//
//     prompts [rows, P] -> embedding, cells -> states
//     N times:  output of the last cell -> head -> logits -> draw -> tokens -> embedding, cells
//
// Rows that have ended change places with the last one under way, so that those are always first.
#include <stdio.h>
#include <string.h>

#include "layer.h"
#include "layout.h"
#include "memory.h"
#include "sampler.h"
#include "session.h"

typedef struct {
    rnnc_session *session;
    const rnnc_generation *given;
    int64_t rows, active, vocabulary, chunk; ///< chunk: prompt steps of one run
    int32_t last_cell;
    bool folded, one_launch;
    bool is_cancelled;
    int64_t no_token_row, no_token_step; ///< of the first draw without a logit; row -1: none
    rnnc_sampler sampler;
    int32_t *tokens;     ///< [rows], those under way in the device's order
    int32_t *delivered;  ///< [rows] of the caller's order, as on_tokens takes them
    int64_t *row_of;     ///< [rows], the caller's row at each place
    int64_t *counts;     ///< [rows] of the caller's order
    int32_t *lengths;    ///< [rows], of a prompt's chunk
    float *logits;       ///< [rows, vocabulary]
    void *device_tokens; ///< [rows, chunk]
    void *device_lengths, *device_logits;
    rnnc_layer_call *calls; ///< one for each layer
    rnnc_binding kept[4];   ///< of x, y, mask and lengths
} Generator;

static int64_t prompt_length(const rnnc_generation *given, int64_t row)
{
    return given->prompt_lengths ? given->prompt_lengths[row] : given->prompt_length;
}

static rnnc_status check_prompts(Generator *generator)
{
    const rnnc_generation *given = generator->given;
    rnnc_error *error = &generator->session->error;
    for (int64_t row = 0; row < generator->rows; row++) {
        const int64_t length = prompt_length(given, row);
        if (length < 0 || (length > 0 && !given->prompts))
            return rnnc_error_set(error, RNNC_INVALID_ARGUMENT,
                                  "prompt of row %lld: %lld tokens at %s", (long long)row,
                                  (long long)length, given->prompts ? "a place" : "NULL");
        for (int64_t i = 0; i < length; i++) {
            const int32_t token = given->prompts[row * given->prompt_stride + i];
            if (token < 0 || token >= generator->vocabulary)
                return rnnc_error_set(error, RNNC_INVALID_ARGUMENT,
                                      "prompt of row %lld: token %d at place %lld is outside 0 to "
                                      "%lld",
                                      (long long)row, (int)token, (long long)i,
                                      (long long)(generator->vocabulary - 1));
        }
        generator->chunk = length > generator->chunk ? length : generator->chunk;
    }
    if (generator->chunk > generator->session->max_timesteps)
        generator->chunk = generator->session->max_timesteps;
    return RNNC_OK;
}

static rnnc_status check_sizes(Generator *generator)
{
    rnnc_session *session = generator->session;
    const rnnc_generation *given = generator->given;
    const int64_t fixed = session->desc->batch, most = session->max_batch;
    generator->rows = given->rows ? given->rows : rnnc_session_batch(session);
    if (generator->rows < 1 || generator->rows > most || (fixed && generator->rows != fixed))
        return rnnc_error_set(
            &session->error, RNNC_INVALID_ARGUMENT, "rows is %lld, expected %s%lld%s",
            (long long)generator->rows, fixed ? "" : "1 to ", (long long)most,
            fixed ? ", the batch that the model is compiled for" : ", the session's max_batch");
    if (given->length < 0 || given->first_draw < 0)
        return rnnc_error_set(&session->error, RNNC_INVALID_ARGUMENT,
                              "%s is %lld, expected 0 or more",
                              given->length < 0 ? "length" : "first_draw",
                              (long long)(given->length < 0 ? given->length : given->first_draw));
    if (given->length > 0 && !given->tokens && !given->on_tokens)
        return rnnc_error_set(&session->error, RNNC_INVALID_ARGUMENT,
                              "tokens and on_tokens are NULL: nobody takes what is drawn");
    return RNNC_OK;
}

static rnnc_status check(Generator *generator)
{
    rnnc_session *session = generator->session;
    const char *reason;
    generator->last_cell = rnnc_module_last_cell(session->desc, &reason);
    if (generator->last_cell < 0)
        return rnnc_error_set(&session->error, RNNC_INVALID_ARGUMENT,
                              "module '%s' generates no text: %s", session->desc->name, reason);
    generator->vocabulary = session->desc->layers[0].inputs;
    generator->chunk = 1;
    rnnc_status status = check_sizes(generator);
    return status == RNNC_OK ? check_prompts(generator) : status;
}

static rnnc_status allocate(Generator *generator)
{
    rnnc_session *session = generator->session;
    const size_t rows = (size_t)generator->rows;
    const size_t logit_bytes = rnnc_memory_float_bytes(generator->rows, generator->vocabulary, 1);
    generator->tokens = rnnc_memory_alloc(rows * sizeof *generator->tokens);
    generator->delivered = rnnc_memory_alloc(rows * sizeof *generator->delivered);
    generator->row_of = rnnc_memory_alloc(rows * sizeof *generator->row_of);
    generator->counts = rnnc_memory_alloc(rows * sizeof *generator->counts);
    generator->lengths = rnnc_memory_alloc(rows * sizeof *generator->lengths);
    generator->logits = rnnc_memory_alloc(logit_bytes);
    generator->calls =
        rnnc_memory_alloc((size_t)session->desc->layer_count * sizeof *generator->calls);
    if (!generator->tokens || !generator->delivered || !generator->row_of || !generator->counts ||
        !generator->lengths || !generator->logits || !generator->calls)
        return rnnc_error_set(&session->error, RNNC_OUT_OF_MEMORY, "no memory for %zu rows", rows);
    const rnnc_device_ops *ops = session->ops;
    rnnc_status status =
        ops->alloc(session->device, rnnc_memory_float_bytes(generator->rows, generator->chunk, 1),
                   &generator->device_tokens);
    if (status == RNNC_OK)
        status = ops->alloc(session->device, rows * sizeof(int32_t), &generator->device_lengths);
    if (status == RNNC_OK)
        status = ops->alloc(session->device, logit_bytes, &generator->device_logits);
    for (int64_t row = 0; row < generator->rows; row++)
        generator->row_of[row] = row;
    generator->active = generator->rows;
    return status;
}

static void release(Generator *generator)
{
    rnnc_session *session = generator->session;
    void *device[] = {generator->device_tokens, generator->device_lengths,
                      generator->device_logits};
    void *host[] = {generator->tokens,  generator->delivered, generator->row_of, generator->counts,
                    generator->lengths, generator->logits,    generator->calls};
    for (size_t i = 0; i < sizeof device / sizeof device[0]; i++)
        if (device[i])
            session->ops->free(session->device, device[i]);
    for (size_t i = 0; i < sizeof host / sizeof host[0]; i++)
        rnnc_memory_free(host[i]);
    rnnc_sampler_close(&generator->sampler);
}

/// x becomes [rows, steps] tokens of this file, y one step's logits; nothing masks.
static void bind_own(Generator *generator, int64_t steps)
{
    rnnc_session *session = generator->session;
    const rnnc_axes axes =
        rnnc_tensor_axes(session->desc, &session->desc->tensors[session->x].info);
    rnnc_binding *x = &session->bindings[session->x], *y = &session->bindings[session->y];
    *x = (rnnc_binding){.data = generator->device_tokens, .row_stride = steps, .step_stride = 1};
    x->dims[axes.batch] = generator->rows;
    x->dims[axes.time] = steps;
    *y = (rnnc_binding){.data = generator->device_logits,
                        .row_stride = generator->vocabulary,
                        .step_stride = generator->vocabulary};
    if (session->mask >= 0)
        session->bindings[session->mask].data = NULL;
    if (session->lengths >= 0)
        session->bindings[session->lengths].data = NULL;
}

/// Puts the caller's bindings aside, or back.
static rnnc_status swap_bindings(Generator *generator, bool back)
{
    rnnc_session *session = generator->session;
    const int32_t indices[] = {session->x, session->y, session->mask, session->lengths};
    for (int i = 0; i < 4; i++)
        if (indices[i] >= 0 && back)
            session->bindings[indices[i]] = generator->kept[i];
        else if (indices[i] >= 0)
            generator->kept[i] = session->bindings[indices[i]];
    return rnnc_session_set_masking(session, back && generator->kept[2].data,
                                    back && generator->kept[3].data);
}

/// The states are those to go on from, in the next layers that are prepared.
static void keep_states(Generator *generator)
{
    rnnc_session *session = generator->session;
    for (int32_t i = 0; i < session->desc->tensor_count; i++)
        if (session->desc->tensors[i].info.role == RNNC_ROLE_STATE) {
            session->states[i].is_set = true;
            session->states[i].rows = generator->rows;
        }
}

/// The prompts' steps `start` and on, as many as one run takes; whether all rows have them all.
static rnnc_status write_chunk(Generator *generator, int64_t start, int64_t steps, bool *out_even)
{
    const rnnc_generation *given = generator->given;
    rnnc_session *session = generator->session;
    rnnc_status status = RNNC_OK;
    *out_even = true;
    for (int64_t row = 0; row < generator->rows && status == RNNC_OK; row++) {
        const int64_t left = prompt_length(given, row) - start;
        const int64_t taken = left < 0 ? 0 : left < steps ? left : steps;
        *out_even = *out_even && taken == steps;
        generator->lengths[row] = (int32_t)taken;
        if (taken > 0)
            status = session->ops->write(session->device,
                                         (int32_t *)generator->device_tokens + row * steps,
                                         given->prompts + row * given->prompt_stride + start,
                                         (size_t)taken * sizeof(int32_t));
        // What stands behind a row's steps is read, if to no end, and so has to be tokens.
        if (taken < steps && status == RNNC_OK)
            status = session->ops->fill(session->device,
                                        (float *)generator->device_tokens + row * steps + taken, 0,
                                        (size_t)(steps - taken));
    }
    if (status == RNNC_OK)
        status = session->ops->write(session->device, generator->device_lengths, generator->lengths,
                                     (size_t)generator->rows * sizeof(int32_t));
    return status;
}

static rnnc_status run_prompts(Generator *generator)
{
    rnnc_session *session = generator->session;
    rnnc_status status = RNNC_OK;
    int64_t longest = 0;
    for (int64_t row = 0; row < generator->rows; row++)
        if (prompt_length(generator->given, row) > longest)
            longest = prompt_length(generator->given, row);
    for (int64_t start = 0, steps; start < longest && status == RNNC_OK; start += steps) {
        steps = longest - start < generator->chunk ? longest - start : generator->chunk;
        bool is_even;
        status = write_chunk(generator, start, steps, &is_even);
        bind_own(generator, steps);
        if (status == RNNC_OK)
            status = rnnc_session_set_masking(session, false, !is_even);
        if (!is_even)
            session->bindings[session->lengths].data = generator->device_lengths;
        if (status == RNNC_OK)
            status = rnnc_session_run(session, generator->last_cell + 1, false);
        keep_states(generator);
    }
    return status;
}

/// Each layer's call of one step, the same for all steps but for the rows under way.
static rnnc_status prepare_steps(Generator *generator)
{
    rnnc_session *session = generator->session;
    const rnnc_module_desc *desc = session->desc;
    bind_own(generator, 1);
    rnnc_status status = rnnc_session_set_masking(session, false, false);
    if (status == RNNC_OK)
        status = rnnc_session_begin(session);
    if (status == RNNC_OK && session->ops->fold)
        status = session->ops->fold(session->device, &generator->folded);
    for (int32_t i = 0; i < desc->layer_count && status == RNNC_OK; i++) {
        rnnc_layer_call *call = &generator->calls[i];
        *call = (rnnc_layer_call){.layer = i, .batch = generator->rows, .timesteps = 1};
        status = rnnc_session_prepare(session, call);
    }
    if (status != RNNC_OK)
        return status;
    if (generator->folded) {
        rnnc_layer_call *first = &generator->calls[1];
        first->folded = true;
        first->x = generator->device_tokens;
        first->x_row_stride = first->x_step_stride = 1;
    }
    // A cell's output is its first state, which is there also before the first step.
    const rnnc_layer_desc *cell = &desc->layers[generator->last_cell];
    rnnc_layer_call *head = &generator->calls[generator->last_cell + 1];
    head->x = generator->calls[generator->last_cell].states[0];
    head->x_row_stride = head->x_step_stride = cell->state_sizes[0];
    return RNNC_OK;
}

/// Runs layers `first` to `end` of step `step`.
static rnnc_status run_step(Generator *generator, int32_t first, int32_t end, int64_t step)
{
    rnnc_session *session = generator->session;
    rnnc_status status = RNNC_OK;
    for (int32_t i = first, count; i < end && status == RNNC_OK; i += count) {
        count = rnnc_layer_stack(session->desc, i);
        for (int32_t k = i; k < i + count; k++) {
            generator->calls[k].batch = generator->active;
            generator->calls[k].step = step + 1;
        }
        status = session->ops->run_layers(session->device, &generator->calls[i], count);
    }
    return status;
}

/// Draws every active row's token and tells the caller. *out_go_on: it has not cancelled.
static rnnc_status draw(Generator *generator, int64_t step, bool *out_go_on)
{
    rnnc_session *session = generator->session;
    const rnnc_generation *given = generator->given;
    for (int64_t row = 0; row < generator->rows; row++)
        generator->delivered[row] = -1;
    for (int64_t i = 0; i < generator->active; i++) {
        const int64_t row = generator->row_of[i];
        const uint64_t seed = given->seeds ? given->seeds[row] : session->seed + (uint64_t)row;
        const int32_t token =
            rnnc_sampler_draw(&generator->sampler, generator->logits + i * generator->vocabulary,
                              seed, (uint64_t)(given->first_draw + step));
        if (token < 0)
            return rnnc_error_set(&session->error, RNNC_INVALID_ARGUMENT,
                                  "row %lld, token %lld: every logit is NaN or banned",
                                  (long long)row, (long long)step);
        generator->tokens[i] = generator->delivered[row] = token;
        generator->counts[row]++;
        if (given->tokens)
            given->tokens[row * given->length + step] = token;
    }
    *out_go_on =
        !given->on_tokens || given->on_tokens(given->context, step, generator->delivered) == 0;
    return RNNC_OK;
}

/// Two places change their rows and states.
static rnnc_status swap_rows(Generator *generator, int64_t a, int64_t b)
{
    rnnc_session *session = generator->session;
    rnnc_status status = RNNC_OK;
    for (int32_t i = 0; i <= generator->last_cell && status == RNNC_OK; i++) {
        const rnnc_layer_desc *layer = &session->desc->layers[i];
        for (int32_t k = 0; k < layer->state_count && status == RNNC_OK; k++) {
            const size_t bytes = (size_t)layer->state_sizes[k] * sizeof(float);
            float *at[] = {generator->calls[i].states[k] + a * layer->state_sizes[k],
                           generator->calls[i].states[k] + b * layer->state_sizes[k]};
            char *values = rnnc_memory_alloc(2 * bytes);
            if (!values)
                return rnnc_error_set(&session->error, RNNC_OUT_OF_MEMORY, "no memory for a state");
            for (int n = 0; n < 2 && status == RNNC_OK; n++)
                status =
                    session->ops->read(session->device, values + (size_t)n * bytes, at[n], bytes);
            for (int n = 0; n < 2 && status == RNNC_OK; n++)
                status = session->ops->write(session->device, at[1 - n], values + (size_t)n * bytes,
                                             bytes);
            rnnc_memory_free(values);
        }
    }
    const int64_t moved = generator->row_of[a];
    generator->row_of[a] = generator->row_of[b];
    generator->row_of[b] = moved;
    return status;
}

/// Rows whose token was a stop go behind those under way.
static rnnc_status retire(Generator *generator)
{
    rnnc_status status = RNNC_OK;
    for (int64_t i = generator->active; i-- > 0 && status == RNNC_OK;)
        if (generator->sampler.stops[generator->tokens[i]]) {
            const int64_t last = --generator->active;
            if (i != last) {
                status = swap_rows(generator, i, last);
                generator->tokens[i] = generator->tokens[last];
            }
        }
    return status;
}

/// Each row's states to the caller's row.
static rnnc_status order_rows(Generator *generator)
{
    rnnc_status status = RNNC_OK;
    for (int64_t i = 0; i < generator->rows && status == RNNC_OK; i++)
        while (generator->row_of[i] != i && status == RNNC_OK)
            status = swap_rows(generator, i, generator->row_of[i]);
    return status;
}

/// Takes a step that the device has drawn, as rnnc_device_generation says.
static bool take_step(void *context, int64_t step, const int32_t *tokens)
{
    Generator *generator = context;
    const rnnc_generation *given = generator->given;
    for (int64_t row = 0; row < generator->rows; row++) {
        if (tokens[row] == -2 && generator->no_token_row < 0) {
            generator->no_token_row = row;
            generator->no_token_step = step;
        }
        generator->delivered[row] = tokens[row] < 0 ? -1 : tokens[row];
        if (tokens[row] < 0)
            continue;
        generator->counts[row]++;
        if (given->tokens)
            given->tokens[row * given->length + step] = tokens[row];
    }
    if (generator->no_token_row >= 0)
        return false;
    if (!generator->is_cancelled && given->on_tokens)
        generator->is_cancelled = given->on_tokens(given->context, step, generator->delivered) != 0;
    return !generator->is_cancelled;
}

/// All tokens by the device itself; RNNC_UNAVAILABLE, with the session knowing why, where it
/// cannot.
static rnnc_status run_at_once(Generator *generator)
{
    rnnc_session *session = generator->session;
    const rnnc_generation *given = generator->given;
    const rnnc_sampler *sampler = &generator->sampler;
    session->generator_reason[0] = '\0';
    if (!session->ops->generate || given->length == 0)
        return RNNC_UNAVAILABLE;
    uint64_t *seeds = rnnc_memory_alloc((size_t)generator->rows * sizeof *seeds);
    if (!seeds)
        return rnnc_error_set(&session->error, RNNC_OUT_OF_MEMORY, "no memory for seeds");
    for (int64_t row = 0; row < generator->rows; row++)
        seeds[row] = given->seeds ? given->seeds[row] : session->seed + (uint64_t)row;
    const rnnc_device_generation generation = {.rows = generator->rows,
                                               .length = given->length,
                                               .first_draw = given->first_draw,
                                               .seeds = seeds,
                                               .greedy = sampler->greedy,
                                               .inverse_temperature = sampler->inverse_temperature,
                                               .top_p = sampler->top_p,
                                               .top_k = sampler->top_k,
                                               .banned = sampler->banned,
                                               .stops = sampler->stops,
                                               .calls = generator->calls,
                                               .deliver = take_step,
                                               .context = generator};
    rnnc_status status = session->ops->generate(session->device, &generation);
    rnnc_memory_free(seeds);
    if (status == RNNC_UNAVAILABLE)
        snprintf(session->generator_reason, sizeof session->generator_reason, "%.500s",
                 session->error.message);
    if (status == RNNC_OK && generator->no_token_row >= 0)
        status =
            rnnc_error_set(&session->error, RNNC_INVALID_ARGUMENT,
                           "row %lld, token %lld: every logit is NaN or banned",
                           (long long)generator->no_token_row, (long long)generator->no_token_step);
    generator->one_launch = status == RNNC_OK;
    return status;
}

static rnnc_status run_one_by_one(Generator *generator)
{
    rnnc_session *session = generator->session;
    const rnnc_device_ops *ops = session->ops;
    const int32_t layer_count = session->desc->layer_count, head = generator->last_cell + 1;
    rnnc_status status = RNNC_OK;
    bool go_on = true;
    for (int64_t step = 0;
         step < generator->given->length && generator->active > 0 && go_on && status == RNNC_OK;
         step++) {
        const size_t active = (size_t)generator->active;
        const rnnc_run_inputs inputs = {
            .batch = generator->active, .timesteps = 1, .seed = session->seed};
        status = ops->begin_run(session->device, &inputs);
        if (status == RNNC_OK)
            status = run_step(generator, head, layer_count, step);
        if (status == RNNC_OK)
            status = ops->read(session->device, generator->logits, generator->device_logits,
                               active * (size_t)generator->vocabulary * sizeof(float));
        if (status == RNNC_OK)
            status = draw(generator, step, &go_on);
        if (status == RNNC_OK)
            status = ops->write(session->device, generator->device_tokens, generator->tokens,
                                active * sizeof(int32_t));
        if (status == RNNC_OK)
            status = run_step(generator, generator->folded ? 1 : 0, head, step);
        if (status == RNNC_OK)
            status = retire(generator);
    }
    if (status == RNNC_OK)
        status = order_rows(generator);
    if (status == RNNC_OK)
        status = ops->synchronize(session->device);
    generator->is_cancelled = !go_on;
    return status;
}

static rnnc_status run_steps(Generator *generator)
{
    rnnc_status status = prepare_steps(generator);
    if (status == RNNC_OK)
        status = run_at_once(generator);
    if (status == RNNC_UNAVAILABLE)
        status = run_one_by_one(generator);
    return status == RNNC_OK && generator->is_cancelled
               ? rnnc_error_set(&generator->session->error, RNNC_CANCELLED,
                                "on_tokens has ended the generation")
               : status;
}

static rnnc_status generate(Generator *generator)
{
    rnnc_session *session = generator->session;
    const rnnc_generation *given = generator->given;
    rnnc_status status = swap_bindings(generator, false);
    bind_own(generator, 1);
    if (status == RNNC_OK)
        status = rnnc_states_check(session);
    if (status == RNNC_OK)
        status = run_prompts(generator);
    for (int64_t i = 0; i < generator->rows * given->length && given->tokens; i++)
        given->tokens[i] = -1;
    if (status == RNNC_OK)
        status = run_steps(generator);
    for (int64_t row = 0; row < generator->rows && given->counts; row++)
        given->counts[row] = generator->counts[row];
    const rnnc_status restored = swap_bindings(generator, true);
    return status == RNNC_OK ? restored : status;
}

rnnc_status rnnc_generate(rnnc_session *session, const rnnc_generation *generation)
{
    if (!session || !generation)
        return rnnc_error_set(session ? &session->error : NULL, RNNC_INVALID_ARGUMENT,
                              "rnnc_generate: %s is NULL", session ? "generation" : "session");
    Generator generator = {.session = session, .given = generation, .no_token_row = -1};
    rnnc_status status = check(&generator);
    if (status == RNNC_OK)
        status = rnnc_sampler_open(&generator.sampler, generation, generator.vocabulary,
                                   &session->error);
    if (status == RNNC_OK)
        status = allocate(&generator);
    if (status == RNNC_OK)
        status = generate(&generator);
    if (status == RNNC_OK || status == RNNC_CANCELLED) {
        session->rows = generator.rows;
        session->is_folded = generator.folded;
        session->is_one_launch = generator.one_launch;
        session->has_generated = true;
    }
    release(&generator);
    return status;
}

const char *rnnc_session_generator(const rnnc_session *session, const char **out_reason)
{
    if (!session || !session->has_generated)
        return NULL;
    if (out_reason && session->is_one_launch)
        *out_reason = "embedding, cells, dense layer and draw in one kernel";
    else if (out_reason && session->generator_reason[0])
        *out_reason = session->generator_reason;
    else if (out_reason)
        *out_reason = session->is_folded ? "a run of each layer a token, the embedding times the "
                                           "first cell's W in a table; the host draws"
                                         : "a run of each layer a token; the host draws";
    return session->is_one_launch ? "in one launch" : "step by step";
}

int64_t rnnc_module_generates(const rnnc_module *module, const char **out_reason)
{
    const char *reason = "module is NULL";
    const bool generates = module && rnnc_module_last_cell(module->desc, &reason) >= 0;
    if (out_reason)
        *out_reason = reason;
    return generates ? module->desc->layers[0].inputs : 0;
}
