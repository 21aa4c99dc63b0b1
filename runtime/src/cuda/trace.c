/* A trace of what a session's runs put on the GPU, through CUPTI, which is opened at run time.
 * CUPTI collects for the whole process and calls back from threads of its own: one trace at a time,
 * and the list of records is behind a lock. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../error.h"
#include "cupti.h"
#include "library.h"
#include "rnnc/measure.h"

enum { BUFFER_BYTES = 1 << 20 };

static struct {
    int (*cuptiActivityEnable)(uint32_t kind);
    int (*cuptiActivityDisable)(uint32_t kind);
    int (*cuptiActivityFlushAll)(uint32_t flag);
    int (*cuptiActivityGetNextRecord)(uint8_t *buffer, size_t bytes, CuptiRecord **record);
    int (*cuptiActivityRegisterCallbacks)(void (*request)(uint8_t **buffer, size_t *size,
                                                          size_t *most_records),
                                          void (*complete)(void *context, uint32_t stream,
                                                           uint8_t *buffer, size_t size,
                                                           size_t valid));
    int (*cuptiGetResultString)(int result, const char **text);
} cupti;

static const rnnc_symbol symbols[] = {
#define CUPTI_SYMBOL(name)                                                                         \
    {                                                                                              \
#name, offsetof(__typeof__(cupti), name), 0                                                \
    }
    CUPTI_SYMBOL(cuptiActivityEnable),
    CUPTI_SYMBOL(cuptiActivityDisable),
    CUPTI_SYMBOL(cuptiActivityFlushAll),
    CUPTI_SYMBOL(cuptiActivityGetNextRecord),
    CUPTI_SYMBOL(cuptiActivityRegisterCallbacks),
    CUPTI_SYMBOL(cuptiGetResultString),
#undef CUPTI_SYMBOL
};

static const uint32_t kinds[] = {CUPTI_KIND_CONCURRENT_KERNEL, CUPTI_KIND_MEMCPY,
                                 CUPTI_KIND_MEMSET};
enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t tracing = PTHREAD_MUTEX_INITIALIZER, collecting = PTHREAD_MUTEX_INITIALIZER;
static int is_open;
static char failure[RNNC_REASON_BYTES];

/// What the trace in progress has collected; names are copies.
static struct {
    rnnc_trace_event *events;
    size_t count, room;
    int is_short; ///< memory ran out
} collected;

static void request_buffer(uint8_t **buffer, size_t *size, size_t *most_records)
{
    *buffer = aligned_alloc(8, BUFFER_BYTES);
    *size = *buffer ? BUFFER_BYTES : 0;
    *most_records = 0;
}

static rnnc_trace_event event_of(const CuptiRecord *record)
{
    if (record->kind != CUPTI_KIND_CONCURRENT_KERNEL) {
        const CuptiTransfer *transfer = (const void *)record;
        return (rnnc_trace_event){.kind = record->kind == CUPTI_KIND_MEMCPY ? RNNC_TRACE_COPY
                                                                            : RNNC_TRACE_SET,
                                  .stream = transfer->stream,
                                  .start_us = 1e-3 * (double)transfer->start,
                                  .end_us = 1e-3 * (double)transfer->end,
                                  .bytes = transfer->bytes};
    }
    const CuptiKernel *kernel = (const void *)record;
    rnnc_trace_event event = {.kind = RNNC_TRACE_KERNEL,
                              .name = kernel->name ? strdup(kernel->name) : NULL,
                              .stream = kernel->stream,
                              .start_us = 1e-3 * (double)kernel->start,
                              .end_us = 1e-3 * (double)kernel->end,
                              .registers = kernel->registers,
                              .shared_bytes =
                                  kernel->static_shared_bytes + kernel->dynamic_shared_bytes};
    memcpy(event.grid, kernel->grid, sizeof event.grid);
    memcpy(event.block, kernel->block, sizeof event.block);
    return event;
}

static void collect(const CuptiRecord *record)
{
    if (record->kind != kinds[0] && record->kind != kinds[1] && record->kind != kinds[2])
        return;
    if (collected.count == collected.room) {
        const size_t room = collected.room ? 2 * collected.room : 256;
        rnnc_trace_event *grown = realloc(collected.events, room * sizeof *grown);
        if (!grown) {
            collected.is_short = 1;
            return;
        }
        collected.events = grown;
        collected.room = room;
    }
    collected.events[collected.count++] = event_of(record);
}

static void complete_buffer(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                            size_t valid)
{
    (void)context, (void)stream, (void)size;
    CuptiRecord *record = NULL;
    pthread_mutex_lock(&collecting);
    while (buffer && valid && !cupti.cuptiActivityGetNextRecord(buffer, valid, &record))
        collect(record);
    pthread_mutex_unlock(&collecting);
    free(buffer);
}

static void open_library(void)
{
    static const char *const names[] = {"libcupti.so.13",
                                        "libcupti.so.12",
                                        "libcupti.so",
                                        "/usr/local/cuda/lib64/libcupti.so",
                                        "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
                                        NULL};
    is_open = rnnc_library_open("CUPTI", names, symbols, sizeof symbols / sizeof symbols[0], &cupti,
                                failure) &&
              !cupti.cuptiActivityRegisterCallbacks(request_buffer, complete_buffer);
    if (!is_open && !failure[0])
        snprintf(failure, sizeof failure, "CUPTI takes no callbacks: another tool may hold it");
}

static rnnc_status refuse(int result)
{
    const char *words = NULL;
    cupti.cuptiGetResultString(result, &words);
    return rnnc_error_set(NULL, RNNC_UNAVAILABLE, "CUPTI: %s", words ? words : "unknown error");
}

/// Runs between the switching on and off of CUPTI, and hands over what came of it.
static rnnc_status record(rnnc_session *session, int32_t runs, rnnc_trace *out)
{
    int enabled = 0, result = 0;
    for (; enabled < KIND_COUNT && !result; enabled++)
        result = cupti.cuptiActivityEnable(kinds[enabled]);
    rnnc_status status = result ? refuse(result) : RNNC_OK;
    for (int32_t i = 0; i < runs && status == RNNC_OK; i++)
        status = rnnc_measured_run(session);
    if (status == RNNC_OK)
        status = rnnc_synchronize(session);
    while (enabled > 0)
        cupti.cuptiActivityDisable(kinds[--enabled]);
    cupti.cuptiActivityFlushAll(CUPTI_FLUSH_FORCED);
    pthread_mutex_lock(&collecting);
    out->events = collected.events;
    out->count = collected.count;
    if (status == RNNC_OK && collected.is_short)
        status = rnnc_error_set(NULL, RNNC_OUT_OF_MEMORY, "no memory for the trace");
    memset(&collected, 0, sizeof collected);
    pthread_mutex_unlock(&collecting);
    return status;
}

rnnc_status rnnc_session_trace(rnnc_session *session, int32_t runs, rnnc_trace *out_trace)
{
    if (!session || !out_trace || runs < 1)
        return rnnc_error_set(NULL, RNNC_INVALID_ARGUMENT,
                              "rnnc_session_trace: a pointer is NULL, or no run is asked for");
    *out_trace = (rnnc_trace){0};
    if (strncmp(rnnc_session_device(session), "cuda", 4) != 0)
        return rnnc_error_set(NULL, RNNC_UNAVAILABLE, "only what runs on a GPU can be traced");
    pthread_once(&once, open_library);
    if (!is_open)
        return rnnc_error_set(NULL, RNNC_UNAVAILABLE, "%s", failure);
    pthread_mutex_lock(&tracing);
    const rnnc_status status = record(session, runs, out_trace);
    pthread_mutex_unlock(&tracing);
    if (status != RNNC_OK)
        rnnc_trace_free(out_trace);
    return status;
}

void rnnc_trace_free(rnnc_trace *trace)
{
    for (size_t i = 0; trace && i < trace->count; i++)
        free((void *)(uintptr_t)trace->events[i].name);
    if (trace) {
        free(trace->events);
        *trace = (rnnc_trace){0};
    }
}
