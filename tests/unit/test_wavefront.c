// Wavefronts on a driver of the test's own: each stream knows what has come before its work (a
// vector clock), events carry that from stream to stream, and a chunk may only start when its input
// is complete. Which layers make a stack is asked of tables.
#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/wavefront.h"
#include "layer.h"

enum { LAYERS = 4, TIMESTEPS = 103, SLOTS = 8 };

/// Chunks of each layer that have come before.
typedef struct {
    int64_t steps[LAYERS];
} Clock;

static Clock streams[SLOTS], events[SLOTS];
static int stream_count, event_count, live;

static Clock *stream_clock(CUstream stream)
{
    return &streams[(intptr_t)stream];
}

static CUresult create_stream(CUstream *stream, unsigned flags)
{
    ck_assert_uint_eq(flags, CU_STREAM_NON_BLOCKING);
    live++;
    *stream = (CUstream)(intptr_t)++stream_count;
    return 0;
}
static CUresult create_event(CUevent *event, unsigned flags)
{
    ck_assert_uint_eq(flags, CU_EVENT_DISABLE_TIMING);
    live++;
    *event = (CUevent)(intptr_t)++event_count;
    return 0;
}
static CUresult destroy_stream(CUstream stream)
{
    ck_assert_ptr_nonnull(stream);
    live--;
    return 0;
}
static CUresult destroy_event(CUevent event)
{
    ck_assert_ptr_nonnull(event);
    live--;
    return 0;
}
static CUresult record(CUevent event, CUstream stream)
{
    events[(intptr_t)event] = *stream_clock(stream);
    return 0;
}
static CUresult wait(CUstream stream, CUevent event, unsigned flags)
{
    ck_assert_uint_eq(flags, 0);
    for (int i = 0; i < LAYERS; i++)
        if (events[(intptr_t)event].steps[i] > stream_clock(stream)->steps[i])
            stream_clock(stream)->steps[i] = events[(intptr_t)event].steps[i];
    return 0;
}
static CUresult words(CUresult result, const char **out)
{
    (void)result;
    *out = "words";
    return 0;
}

static const rnnc_cuda_driver driver = {.cuStreamCreate = create_stream,
                                        .cuEventCreate = create_event,
                                        .cuStreamDestroy = destroy_stream,
                                        .cuEventDestroy = destroy_event,
                                        .cuEventRecord = record,
                                        .cuStreamWaitEvent = wait,
                                        .cuGetErrorString = words};

static float x[TIMESTEPS], y[LAYERS][TIMESTEPS];
static int parts, fails_at;

/// A layer's chunk: all of its input has been made, it starts where the last one ended.
static rnnc_status run(void *context, rnnc_layer_call *part)
{
    const float *in = part->layer ? y[part->layer - 1] : x;
    Clock *clock = stream_clock(part->stream);
    const int64_t first = (const float *)part->x - in, end = first + part->timesteps;
    ck_assert_ptr_eq(context, &driver);
    ck_assert_int_eq(first, clock->steps[part->layer]);
    if (part->layer > 0)
        ck_assert_int_ge(clock->steps[part->layer - 1], end);
    ck_assert_int_ge(part->timesteps, 1);
    ck_assert_int_le(end, TIMESTEPS);
    ck_assert_int_eq(part->y - y[part->layer], part->layer == LAYERS - 1 ? 0 : first);
    clock->steps[part->layer] = end;
    return ++parts == fails_at ? RNNC_DEVICE_ERROR : RNNC_OK;
}

static rnnc_layer_desc layers[LAYERS];
static rnnc_module_desc module = {.layers = layers, .layer_count = LAYERS};

/// Cells that each read what the one before writes, in two buffers by turns; the last one returns
/// its last step.
static void make_stack(void)
{
    for (int i = 0; i < LAYERS; i++)
        layers[i] =
            (rnnc_layer_desc){.name = "l",
                              .kind = RNNC_LAYER_CELL,
                              .sequence_in = 1,
                              .sequence_out = i + 1 < LAYERS,
                              .in = {.slot = i ? (i - 1) % 2 : RNNC_SLOT_X, .width = i ? 5 : 3},
                              .in2 = {.slot = RNNC_SLOT_NONE},
                              .out = {.slot = i + 1 < LAYERS ? i % 2 : RNNC_SLOT_Y, .width = 5}};
}

static rnnc_cuda_wavefront *open_wavefront(rnnc_error *error)
{
    const rnnc_device_options options = {
        .module = &module, .max_batch = 1, .max_timesteps = TIMESTEPS, .error = error};
    rnnc_cuda_wavefront *wavefront;
    memset(streams, 0, sizeof streams);
    memset(events, 0, sizeof events);
    stream_count = event_count = live = parts = 0;
    ck_assert_int_eq(rnnc_cuda_wavefront_open(&driver, &options, NULL, &wavefront), RNNC_OK);
    ck_assert_ptr_nonnull(wavefront);
    return wavefront;
}

static rnnc_status run_chunks(rnnc_cuda_wavefront *wavefront, int64_t chunk)
{
    rnnc_layer_call calls[LAYERS];
    for (int i = 0; i < LAYERS; i++)
        calls[i] = (rnnc_layer_call){.layer = i,
                                     .x = i ? y[i - 1] : x,
                                     .y = y[i],
                                     .x_step_stride = 1,
                                     .y_step_stride = 1,
                                     .batch = 1,
                                     .timesteps = TIMESTEPS};
    return rnnc_cuda_wavefront_run(wavefront, &module, calls, LAYERS, chunk, run,
                                   (void *)(uintptr_t)&driver);
}

START_TEST(every_chunk_has_its_input)
{
    static const int64_t chunks[] = {1, 7, 51, 52, 103, 200};
    rnnc_error error;
    make_stack();
    fails_at = 0;
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        rnnc_cuda_wavefront *wavefront = open_wavefront(&error);
        ck_assert_int_eq(run_chunks(wavefront, chunks[i]), RNNC_OK);
        for (int k = 0; k < LAYERS; k++) // the session's stream comes after all of it
            ck_assert_int_eq(streams[0].steps[k], TIMESTEPS);
        ck_assert_int_eq(parts, LAYERS * ((TIMESTEPS + chunks[i] - 1) / chunks[i]));
        rnnc_cuda_wavefront_close(wavefront);
        ck_assert_int_eq(live, 0);
    }
}
END_TEST

START_TEST(failure_joins_the_streams)
{
    rnnc_error error;
    make_stack();
    fails_at = 6;
    rnnc_cuda_wavefront *wavefront = open_wavefront(&error);
    ck_assert_int_eq(run_chunks(wavefront, 10), RNNC_DEVICE_ERROR);
    ck_assert_int_eq(parts, 6);
    for (int k = 0; k < LAYERS; k++)
        for (int s = 1; s < LAYERS; s++)
            ck_assert_int_ge(streams[0].steps[k], streams[s].steps[k]);
    rnnc_cuda_wavefront_close(wavefront);
}
END_TEST

START_TEST(chunks_for_sizes)
{
    // Chunks: the root of (layers - 1) * T / 6, where (chunks + layers - 1) * (T / chunks + 6) is
    // least, without its fraction; fewer than two are none.
    ck_assert_int_eq(rnnc_cuda_wavefront_chunk(4, 100), 15);  // 7 chunks
    ck_assert_int_eq(rnnc_cuda_wavefront_chunk(2, 1000), 84); // 12 chunks
    ck_assert_int_eq(rnnc_cuda_wavefront_chunk(2, 23), 0);
    ck_assert_int_eq(rnnc_cuda_wavefront_chunk(8, 1), 0);
}
END_TEST

START_TEST(stacks_in_tables)
{
    make_stack();
    ck_assert_int_eq(rnnc_layer_stack(&module, 0), 4);
    ck_assert_int_eq(rnnc_layer_stack(&module, 2), 2);
    layers[2].reversed = 1;
    ck_assert_int_eq(rnnc_layer_stack(&module, 0), 2);
    ck_assert_int_eq(rnnc_layer_stack(&module, 2), 1);
    make_stack();
    layers[1].sequence_out = 0;
    ck_assert_int_eq(rnnc_layer_stack(&module, 0), 2);
    make_stack();
    layers[2].out.width = 6; // of the buffer that layer 0 writes rows of 5 to
    ck_assert_int_eq(rnnc_layer_stack(&module, 0), 2);
    make_stack();
    layers[3].beside = 1; // layer 2 has a partner
    ck_assert_int_eq(rnnc_layer_stack(&module, 0), 2);
    make_stack();
    layers[1].kind = RNNC_LAYER_DENSE;
    ck_assert_int_eq(rnnc_layer_stack(&module, 0), 1);
    ck_assert_int_eq(rnnc_layer_stack(&module, 1), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wavefront");
    TCase *tests = tcase_create("wavefront");
    tcase_add_test(tests, every_chunk_has_its_input);
    tcase_add_test(tests, failure_joins_the_streams);
    tcase_add_test(tests, chunks_for_sizes);
    tcase_add_test(tests, stacks_in_tables);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
