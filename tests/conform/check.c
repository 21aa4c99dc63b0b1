// Checking: the error of an output is ||out - ref|| / ||ref|| in float64, its bound the one of
// design section 12. Further runs must give the same bits, every row of a batch the bits of its own
// run at B = 1, and a sequence in two parts the same states.
#include "conform/check.h"
#include "conform/condition.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// More failures of one module and variant are counted, not printed.
enum { FAILURES_PRINTED = 3, FEW = 16 };

/// Results of one run, float32 as the module gives them.
typedef struct {
    float *y[NETWORK_OUTPUTS_MAX], *final[NETWORK_STATES_MAX];
} Answer;

static Answer answer_make(const Network *network, int64_t batch, int64_t timesteps)
{
    Answer answer = {0};
    for (int k = 0; k < network_output_count(network); k++)
        answer.y[k] =
            calloc((size_t)network_output_elems(network, k, batch, timesteps) + 1, sizeof(float));
    for (int s = 0; s < network->state_count; s++)
        answer.final[s] = calloc((size_t)(batch * network->states[s].size) + 1, sizeof(float));
    return answer;
}

static void answer_free(Answer *answer)
{
    for (int k = 0; k < NETWORK_OUTPUTS_MAX; k++)
        free(answer->y[k]);
    for (int s = 0; s < NETWORK_STATES_MAX; s++)
        free(answer->final[s]);
}

/// cuDNN's persistent algorithms approximate tanh and sigmoid also in float32, to some 8e-6.
static const double cudnn_float32_bound = 1e-5;

static bool has_norms(const Network *network)
{
    for (int l = 0; l < network->layer_count; l++)
        for (int d = 0; d < network->layers[l].direction_count; d++)
            if (strcmp(network->layers[l].options[d].cell, "layer_norm_lstm") == 0)
                return true;
    return false;
}

/// The bound for one recurrent layer, times the root of the number of them; with norms at least
/// four times what the rounding of the weights alone does to the exact answer.
static double bound_of(const Network *network, const char *variant, const Sample *sample)
{
    int cells = 0;
    for (int l = 0; l < network->layer_count; l++)
        cells += network->layers[l].direction_count;
    double bound = 2e-6 * sqrt((double)sample->shape.timesteps);
    if (variant && strcmp(variant, "cudnn") == 0)
        bound = fmax(bound, cudnn_float32_bound);
    if (strcmp(network->precision, "tf32") == 0 || strcmp(network->precision, "float16") == 0)
        bound = 2e-3;
    if (strcmp(network->precision, "bfloat16") == 0)
        bound = 1.5e-2;
    bound *= sqrt((double)cells);
    return has_norms(network) ? fmax(bound, 4 * condition_of(network, sample)) : bound;
}

/// An infinity must come out as it is (slstm's m before its first step). The norm of the reference
/// is taken as 0.1 an element at least, and 0.3, a state's usual size,
/// where there are fewer than FEW values: a handful that happen to lie near zero (one unit, whose
/// 64 products cancel) have no relative accuracy in any arithmetic.
static double error_of(const float *out, const double *reference, int64_t count)
{
    double difference = 0.0, norm = 0.0;
    for (int64_t k = 0; k < count; k++) {
        if (isinf(reference[k]) && (double)out[k] == reference[k])
            continue;
        difference += ((double)out[k] - reference[k]) * ((double)out[k] - reference[k]);
        norm += reference[k] * reference[k];
    }
    const double least = (count < FEW ? 0.3 : 0.1) * sqrt((double)count);
    const double error = sqrt(difference) / fmax(sqrt(norm), least);
    return isnan(error) ? INFINITY : error;
}

static void fail(const CheckRequest *request, const Sample *sample, Tally *tally, const char *what)
{
    tally->failed++;
    snprintf(tally->note, sizeof tally->note, "%.190s", what);
    if (tally->failed > FAILURES_PRINTED)
        return;
    static const char *const maskings[] = {"", " mask", " lengths"};
    char line[512];
    const int length =
        snprintf(line, sizeof line, "FAIL %s %s B=%ld T=%ld%s: %s\n", request->network->name,
                 request->variant ? request->variant : request->device, (long)sample->shape.batch,
                 (long)sample->shape.timesteps, maskings[sample->shape.masking], what);
    fwrite(line, 1, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1, stdout);
    fflush(stdout);
}

static RunnerInput input_of(const Sample *sample)
{
    return (RunnerInput){.batch = sample->shape.batch,
                         .timesteps = sample->shape.timesteps,
                         .x = sample->x,
                         .mask = sample->mask,
                         .lengths = sample->lengths,
                         .initial = sample->shape.has_initial ? sample->initial : NULL,
                         .strided = sample->shape.strided,
                         .seed = sample->seed};
}

static rnnc_status run(Runner *runner, const Sample *sample, Answer *answer, char error[200])
{
    const RunnerInput input = input_of(sample);
    return runner_run(runner, &input, answer->y, answer->final, error);
}

/// The largest error of outputs and states, and where.
static double worst_of(const Network *network, const Sample *sample, const Answer *answer,
                       const char **out_where)
{
    const int64_t batch = sample->shape.batch;
    double worst = -1.0;
    for (int k = 0; k < network_output_count(network); k++) {
        const int64_t count = network_output_elems(network, k, batch, sample->shape.timesteps);
        const double error = error_of(answer->y[k], sample->y[k], count);
        *out_where = error > worst ? network_output_name(network, k) : *out_where;
        worst = fmax(worst, error);
    }
    for (int s = 0; s < network->state_count; s++) {
        const double error =
            error_of(answer->final[s], sample->final[s], batch * network->states[s].size);
        *out_where = error > worst ? network->states[s].name : *out_where;
        worst = fmax(worst, error);
    }
    return worst;
}

/// Whether the forced variant cannot run masks: no failure of an optional one.
static bool cannot_mask(const CheckRequest *request, const Sample *sample, rnnc_status status)
{
    return status == RNNC_UNAVAILABLE && !request->required &&
           sample->shape.masking != SAMPLE_PLAIN;
}

static void skip(Tally *tally, const char *reason)
{
    tally->skipped++;
    snprintf(tally->note, sizeof tally->note, "%.190s", reason);
}

static void check_sample(const CheckRequest *request, Runner *runner, const Sample *sample,
                         Tally *tally)
{
    const Network *network = request->network;
    const double bound = bound_of(network, request->variant, sample);
    Answer answer = answer_make(network, sample->shape.batch, sample->shape.timesteps);
    char message[200];
    const rnnc_status status = run(runner, sample, &answer, message);
    if (cannot_mask(request, sample, status)) {
        skip(tally, message);
    } else if (status != RNNC_OK) {
        fail(request, sample, tally, message);
    } else {
        const char *where = "";
        const double worst = worst_of(network, sample, &answer, &where);
        tally->worst = fmax(tally->worst, worst / bound);
        snprintf(message, sizeof message, "%s: error %.3g, bound %.3g", where, worst, bound);
        if (worst > bound)
            fail(request, sample, tally, message);
        else
            tally->passed++;
    }
    answer_free(&answer);
}

/// Whether rows [from, from + batch) of `whole` have the bits of `part`; else names the tensor.
static const char *difference(const Network *network, const Sample *sample, const Answer *whole,
                              const Answer *part, int64_t from, int64_t batch)
{
    for (int k = 0; k < network_output_count(network); k++) {
        const int64_t row = network_output_elems(network, k, 1, sample->shape.timesteps);
        if (memcmp(whole->y[k] + from * row, part->y[k], (size_t)(batch * row) * sizeof(float)))
            return network_output_name(network, k);
    }
    for (int s = 0; s < network->state_count; s++) {
        const int64_t size = network->states[s].size;
        if (memcmp(whole->final[s] + from * size, part->final[s],
                   (size_t)(batch * size) * sizeof(float)) != 0)
            return network->states[s].name;
    }
    return NULL;
}

static void check_same_bits(const CheckRequest *request, Runner *runner, const Sample *sample,
                            Tally *tally)
{
    const Network *network = request->network;
    Answer first = answer_make(network, sample->shape.batch, sample->shape.timesteps);
    Answer other = answer_make(network, sample->shape.batch, sample->shape.timesteps);
    char message[200];
    rnnc_status status = run(runner, sample, &first, message);
    const char *where = NULL;
    for (int k = 1; status == RNNC_OK && !where && k < request->repeats; k++) {
        status = run(runner, sample, &other, message);
        where = difference(network, sample, &first, &other, 0, sample->shape.batch);
        if (where)
            snprintf(message, sizeof message, "%s: run %d differs from the first", where, k + 1);
    }
    if (cannot_mask(request, sample, status))
        skip(tally, message);
    else if (status != RNNC_OK || where)
        fail(request, sample, tally, message);
    else
        tally->passed++;
    answer_free(&first);
    answer_free(&other);
}

/// Runs row `row` of the sample alone.
static rnnc_status run_row(Runner *runner, const Sample *sample, int64_t row, Answer *answer,
                           char error[200])
{
    const Network *network = runner->network;
    const int64_t steps = sample->shape.timesteps;
    const int64_t features = network_tokens(network) ? 1 : network->inputs;
    float *initial[NETWORK_STATES_MAX] = {NULL};
    for (int s = 0; s < network->state_count; s++)
        initial[s] = sample->initial[s] + row * network->states[s].size;
    RunnerInput input = input_of(sample);
    input.batch = 1;
    input.x = (const char *)sample->x + row * steps * features * 4;
    input.mask = sample->mask ? sample->mask + row * steps : NULL;
    input.lengths = sample->lengths ? sample->lengths + row : NULL;
    input.initial = sample->shape.has_initial ? initial : NULL;
    return runner_run(runner, &input, answer->y, answer->final, error);
}

/// Networks that drop are left out by the caller: their bits depend on the row's number.
static void check_rows_alone(const CheckRequest *request, Runner *runner, const Sample *sample,
                             Tally *tally)
{
    const Network *network = request->network;
    Answer whole = answer_make(network, sample->shape.batch, sample->shape.timesteps);
    Answer alone = answer_make(network, 1, sample->shape.timesteps);
    char message[200];
    rnnc_status status = run(runner, sample, &whole, message);
    const char *where = NULL;
    for (int64_t row = 0; status == RNNC_OK && !where && row < sample->shape.batch; row++) {
        status = run_row(runner, sample, row, &alone, message);
        where = status == RNNC_OK ? difference(network, sample, &whole, &alone, row, 1) : NULL;
        if (where)
            snprintf(message, sizeof message, "%s: row %ld differs from its run alone", where,
                     (long)row);
    }
    if (cannot_mask(request, sample, status))
        skip(tally, message);
    else if (status != RNNC_OK || where)
        fail(request, sample, tally, message);
    else
        tally->passed++;
    answer_free(&whole);
    answer_free(&alone);
}

/// Runs steps [from, from + count) of the sample from `states`; NULL: from those of the last run.
static rnnc_status run_part(Runner *runner, const Sample *sample, int64_t from, int64_t count,
                            float *const *states, Answer *answer, char error[200])
{
    const Network *network = runner->network;
    const int64_t T = sample->shape.timesteps, B = sample->shape.batch;
    const int64_t features = network_tokens(network) ? 1 : network->inputs;
    RunnerInput input = input_of(sample);
    char *x = calloc((size_t)(B * count * features + 1), 4);
    uint8_t *mask = calloc((size_t)(B * count) + 1, 1);
    for (int64_t row = 0; row < B; row++) {
        memcpy(x + row * count * features * 4,
               (const char *)sample->x + (row * T + from) * features * 4,
               (size_t)(count * features * 4));
        if (sample->mask)
            memcpy(mask + row * count, sample->mask + row * T + from, (size_t)count);
    }
    input.timesteps = count;
    input.x = x;
    input.mask = sample->mask ? mask : NULL;
    input.initial = states;
    input.carries = from > 0 && !states;
    const rnnc_status status = runner_run(runner, &input, answer->y, answer->final, error);
    free(x);
    free(mask);
    return status;
}

/// A sample in two parts, the states carried from one to the other, ends in the same states.
static void check_chunks(const CheckRequest *request, Runner *runner, const Sample *sample,
                         Tally *tally)
{
    const Network *network = request->network;
    const int64_t T = sample->shape.timesteps;
    Answer first = answer_make(network, sample->shape.batch, T);
    Answer second = answer_make(network, sample->shape.batch, T);
    char message[200];
    const double bound = bound_of(network, request->variant, sample);
    const bool bound_states = sample->shape.has_initial;
    rnnc_status status =
        run_part(runner, sample, 0, T / 2, bound_states ? sample->initial : NULL, &first, message);
    if (status == RNNC_OK)
        status = run_part(runner, sample, T / 2, T - T / 2, bound_states ? first.final : NULL,
                          &second, message);
    for (int s = 0; status == RNNC_OK && s < network->state_count; s++) {
        const double error = error_of(second.final[s], sample->final[s],
                                      sample->shape.batch * network->states[s].size);
        if (error <= bound)
            continue;
        snprintf(message, sizeof message, "%s in two parts: error %.3g, bound %.3g",
                 network->states[s].name, error, bound);
        status = RNNC_INVALID_ARGUMENT;
    }
    if (cannot_mask(request, sample, status))
        skip(tally, message);
    else if (status != RNNC_OK)
        fail(request, sample, tally, message);
    else
        tally->passed++;
    answer_free(&first);
    answer_free(&second);
}

/// The forced variant must be what runs; a fallback is said to be one. NULL: it is.
static const char *other_variant(const Runner *runner, const char *variant, char reason[200])
{
    const char *layer;
    for (size_t k = 0; variant && (layer = rnnc_session_layer(runner->session, k)); k++) {
        const char *why = NULL, *name = rnnc_session_variant(runner->session, layer, &why);
        if (!name || strncmp(name, variant, strcspn(variant, ":")) != 0) {
            snprintf(reason, 200, "%s runs instead: %s", name ? name : "nothing", why ? why : "");
            return reason;
        }
    }
    return NULL;
}

/// Another session that runs the same module over and over, on its own thread and stream.
typedef struct {
    const CheckRequest *request;
    const rnnc_session_options *options;
    const Sample *sample;
    pthread_t thread;
    atomic_bool stop;
    char message[200]; ///< what went wrong; empty: nothing
} Load;

static void *run_load(void *argument)
{
    Load *load = argument;
    const Network *network = load->request->network;
    Answer first = answer_make(network, load->sample->shape.batch, load->sample->shape.timesteps);
    Answer other = answer_make(network, load->sample->shape.batch, load->sample->shape.timesteps);
    Runner runner;
    rnnc_status status =
        runner_open(&runner, network, load->request->module_path, load->options, load->message);
    if (status == RNNC_OK)
        status = run(&runner, load->sample, &first, load->message);
    while (status == RNNC_OK && !load->stop) {
        status = run(&runner, load->sample, &other, load->message);
        if (status == RNNC_OK &&
            difference(network, load->sample, &first, &other, 0, load->sample->shape.batch)) {
            snprintf(load->message, sizeof load->message, "the other session's bits differ");
            status = RNNC_DEVICE_ERROR;
        }
    }
    runner_close(&runner);
    answer_free(&first);
    answer_free(&other);
    return NULL;
}

/// Repeats `sample`, under the load of `other` where that is asked for.
static void check_repeats(const CheckRequest *request, const rnnc_session_options *options,
                          Runner *runner, const Sample *sample, const Sample *other, Tally *tally)
{
    Load load = {.request = request, .options = options, .sample = other};
    const bool loaded = request->loaded && pthread_create(&load.thread, NULL, run_load, &load) == 0;
    check_same_bits(request, runner, sample, tally);
    load.stop = true;
    if (loaded)
        pthread_join(load.thread, NULL);
    if (load.message[0])
        fail(request, other, tally, load.message);
}

static bool is_small(const Sample *sample)
{
    return sample->shape.batch > 1 && sample->shape.batch < 10 && sample->shape.timesteps < 50;
}

/// All that one session is asked.
static void check_session(const CheckRequest *request, const rnnc_session_options *options,
                          Runner *runner, Tally *out)
{
    const Sample *largest = &request->samples[0], *parted = NULL;
    const Sample *few[SAMPLE_LENGTHS + 1] = {NULL}; // of each masking one of several rows
    for (int k = 0; k < request->sample_count; k++) {
        const Sample *sample = &request->samples[k];
        const SampleShape *shape = &sample->shape;
        if (shape->batch * shape->timesteps > largest->shape.batch * largest->shape.timesteps)
            largest = sample;
        if (is_small(sample))
            few[shape->masking] = sample;
        if (is_small(sample) && shape->has_initial != request->stateful && shape->timesteps > 1 &&
            shape->masking != SAMPLE_LENGTHS)
            parted = sample;
        check_sample(request, runner, sample, out);
    }
    check_repeats(request, options, runner, largest, &request->samples[0], out);
    for (int masking = 0; request->rows && masking <= SAMPLE_LENGTHS; masking++)
        if (few[masking])
            check_rows_alone(request, runner, few[masking], out);
    if (request->chunks && parted)
        check_chunks(request, runner, parted, out);
}

void check_module(const CheckRequest *request, Tally *out)
{
    rnnc_session_options options = {.device = request->device, .variant = request->variant};
    for (int k = 0; k < request->sample_count; k++) {
        const SampleShape *shape = &request->samples[k].shape;
        options.max_batch = options.max_batch > shape->batch ? options.max_batch : shape->batch;
        options.max_timesteps =
            options.max_timesteps > shape->timesteps ? options.max_timesteps : shape->timesteps;
    }
    char message[200];
    Runner runner;
    const rnnc_status status =
        runner_open(&runner, request->network, request->module_path, &options, message);
    const char *other = status == RNNC_OK ? other_variant(&runner, request->variant, message)
                        : status == RNNC_UNAVAILABLE && request->variant ? message
                                                                         : NULL;
    if (other && !request->required) {
        out->skipped += request->sample_count;
        snprintf(out->note, sizeof out->note, "%.190s", other);
    } else if (status != RNNC_OK || other) {
        fail(request, &request->samples[0], out, message);
    } else {
        check_session(request, &options, &runner, out);
    }
    runner_close(&runner);
}
