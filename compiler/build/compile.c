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

bool compile_model(Arena *arena, Diags *diags, const CompileOptions *options)
{
    int jobs = job_count(options);
    announce(options, "reading the spec");
    const Spec *spec = spec_read(arena, diags, options->spec_path);
    if (!spec)
        return false;
    Targets targets;
    if (!targets_parse(arena, diags, spec, options->targets, &targets))
        return false;
    announce(options, "building the model");
    const Model *model = model_build(arena, diags, spec);
    if (!model)
        return false;
    announce(options, "planning");
    const Plan *plan = plan_make(arena, diags, model, targets.arches, targets.arch_count,
                                 targets.cpu, options->variants);
    if (!plan)
        return false;
    announce(options, "compiling kernels");
    Images images = {0};
    if (targets.arch_count > 0 &&
        !build_images(arena, diags, plan, targets.arches, targets.arch_count, jobs, &images))
        return false;
    announce(options, "compiling and linking the module");
    BuildOptions build = {.output_path = options->output_path,
                          .keep_dir = options->keep_dir,
                          .provenance = provenance(arena, spec),
                          .jobs = jobs};
    return build_module(arena, diags, plan, &images, &build);
}
