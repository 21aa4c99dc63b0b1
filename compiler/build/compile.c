// Compile: the whole pipeline on one screen. Each stage reads what the last one made; the first
// that finds an error ends it, before anything is written.
#include <string.h>
#include <unistd.h>

#include "base/sha256.h"
#include "build/build.h"
#include "build/targets.h"

static void announce(const CompileOptions *options, const char *stage)
{
    if (options->progress)
        options->progress(stage);
}

static int job_count(const CompileOptions *options)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (options->jobs > 0)
        return options->jobs;
    return cores > 0 ? (int)cores : 1;
}

/// JSON of what made the module: the spec's path and hash, and this program's version.
static const char *provenance(Arena *arena, const Spec *spec)
{
    return arena_format(arena,
                        "{\"rnnc\": \"" RNNC_VERSION "\", \"spec\": \"%s\", "
                        "\"spec_sha256\": \"%s\"}",
                        text_json_escape(arena, spec->path),
                        sha256_hex(arena, spec->source->text, spec->source->length));
}

static void dump_images(const Images *images, unsigned dump, Text *out)
{
    for (int i = 0; i < images->count; i++) {
        if (dump & DUMP_CUDA)
            text_addf(out, "// ---- %s: CUDA\n%s", images->items[i].name, images->items[i].stub);
        if (dump & DUMP_PTX)
            text_addf(out, "// ---- %s: PTX\n%s", images->items[i].name, images->items[i].ptx);
    }
}

/// The spec, with the weights and sizes that the caller has in place of its own.
static const Spec *read_spec(Arena *arena, Diags *diags, const CompileOptions *options)
{
    const Spec *spec = options->spec_text ? spec_parse(arena, diags, options->spec_text)
                                          : spec_read(arena, diags, options->spec_path);
    if (!spec)
        return NULL;
    Spec *sized = ARENA_NEW(arena, Spec);
    *sized = *spec;
    sized->weights_given = options->weights;
    if (options->trains)
        sized->mode = MODE_TRAINING;
    if (options->batch)
        sized->batch = (SpecSize){.value = options->batch, .span = spec->batch.span};
    if (options->timesteps)
        sized->timesteps = (SpecSize){.value = options->timesteps, .span = spec->timesteps.span};
    return sized;
}

bool compile_model(Arena *arena, Diags *diags, const CompileOptions *options, Text *dump)
{
    Targets targets;
    Images images = {0};
    int jobs = job_count(options);
    announce(options, "reading the spec");
    const Spec *spec = read_spec(arena, diags, options);
    if (!spec || !targets_parse(arena, diags, spec, options->targets, &targets) ||
        !targets_buildable(diags, &targets))
        return false;

    announce(options, "building the model");
    const Model *model = model_build(arena, diags, spec);
    if (!model)
        return false;
    if (options->out_model)
        *options->out_model = model;
    if (options->dump & DUMP_MODEL)
        model_print(model, dump);

    announce(options, "planning");
    const Plan *plan = options->plan
                           ? plan_make_from_file(arena, diags, model, targets.arches,
                                                 targets.arch_count, targets.cpu, options->plan)
                           : plan_make(arena, diags, model, targets.arches, targets.arch_count,
                                       targets.cpu, options->variants);
    if (!plan)
        return false;
    if (options->dump & DUMP_PLAN)
        plan_print(plan, dump);

    announce(options, "compiling kernels");
    if (targets.arch_count > 0)
        images_print(arena, plan, &images);
    if (!images_compile(arena, diags, &images, targets.arches, targets.arch_count, jobs))
        return false;
    dump_images(&images, options->dump, dump);
    if (!options->output_path)
        return true;

    announce(options, "compiling and linking the module");
    BuildOptions build = {.output_path = options->output_path,
                          .keep_dir = options->keep_dir,
                          .provenance = provenance(arena, spec),
                          .without_weights = options->without_weights,
                          .jobs = jobs};
    return build_module(arena, diags, plan, &images, &build);
}
