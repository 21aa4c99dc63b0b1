// Trainer: see trainer.h.
#include "train/trainer.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sha256.h"
#include "build/interrupt.h"
#include "import/safetensors.h"
#include "train/checkpoint.h"
#include "train/network.h"
#include "train/text_rows.h"

static const double nats_a_bit = 0.69314718055994530942;

typedef struct {
    Arena *arena;
    Diags *diags;
    const TrainOptions *options;
    Network network;
    TextRows training, held_out;
    Checkpoint state;
    float *gradient;
    double lost; ///< bits of the steps since the last score
    int64_t lost_steps;
    double started;
    FILE *log;
} Trainer;

static double seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

double train_rate(const TrainOptions *options, int64_t step)
{
    const double progress = (double)step / (double)options->steps;
    const double fall =
        options->final_rate + (1 - options->final_rate) * 0.5 * (1 + cos(M_PI * progress));
    const double rise =
        step + 1 < options->warmup ? (double)(step + 1) / (double)options->warmup : 1;
    return options->rate * fall * rise;
}

const char *train_obstacle(const Model *model)
{
    const Layer *last = &model->layers[model->layer_count - 1];
    if (!model->tokens)
        return "its input is not tokens";
    if (last->kind != LAYER_DENSE)
        return "its last layer is not dense, with a logit for each token";
    if (last->outputs != model->features)
        return "its outputs are not as many as its tokens";
    if (!last->sequence_out)
        return "it has an output for the last step alone: give return_sequences: true";
    for (int i = 0; i < model->layer_count; i++) {
        if (model->layers[i].reversed)
            return "a layer goes backwards in time, and would see the characters to foretell";
        if (model->layers[i].kind == LAYER_MASKING || model->layers[i].mask_zero)
            return "a layer masks steps";
    }
    return NULL;
}

/// What the steps depend on, as checkpoints hold it.
static const char *settings(const Trainer *trainer, const Model *model, const int32_t *tokens,
                            int64_t count)
{
    const TrainOptions *o = trainer->options;
    const Source *source = model->spec->source;
    return arena_format(
        trainer->arena,
        "steps %" PRId64 "\nbatch %" PRId64 "\ntimesteps %" PRId64 "\nwarmup %" PRId64
        "\nlearning-rate %.17g\nfinal-rate %.17g\nclip %.17g\nbeta1 %.17g\nbeta2 %.17g\n"
        "epsilon %.17g\nweight-decay %.17g\naverage %.17g\nheld-out %.17g\n"
        "evaluate-every %" PRId64 "\nevaluate-rows %" PRId64 "\nseed %" PRIu64
        "\nmodel %s\ntext %s\n",
        o->steps, o->rows, o->timesteps, o->warmup, o->rate, o->final_rate, o->clip, o->adam.beta1,
        o->adam.beta2, o->adam.epsilon, o->adam.weight_decay, o->average, o->held_out,
        o->evaluate_every, o->evaluate_rows, o->seed,
        sha256_hex(trainer->arena, source->text, source->length),
        sha256_hex(trainer->arena, (const char *)tokens, (size_t)count * sizeof *tokens));
}

/// Cuts the text in two. Rows need a step's characters each, and the held-out part two a row.
static bool divide(Trainer *trainer, const int32_t *tokens, int64_t count)
{
    const TrainOptions *options = trainer->options;
    const int64_t held = (int64_t)((double)count * options->held_out), cut = count - held;
    trainer->training = (TextRows){tokens, cut, options->rows, options->timesteps, options->seed};
    trainer->held_out =
        (TextRows){tokens + cut, held, options->rows, options->timesteps, options->seed};
    if ((cut - 1) / options->rows < options->timesteps) {
        Diag *diag = diag_add(trainer->diags, DIAG_E0816, (Span){0},
                              "%" PRId64 " characters to train on are fewer than %" PRId64
                              " rows of %" PRId64 " steps take, and one more",
                              cut, options->rows, options->timesteps);
        diag_help(diag, "give more text, or less by --batch, --timesteps or --held-out");
        return false;
    }
    if (held > 0 && held / options->evaluate_rows < 2) {
        Diag *diag = diag_add(trainer->diags, DIAG_E0816, (Span){0},
                              "%" PRId64
                              " held-out characters are fewer than 2 for each of %" PRId64 " rows",
                              held, options->evaluate_rows);
        diag_help(diag, "give --held-out 0 to train on all, or fewer by --evaluate-rows");
        return false;
    }
    return true;
}

static bool prepare(Trainer *trainer, const Model *model, const int32_t *tokens, int64_t count)
{
    Network *network = &trainer->network;
    if (!network_open(network, model, trainer->options->device))
        return false;
    const int64_t elems = network->elems, state_elems = network_state_elems(network);
    trainer->gradient = ARENA_ARRAY(trainer->arena, float, elems);
    trainer->state = (Checkpoint){.best = INFINITY,
                                  .settings = settings(trainer, model, tokens, count),
                                  .weight_elems = elems,
                                  .state_elems = state_elems,
                                  .weights = network->initial,
                                  .mean = ARENA_ARRAY(trainer->arena, float, elems),
                                  .square = ARENA_ARRAY(trainer->arena, float, elems),
                                  .average = ARENA_ARRAY(trainer->arena, float, elems),
                                  .states = ARENA_ARRAY(trainer->arena, float, state_elems + 1)};
    memcpy(trainer->state.average, network->initial, (size_t)elems * sizeof(float));
    return true;
}

/// Goes on from the checkpoint where one is asked for and there.
static bool resume(Trainer *trainer)
{
    const TrainOptions *options = trainer->options;
    if (!options->resume)
        return true;
    if (access(options->checkpoint, F_OK) != 0) {
        printf("no checkpoint '%s' yet: from the beginning\n", options->checkpoint);
        return true;
    }
    if (!checkpoint_read(trainer->arena, trainer->diags, options->checkpoint, &trainer->state) ||
        !network_set_states(&trainer->network, trainer->state.states))
        return false;
    printf("on from step %" PRId64 " of '%s'\n", trainer->state.step, options->checkpoint);
    return true;
}

/// The bytes of a log that tell of the first `steps` steps, its heading included.
static long log_bytes(const char *text, int64_t steps)
{
    const char *at = text, *line = strchr(text, '\n');
    while (line && (at == text || strtoll(at, NULL, 10) <= steps)) {
        at = line + 1;
        line = strchr(at, '\n');
    }
    return (long)(at - text);
}

/// Opens the log behind the lines of the steps that are done.
static bool open_log(Trainer *trainer)
{
    const char *path = trainer->options->log;
    const int64_t steps = trainer->state.step;
    if (!path)
        return true;
    const Source *before = NULL;
    if (steps > 0 && access(path, F_OK) == 0)
        before = file_read(trainer->arena, trainer->diags, path, (Span){0});
    trainer->log = fopen(path, before ? "r+" : "w");
    const long kept = before ? log_bytes(before->text, steps) : 0;
    if (!trainer->log || ftruncate(fileno(trainer->log), kept) != 0 ||
        fseek(trainer->log, kept, SEEK_SET) != 0) {
        diag_add(trainer->diags, DIAG_E0002, (Span){0}, "cannot write '%s': %s", path,
                 strerror(errno));
        return false;
    }
    if (kept == 0)
        fputs("step,learning_rate,gradient_norm,bits_per_character\n", trainer->log);
    return true;
}

/// The norm of the gradient, in float64 and in order.
static double gradient_norm(const Trainer *trainer)
{
    double sum = 0;
    for (int64_t k = 0; k < trainer->network.elems; k++)
        sum += (double)trainer->gradient[k] * (double)trainer->gradient[k];
    return sqrt(sum);
}

static bool check_finite(Trainer *trainer, double loss, double norm)
{
    if (isfinite(loss) && isfinite(norm))
        return true;
    Diag *diag = diag_add(trainer->diags, DIAG_E0817, (Span){0},
                          "training step %" PRId64 ": the loss is %g and the gradient's norm %g",
                          trainer->state.step + 1, loss, norm);
    diag_help(diag, "--find-nan names the layer, and its time step and row; a lower "
                    "--learning-rate or --clip often helps");
    return false;
}

static void update(Trainer *trainer, double rate, double norm)
{
    const TrainOptions *options = trainer->options;
    Checkpoint *state = &trainer->state;
    const double clip = options->clip > 0 ? options->clip / (norm + 1e-6) : 1;
    const int64_t step = state->step + 1;
    adam_step(&options->adam, step, rate, clip < 1 ? clip : 1, trainer->gradient, state->weights,
              state->mean, state->square, trainer->network.elems);
    const double early = (double)step / (double)(step + 9);
    const double keep = options->average < early ? options->average : early;
    for (int64_t k = 0; k < trainer->network.elems; k++)
        state->average[k] =
            (float)(keep * (double)state->average[k] + (1 - keep) * (double)state->weights[k]);
}

/// A seed of its own for each step's dropout.
static uint64_t step_seed(const Trainer *trainer)
{
    return trainer->options->seed + (uint64_t)trainer->state.step * 0x9e3779b97f4a7c15u;
}

static bool take_step(Trainer *trainer)
{
    Network *network = &trainer->network;
    Checkpoint *state = &trainer->state;
    const double rate = train_rate(trainer->options, state->step);
    double loss;
    const bool anew =
        text_rows_take(&trainer->training, state->step, network->inputs, network->targets);
    if (!network_set_weights(network, state->weights) || (anew && !network_start(network)) ||
        !network_run(network, step_seed(trainer), state->step + 1, trainer->options->find_nan,
                     trainer->gradient, &loss))
        return false;
    const double norm = gradient_norm(trainer);
    if (!check_finite(trainer, loss, norm))
        return false;
    update(trainer, rate, norm);
    state->step += 1;
    trainer->lost += loss / nats_a_bit;
    trainer->lost_steps += 1;
    if (trainer->log)
        fprintf(trainer->log, "%" PRId64 ",%.9g,%.9g,%.9g\n", state->step, rate, norm,
                loss / nats_a_bit);
    return true;
}

static bool write_weights(Trainer *trainer)
{
    const Network *network = &trainer->network;
    Arena *arena = arena_create();
    SafetensorsEntry *entries = ARENA_ARRAY(arena, SafetensorsEntry, network->weight_count);
    for (int i = 0; i < network->weight_count; i++) {
        const NetworkTensor *weight = &network->weights[i];
        entries[i] = (SafetensorsEntry){weight->name, "F32", weight->dims, weight->dim_count,
                                        trainer->state.average + weight->offset};
    }
    const bool done = safetensors_write(arena, trainer->diags, trainer->options->output, entries,
                                        network->weight_count, NULL);
    arena_destroy(arena);
    return done;
}

/// Bits per held-out character by the averaged weights, without dropout; states start anew.
static bool score(Trainer *trainer, double *out_bits)
{
    Network *network = &trainer->network;
    const TextRows *text = &trainer->held_out;
    const int64_t used = trainer->options->evaluate_rows, span = text->count / used;
    double nats = 0, loss;
    int64_t characters = 0;
    bool done = network_set_weights(network, trainer->state.average) &&
                network_use_states(network, true) && network_start(network);
    for (int64_t chunk = 0; chunk * text->timesteps + 1 < span && done; chunk++) {
        const int64_t count = text_rows_score(text, used, chunk, network->inputs, network->targets);
        done = network_run(network, 0, trainer->state.step, false, NULL, &loss);
        nats += done ? loss * (double)count : 0;
        characters += count;
    }
    *out_bits = nats / (double)characters / nats_a_bit;
    return network_use_states(network, false) && done;
}

/// Scores, tells, and keeps the weights where they are the best so far.
static bool evaluate(Trainer *trainer)
{
    double bits = 0;
    bool best = true;
    printf("step %" PRId64 ": training %.4f", trainer->state.step,
           trainer->lost / (double)trainer->lost_steps);
    if (trainer->held_out.count > 0) {
        if (!score(trainer, &bits))
            return false;
        best = bits < trainer->state.best;
        trainer->state.best = best ? bits : trainer->state.best;
        printf(", held out %.4f", bits);
    }
    printf(" bits a character, %.1f s%s\n", seconds() - trainer->started,
           best ? "" : ", not the best");
    fflush(stdout);
    trainer->lost = 0;
    trainer->lost_steps = 0;
    return !best || write_weights(trainer);
}

static bool keep(Trainer *trainer)
{
    if (trainer->log)
        fflush(trainer->log);
    return network_get_states(&trainer->network, trainer->state.states) &&
           checkpoint_write(trainer->diags, trainer->options->checkpoint, &trainer->state);
}

static bool run(Trainer *trainer)
{
    const TrainOptions *options = trainer->options;
    Checkpoint *state = &trainer->state;
    bool done = true;
    while (done && state->step < options->steps && !interrupt_noted()) {
        done = take_step(trainer);
        const bool is_last = state->step == options->steps || interrupt_noted();
        if (done && (state->step % options->evaluate_every == 0 || state->step == options->steps))
            done = evaluate(trainer);
        if (done && (state->step % options->checkpoint_every == 0 || is_last))
            done = keep(trainer);
    }
    if (done && interrupt_noted())
        printf("stopped after step %" PRId64 "; --resume goes on from '%s'\n", state->step,
               options->checkpoint);
    fflush(stdout);
    return done;
}

bool train(Arena *arena, Diags *diags, const TrainOptions *options, const Model *model,
           rnnc_module *module, const int32_t *tokens, int64_t count)
{
    Trainer trainer = {.arena = arena,
                       .diags = diags,
                       .options = options,
                       .network = {.arena = arena,
                                   .diags = diags,
                                   .module = module,
                                   .rows = options->rows,
                                   .timesteps = options->timesteps},
                       .started = seconds()};
    bool done = divide(&trainer, tokens, count) && prepare(&trainer, model, tokens, count) &&
                resume(&trainer) && open_log(&trainer);
    interrupt_hold();
    done = done && run(&trainer);
    network_close(&trainer.network);
    if (trainer.log)
        fclose(trainer.log);
    interrupt_release();
    return done;
}
