// Models that generate text, for the tests of that: stacks of cells of different kinds with dense
// and activation layers between and behind them, all of a vocabulary of V tokens.
#ifndef RNNC_TESTS_GENERATE_FIXTURE_H
#define RNNC_TESTS_GENERATE_FIXTURE_H

#include "runtime_fixture.h"

enum { V = 11, N = 40 };

static const char *const bodies[] = {
    "  - {embedding: 6, name: e}\n"
    "  - {cell: gru, units: 19, return_sequences: true, name: a}\n"
    "  - {dense: 11, name: d}\n",
    "  - {embedding: 6, name: e}\n"
    "  - {cell: lstm, units: 17, return_sequences: true, projection: 5, name: a}\n"
    "  - {dense: {units: 9, activation: tanh}, name: m}\n"
    "  - {cell: slstm, units: 8, return_sequences: true, layers: 2, name: b}\n"
    "  - {cell: layer_norm_lstm, units: 6, return_sequences: true, name: c}\n"
    "  - {dense: {units: 13, activation: relu}, name: h}\n"
    "  - {dense: 11, name: d}\n"
    "  - {activation: softsign, name: s}\n",
    "  - {embedding: 3, name: e}\n"
    "  - {dense: 4, name: m}\n"
    "  - {cell: mgu, units: 1, name: a}\n"
    "  - {dense: 11, name: d}\n",
};
enum { MODELS = sizeof bodies / sizeof bodies[0] };

/// Compiles the first `count` models, to model0.so and on.
static void compile_models(int count)
{
    fixture_open_folder();
    for (int i = 0; i < count; i++) {
        char name[16], spec[1024];
        snprintf(name, sizeof name, "model%d", i);
        snprintf(spec, sizeof spec,
                 "rnnc: 1\ninput: {tokens: 11, batch: any, timesteps: any}\nlayers:\n%s"
                 "weights: {seed: %d}\n",
                 bodies[i], i + 1);
        fixture_compile(name, spec);
    }
}

static rnnc_module *numbered(int number)
{
    char name[32];
    snprintf(name, sizeof name, "model%d.so", number);
    return fixture_module(name);
}

static void generate(rnnc_session *session, const rnnc_generation *generation)
{
    const rnnc_status status = rnnc_generate(session, generation);
    ck_assert_msg(status == RNNC_OK, "%s", rnnc_session_error(session));
}

#endif
