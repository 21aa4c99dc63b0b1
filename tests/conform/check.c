// Checking: the error of an output is ||out - ref|| / ||ref|| in float64, its bound the one of
// design section 12. A second run must give the same bits, and on the CPU every row of a batch the
// bits of its own run at B = 1.
#include "conform/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// More failures of one module and variant are counted, not printed.
enum { FAILURES_PRINTED = 3, FEW = 16 };

/// Results of one run, float32 as the module gives them.
typedef struct {
    float *y, *final[NETWORK_STATES_MAX];
} Answer;

static Answer answer_make(const Network *network, int64_t batch, int64_t timesteps)
{
    Answer answer = {0};
    answer.y = calloc((size_t)network_output_count(network, batch, timesteps) + 1, sizeof(float));
    for (int s = 0; s < network->state_count; s++)
        answer.final[s] = calloc((size_t)(batch * network->states[s].size) + 1, sizeof(float));
    return answer;
}

static void answer_free(Answer *answer)
{
    free(answer->y);
    for (int s = 0; s < NETWORK_STATES_MAX; s++)
        free(answer->final[s]);
}

/// cuDNN's persistent algorithms approximate tanh and sigmoid also in float32, to some 8e-6.
static const double cudnn_float32_bound = 1e-5;

/// The bound for one recurrent layer, times the root of the number of them.
static double bound_of(const Network *network, const char *variant, int64_t timesteps)
{
    int cells = 0;
    for (int l = 0; l < network->layer_count; l++)
        cells += network->layers[l].kind == NETWORK_CELL;
    double bound = 2e-6 * sqrt((double)timesteps);
    if (variant && strcmp(variant, "cudnn") == 0)
        bound = fmax(bound, cudnn_float32_bound);
    if (strcmp(network->precision, "tf32") == 0 || strcmp(network->precision, "float16") == 0)
        bound = 2e-3;
    if (strcmp(network->precision, "bfloat16") == 0)
        bound = 1.5e-2;
    return bound * sqrt((double)cells);
}

/// The norm of the reference is taken as 0.1 an element at least, and 0.3, a state's usual size,
/// where there are fewer than FEW values: a handful that happen to lie near zero (one unit, whose
/// 64 products cancel) have no relative accuracy in any arithmetic.
static double error_of(const float *out, const double *reference, int64_t count)
{
    double difference = 0.0, norm = 0.0;
    for (int64_t k = 0; k < count; k++) {
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
    char line[512];
    const int length =
        snprintf(line, sizeof line, "FAIL %s %s B=%ld T=%ld: %s\n", request->network->name,
                 request->variant ? request->variant : request->device, (long)sample->batch,
                 (long)sample->timesteps, what);
    fwrite(line, 1, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1, stdout);
    fflush(stdout);
}

static bool run(Runner *runner, const Sample *sample, Answer *answer, char error[200])
{
    return runner_run(runner, sample->batch, sample->timesteps, sample->x, sample->x_bytes,
                      sample->has_initial ? (float *const *)sample->initial : NULL, answer->y,
                      answer->final, error);
}

static void check_sample(const CheckRequest *request, Runner *runner, const Sample *sample,
                         Tally *tally)
{
    const Network *network = request->network;
    const double bound = bound_of(network, request->variant, sample->timesteps);
    Answer answer = answer_make(network, sample->batch, sample->timesteps);
    char message[200];
    if (!run(runner, sample, &answer, message)) {
        fail(request, sample, tally, message);
        answer_free(&answer);
        return;
    }
    const char *where = "y";
    double worst = error_of(answer.y, sample->y,
                            network_output_count(network, sample->batch, sample->timesteps));
    for (int s = 0; s < network->state_count; s++) {
        const double error =
            error_of(answer.final[s], sample->final[s], sample->batch * network->states[s].size);
        if (error > worst) {
            worst = error;
            where = network->states[s].name;
        }
    }
    tally->worst = fmax(tally->worst, worst / bound);
    if (worst > bound) {
        snprintf(message, sizeof message, "%s: error %.3g, bound %.3g", where, worst, bound);
        fail(request, sample, tally, message);
    } else {
        tally->passed++;
    }
    answer_free(&answer);
}

/// Whether rows [from, from + batch) of `whole` have the bits of `part`; else names the tensor.
static const char *difference(const Network *network, const Sample *sample, const Answer *whole,
                              const Answer *part, int64_t from, int64_t batch)
{
    const int64_t row = network_output_count(network, 1, sample->timesteps);
    if (memcmp(whole->y + from * row, part->y, (size_t)(batch * row) * sizeof(float)) != 0)
        return "y";
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
    Answer first = answer_make(network, sample->batch, sample->timesteps);
    Answer second = answer_make(network, sample->batch, sample->timesteps);
    char message[200];
    if (!run(runner, sample, &first, message) || !run(runner, sample, &second, message)) {
        fail(request, sample, tally, message);
    } else {
        const char *where = difference(network, sample, &first, &second, 0, sample->batch);
        snprintf(message, sizeof message, "%s: two runs differ", where ? where : "");
        if (where)
            fail(request, sample, tally, message);
        else
            tally->passed++;
    }
    answer_free(&first);
    answer_free(&second);
}

/// Runs row `row` of the sample alone.
static bool run_row(Runner *runner, const Sample *sample, int64_t row, Answer *answer,
                    char error[200])
{
    const Network *network = runner->network;
    const size_t x_bytes = sample->x_bytes / (size_t)sample->batch;
    float *initial[NETWORK_STATES_MAX] = {NULL};
    for (int s = 0; s < network->state_count; s++)
        initial[s] = sample->initial[s] + row * network->states[s].size;
    return runner_run(runner, 1, sample->timesteps, (const char *)sample->x + (size_t)row * x_bytes,
                      x_bytes, sample->has_initial ? initial : NULL, answer->y, answer->final,
                      error);
}

static void check_rows_alone(const CheckRequest *request, Runner *runner, const Sample *sample,
                             Tally *tally)
{
    const Network *network = request->network;
    Answer whole = answer_make(network, sample->batch, sample->timesteps);
    Answer alone = answer_make(network, 1, sample->timesteps);
    char message[200];
    bool ok = run(runner, sample, &whole, message);
    for (int64_t row = 0; ok && row < sample->batch; row++) {
        ok = run_row(runner, sample, row, &alone, message);
        const char *where = ok ? difference(network, sample, &whole, &alone, row, 1) : NULL;
        if (where)
            snprintf(message, sizeof message, "%s: row %ld differs from its run alone", where,
                     (long)row);
        ok = ok && !where;
    }
    if (ok)
        tally->passed++;
    else
        fail(request, sample, tally, message);
    answer_free(&whole);
    answer_free(&alone);
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

void check_module(const CheckRequest *request, Tally *out)
{
    rnnc_session_options options = {.device = request->device, .variant = request->variant};
    const Sample *largest = &request->samples[0], *few = NULL;
    for (int k = 0; k < request->sample_count; k++) {
        const Sample *sample = &request->samples[k];
        options.max_batch = options.max_batch > sample->batch ? options.max_batch : sample->batch;
        options.max_timesteps =
            options.max_timesteps > sample->timesteps ? options.max_timesteps : sample->timesteps;
        if (sample->batch * sample->timesteps > largest->batch * largest->timesteps)
            largest = sample;
        if (sample->batch > 1 && (!few || sample->batch <= few->batch) && sample->timesteps < 50)
            few = sample;
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
        fail(request, largest, out, message);
    } else {
        for (int k = 0; k < request->sample_count; k++)
            check_sample(request, &runner, &request->samples[k], out);
        check_same_bits(request, &runner, largest, out);
        if (few && !runner.cuda)
            check_rows_alone(request, &runner, few, out);
    }
    runner_close(&runner);
}
