// Two sessions of one module on two threads, for ThreadSanitizer:
//
//     sessions MODEL.so    each thread makes a session, runs it 1000 times and compares every run's
//                          bits with those of a run made alone before the threads start
//     sessions race        two threads add to one number: the sanitizer must report it, which shows
//                          that it watches
//
// The module takes x [B, T, 5] and gives y [B, T, 3], both float32, B and T any.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "rnnc/rnnc.h"

enum { B = 3, T = 7, I = 5, O = 3, RUNS = 1000, THREADS = 2 };

typedef struct {
    const rnnc_module *module;
    float x[B * T * I], y[B * T * O], alone[B * T * O];
    int32_t lengths[B];
    uint8_t mask[B * T];
    int is_masked; // the first thread has lengths, the second a mask
    int64_t differing;
    char message[512]; // "" while nothing failed
} Work;

static rnnc_status bind(rnnc_session *session, const char *name, void *data, DLDataType dtype,
                        int32_t ndim, int64_t features)
{
    int64_t shape[] = {B, T, features};
    const DLTensor tensor = {
        .data = data, .device = {kDLCPU, 0}, .ndim = ndim, .dtype = dtype, .shape = shape};
    return rnnc_bind(session, name, &tensor);
}

/// Runs a session of its own `runs` times; counts the runs that differ from `alone`.
static void run_session(Work *work, int runs)
{
    const DLDataType float32 = {kDLFloat, 32, 1};
    const rnnc_session_options options = {.device = "cpu", .max_batch = B, .max_timesteps = T};
    rnnc_session *session = NULL;
    rnnc_status status = rnnc_session_create(work->module, &options, &session);
    if (status == RNNC_OK)
        status = bind(session, "x", work->x, float32, 3, I);
    if (status == RNNC_OK)
        status = bind(session, "y", work->y, float32, 3, O);
    if (status == RNNC_OK)
        status = work->is_masked
                     ? bind(session, "mask", work->mask, (DLDataType){kDLUInt, 8, 1}, 2, 0)
                     : bind(session, "lengths", work->lengths, (DLDataType){kDLInt, 32, 1}, 1, 0);
    for (int i = 0; i < runs && status == RNNC_OK; i++) {
        memset(work->y, 0xff, sizeof work->y);
        status = rnnc_run(session);
        work->differing += memcmp(work->y, work->alone, sizeof work->y) != 0;
    }
    if (status != RNNC_OK)
        snprintf(work->message, sizeof work->message, "%s",
                 session ? rnnc_session_error(session) : rnnc_last_error());
    rnnc_session_destroy(session);
}

static void *run_often(void *argument)
{
    run_session(argument, RUNS);
    return NULL;
}

static void prepare(Work *work, const rnnc_module *module, int number)
{
    work->module = module;
    work->is_masked = number;
    for (int i = 0; i < B * T * I; i++)
        work->x[i] = (float)((i * 37 + number * 11) % 64) / 32 - 1;
    for (int i = 0; i < B * T; i++)
        work->mask[i] = i % 3 != 0;
    for (int i = 0; i < B; i++)
        work->lengths[i] = T - 2 * i;
    run_session(work, 1);
    memcpy(work->alone, work->y, sizeof work->y);
    work->differing = 0;
}

static int unguarded;

static void *add_often(void *argument)
{
    for (int i = 0; i < 1000; i++)
        unguarded += 1;
    return argument;
}

static int start_threads(void *(*function)(void *), Work *works)
{
    pthread_t threads[THREADS];
    int started = 0;
    while (started < THREADS &&
           pthread_create(&threads[started], NULL, function, &works[started]) == 0)
        started++;
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    return started;
}

int main(int argument_count, char **arguments)
{
    static Work works[THREADS];
    rnnc_module *module = NULL;
    if (argument_count != 2) {
        fprintf(stderr, "usage: sessions MODEL.so|race\n");
        return 2;
    }
    if (strcmp(arguments[1], "race") == 0)
        return start_threads(add_often, works) == THREADS ? 0 : 1;
    if (rnnc_module_open(arguments[1], &module) != RNNC_OK) {
        fprintf(stderr, "sessions: %s\n", rnnc_last_error());
        return 1;
    }
    for (int i = 0; i < THREADS; i++)
        prepare(&works[i], module, i);
    int failed = start_threads(run_often, works) != THREADS;
    for (int i = 0; i < THREADS; i++) {
        failed |= works[i].message[0] || works[i].differing;
        printf("session %d: %d runs, %lld differ%s%s\n", i, RUNS, (long long)works[i].differing,
               works[i].message[0] ? ": " : "", works[i].message);
    }
    rnnc_module_close(module);
    return failed;
}
