// rnnc train: trains a character model on a text file and writes its weights.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "build/build.h"
#include "cli/cli.h"
#include "cli/vocabulary.h"
#include "train/trainer.h"

typedef struct {
    CliCall *call;
    TrainOptions options;
    const Model *model;
    rnnc_module *module;
    Vocabulary vocabulary;
    Tokens tokens;
} Train;

static bool read_numbers(Train *train)
{
    CliCall *call = train->call;
    TrainOptions *o = &train->options;
    int64_t seed = 0;
    const double most = 1e9;
    *o = (TrainOptions){.steps = 2000,
                        .rows = 32,
                        .warmup = -1,
                        .rate = 0.002,
                        .final_rate = 0.01,
                        .clip = 1,
                        .adam = {.beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8},
                        .held_out = 0.1,
                        .evaluate_every = 250,
                        .evaluate_rows = 0};
    if (!cli_integer(call, "steps", 1, INT32_MAX, &o->steps) ||
        !cli_integer(call, "batch", 1, INT32_MAX, &o->rows) ||
        !cli_integer(call, "timesteps", 1, INT32_MAX, &o->timesteps) ||
        !cli_integer(call, "warmup", 0, INT32_MAX, &o->warmup) ||
        !cli_number(call, "learning-rate", 1e-30, most, &o->rate) ||
        !cli_number(call, "final-rate", 0, 1, &o->final_rate) ||
        !cli_number(call, "clip", 0, most, &o->clip) ||
        !cli_number(call, "beta1", 0, 0.999999, &o->adam.beta1) ||
        !cli_number(call, "beta2", 0, 0.999999, &o->adam.beta2) ||
        !cli_number(call, "epsilon", 1e-30, most, &o->adam.epsilon) ||
        !cli_number(call, "weight-decay", 0, most, &o->adam.weight_decay) ||
        !cli_number(call, "average", 0, 0.9999999, &o->average) ||
        !cli_number(call, "held-out", 0, 0.99, &o->held_out) ||
        !cli_integer(call, "evaluate-every", 1, INT32_MAX, &o->evaluate_every) ||
        !cli_integer(call, "evaluate-rows", 1, o->rows, &o->evaluate_rows) ||
        !cli_integer(call, "seed", 0, INT64_MAX, &seed))
        return false;
    o->checkpoint_every = o->evaluate_every;
    if (!cli_integer(call, "checkpoint-every", 1, INT32_MAX, &o->checkpoint_every))
        return false;
    o->seed = (uint64_t)seed;
    if (o->warmup < 0)
        o->warmup = o->steps < 2000 ? o->steps / 10 : 200;
    if (o->evaluate_rows == 0)
        o->evaluate_rows = o->rows;
    return true;
}

static bool read_options(Train *train)
{
    CliCall *call = train->call;
    TrainOptions *o = &train->options;
    if (!read_numbers(train))
        return false;
    o->output = cli_value(call, "output");
    o->log = cli_value(call, "log");
    o->device = cli_value(call, "device") ? cli_value(call, "device") : "cpu";
    o->resume = cli_flag(call, "resume");
    o->find_nan = cli_flag(call, "find-nan");
    if (!cli_value(call, "data"))
        cli_usage(call, "what should it be trained on? Give --data FILE, a text");
    else if (!o->output)
        cli_usage(call, "where should the weights go? Give -o FILE.safetensors");
    if (call->usage_fault)
        return false;
    o->checkpoint = cli_value(call, "checkpoint")
                        ? cli_value(call, "checkpoint")
                        : arena_format(call->arena, "%s.checkpoint", o->output);
    return file_check_writable(call->arena, call->diags, o->output) &&
           file_check_writable(call->arena, call->diags, o->checkpoint);
}

static void show_stage(const char *stage)
{
    fprintf(stderr, "\r\033[Krnnc: %s ...", stage);
    fflush(stderr);
}

/// Reads the spec, and refuses what cannot be trained before anything is compiled.
static bool read_model(Train *train)
{
    CliCall *call = train->call;
    const char *path = call->operands[0];
    const Spec *spec = spec_read(call->arena, call->diags, path);
    if (!spec)
        return false;
    Spec *trained = ARENA_NEW(call->arena, Spec);
    *trained = *spec;
    trained->mode = MODE_TRAINING;
    const Model *model = model_build_shapes(call->arena, call->diags, trained);
    const char *obstacle = model ? train_obstacle(model) : NULL;
    if (obstacle) {
        Diag *diag = diag_add(call->diags, DIAG_E0815, (Span){0},
                              "'%s' cannot be trained on a text: %s", path, obstacle);
        diag_help(diag, "what can has `input: {tokens: V}`, an embedding, cells that go forward "
                        "and `dense: V`");
    }
    const int64_t fixed = trained->timesteps.value;
    if (train->options.timesteps == 0)
        train->options.timesteps = fixed ? fixed : 64;
    train->model = model;
    return model && !obstacle;
}

static bool read_text(Train *train)
{
    CliCall *call = train->call;
    const char *path = cli_value(call, "data");
    const unsigned char *bytes;
    size_t size;
    return vocabulary_read(call->arena, call->diags, cli_value(call, "vocab"),
                           train->model->features, &train->vocabulary) &&
           file_map(call->diags, path, (Span){0}, &bytes, &size) &&
           vocabulary_tokens(call->arena, call->diags, &train->vocabulary,
                             arena_format(call->arena, "'%s'", path), (const char *)bytes, size,
                             &train->tokens);
}

/// Compiles for the rows and steps of training to a module that is removed as soon as it is open.
static bool compile_and_open(Train *train)
{
    CliCall *call = train->call;
    const char *folder = getenv("TMPDIR");
    char *path =
        arena_format(call->arena, "%s/rnnc_train.XXXXXX", folder && *folder ? folder : "/tmp");
    const int file = mkstemp(path);
    if (file < 0) {
        diag_add(call->diags, DIAG_E0002, (Span){0}, "cannot write '%s'", path);
        return false;
    }
    close(file);
    const bool is_cpu = strcmp(train->options.device, "cpu") == 0;
    const CompileOptions options = {.spec_path = call->operands[0],
                                    .output_path = path,
                                    .targets = is_cpu ? "cpu" : NULL,
                                    .batch = train->options.rows,
                                    .timesteps = train->options.timesteps,
                                    .trains = true,
                                    .out_model = &train->model,
                                    .progress = call->colour_error ? show_stage : NULL};
    bool good = compile_model(call->arena, call->diags, &options, NULL);
    if (call->colour_error)
        fprintf(stderr, "\r\033[K");
    if (good && rnnc_module_open(path, &train->module) != RNNC_OK) {
        diag_add(call->diags, DIAG_E0802, (Span){0}, "%s", rnnc_last_error());
        good = false;
    }
    unlink(path);
    return good;
}

int cli_train(CliCall *call)
{
    Train job = {.call = call};
    if (read_options(&job) && read_model(&job) && read_text(&job) && compile_and_open(&job))
        train(call->arena, call->diags, &job.options, job.model, job.module, job.tokens.items,
              job.tokens.count);
    rnnc_module_close(job.module);
    return cli_result(call);
}
