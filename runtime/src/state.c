// State: the recurrent state between runs. A bound tensor is read and written in place; without one
// the session's own memory is used, which starts anew at each run unless the layer is stateful or
// the caller has set it. What is carried or set belongs to as many rows as that run or call had.
#include "memory.h"
#include "session.h"

static rnnc_status fill_start(rnnc_session *session, int32_t index)
{
    const rnnc_own_state *state = &session->states[index];
    return session->ops->fill(session->device, state->memory,
                              (float)session->desc->tensors[index].start,
                              (size_t)(state->size * session->max_batch));
}

rnnc_status rnnc_states_create(rnnc_session *session)
{
    rnnc_status status = RNNC_OK;
    for (int32_t i = 0; i < session->desc->tensor_count && status == RNNC_OK; i++) {
        const rnnc_tensor_info *info = &session->desc->tensors[i].info;
        if (info->role != RNNC_ROLE_STATE)
            continue;
        rnnc_own_state *state = &session->states[i];
        void *memory = NULL;
        state->size = info->dims[1];
        status = session->ops->alloc(
            session->device, rnnc_memory_float_bytes(state->size, session->max_batch, 1), &memory);
        state->memory = memory;
        if (status == RNNC_OK)
            status = fill_start(session, i);
    }
    return status;
}

/// One state of a layer; what is bound brings its own rows.
static rnnc_status check_rows(rnnc_session *session, const rnnc_layer_desc *layer, int32_t index)
{
    const rnnc_own_state *state = &session->states[index];
    const long long batch = rnnc_session_batch(session), rows = state->rows;
    if (session->bindings[index].data || rows == 0 || rows == batch)
        return RNNC_OK;
    if (state->is_set)
        return rnnc_error_set(&session->error, RNNC_INVALID_ARGUMENT,
                              "%s: set for batch %lld, expected %lld as bound to x: set it again, "
                              "or let it go by rnnc_state_reset",
                              session->desc->tensors[index].info.name, rows, batch);
    return rnnc_error_set(&session->error, RNNC_INVALID_ARGUMENT,
                          "x: batch expected %lld, got %lld: layer '%s' is stateful and carries "
                          "the states of a batch of %lld; rnnc_state_reset lets them go",
                          rows, batch, layer->name, rows);
}

rnnc_status rnnc_states_check(rnnc_session *session)
{
    rnnc_status status = RNNC_OK;
    for (int32_t i = 0; i < session->desc->layer_count; i++) {
        const rnnc_layer_desc *layer = &session->desc->layers[i];
        for (int32_t k = 0; k < layer->state_count && status == RNNC_OK; k++)
            status = check_rows(session, layer, layer->states[k]);
    }
    return status;
}

rnnc_status rnnc_state_begin(rnnc_session *session, int32_t index, bool stateful,
                             float **out_memory)
{
    rnnc_own_state *state = &session->states[index];
    if (session->bindings[index].data) {
        *out_memory = session->bindings[index].data;
        return RNNC_OK;
    }
    *out_memory = state->memory;
    bool keep = stateful || state->is_set;
    state->is_set = false;
    state->rows = stateful ? rnnc_session_batch(session) : 0;
    return keep ? RNNC_OK : fill_start(session, index);
}

/// Rows of a state: those of the bound tensor, which need not be those of x before a run.
static int64_t state_batch(const rnnc_session *session, int32_t index)
{
    const rnnc_binding *binding = &session->bindings[index];
    return binding->data ? binding->dims[0] : rnnc_session_batch(session);
}

/// The rows that `count` values of a state are, where nothing that is bound tells how many there
/// are; else 0.
static int64_t free_rows(const rnnc_session *session, int32_t index, size_t count)
{
    const int64_t size = session->states[index].size, rows = size ? (int64_t)count / size : 0;
    const bool is_free = !session->bindings[session->x].data && !session->bindings[index].data;
    return is_free && rows <= session->max_batch && (int64_t)count == rows * size ? rows : 0;
}

/// The index of state `name` where it holds `count` values; else -1 with a message. `set`: they
/// are given, not asked for.
static int32_t find_state(rnnc_session *session, const char *name, size_t count, bool set)
{
    int32_t index = rnnc_tensor_find(session, name);
    if (index < 0)
        return -1;
    const rnnc_tensor_info *info = &session->desc->tensors[index].info;
    if (set && session->desc->batch == 0 && free_rows(session, index, count))
        session->rows = free_rows(session, index, count);
    int64_t batch = state_batch(session, index);
    size_t wanted = (size_t)(session->states[index].size * batch);
    if (info->role != RNNC_ROLE_STATE)
        rnnc_error_set(&session->error, RNNC_INVALID_ARGUMENT, "%s is not a state", name);
    else if (count != wanted)
        rnnc_error_set(&session->error, RNNC_INVALID_ARGUMENT,
                       "%s: %zu values given, expected %zu: batch %lld times %lld", name, count,
                       wanted, (long long)batch, (long long)session->states[index].size);
    else
        return index;
    return -1;
}

rnnc_status rnnc_state_get(rnnc_session *session, const char *name, float *out, size_t count)
{
    if (!session || !name || !out)
        return rnnc_error_set(session ? &session->error : NULL, RNNC_INVALID_ARGUMENT,
                              "rnnc_state_get: a pointer is NULL");
    int32_t index = find_state(session, name, count, false);
    if (index < 0)
        return RNNC_INVALID_ARGUMENT;
    const float *bound = session->bindings[index].data;
    return session->ops->read(session->device, out, bound ? bound : session->states[index].memory,
                              count * sizeof(float));
}

rnnc_status rnnc_state_set(rnnc_session *session, const char *name, const float *values,
                           size_t count)
{
    if (!session || !name || !values)
        return rnnc_error_set(session ? &session->error : NULL, RNNC_INVALID_ARGUMENT,
                              "rnnc_state_set: a pointer is NULL");
    int32_t index = find_state(session, name, count, true);
    if (index < 0)
        return RNNC_INVALID_ARGUMENT;
    float *bound = session->bindings[index].data;
    if (!bound) {
        session->states[index].is_set = true;
        session->states[index].rows = rnnc_session_batch(session);
    }
    return session->ops->write(session->device, bound ? bound : session->states[index].memory,
                               values, count * sizeof(float));
}

rnnc_status rnnc_state_reset(rnnc_session *session)
{
    if (!session)
        return rnnc_error_set(NULL, RNNC_INVALID_ARGUMENT, "rnnc_state_reset: session is NULL");
    rnnc_status status = RNNC_OK;
    for (int32_t i = 0; i < session->desc->tensor_count && status == RNNC_OK; i++) {
        if (session->desc->tensors[i].info.role != RNNC_ROLE_STATE)
            continue;
        session->states[i].is_set = false;
        session->states[i].rows = 0;
        session->rows = 0;
        status = fill_start(session, i);
        if (status == RNNC_OK && session->bindings[i].data)
            status = session->ops->fill(
                session->device, session->bindings[i].data, (float)session->desc->tensors[i].start,
                (size_t)(session->states[i].size * state_batch(session, i)));
    }
    return status;
}
