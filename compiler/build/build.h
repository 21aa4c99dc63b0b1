// Build: from a plan to a model.so: device code by NVRTC, host code by cc, one link, one rename.
#ifndef RNNC_BUILD_BUILD_H
#define RNNC_BUILD_BUILD_H

#include "plan/plan.h"

/// Device code of one stub (see rnnc_image_desc).
typedef struct {
    const char *name;    ///< "l0.persistent_cta"
    const char *stub;    ///< what the variant printed (for --keep)
    const char *source;  ///< the stub with its templates included
    const char *options; ///< NVRTC options but for the arch, one a line
    bool own_arch;       ///< its cubin for sm_90 is one for sm_90a; its PTX stays for all
    struct Cubin {
        int arch;
        const void *data;
        size_t size_bytes;
    } * cubins;
    int cubin_count;
    const char *ptx;       ///< of the newest arch
    const char *ptxas_log; ///< registers, spills, shared memory as ptxas -v prints them
} Image;

/// All images of a plan. `of_choice[layer][choice]` and `of_layer[layer]` (W*x of a cell; dense,
/// embedding, activation) index `items`; -1: none. Equal sources share one image.
typedef struct {
    Image *items;
    int count;
    int **of_choice;
    int *of_layer;
    int sequence;  ///< kernels of masks, merges and dropout; -1: the model needs none
    int generator; ///< the kernel that generates text; -1: the plan has none
} Images;

/// Prints every image of a plan; nothing is compiled.
void images_print(Arena *arena, const Plan *plan, Images *out);

/// Compiles every image for every arch (sm_NN), `jobs` at a time. Adds E07xx (the NVRTC log is in
/// the message) and returns false on a fault. Without CUDA in the build: E0701.
bool images_compile(Arena *arena, Diags *diags, Images *images, const int *arches, int arch_count,
                    int jobs);

typedef struct {
    const char *output_path;
    const char *keep_dir;   ///< NULL: sources are removed
    const char *provenance; ///< JSON text
    bool without_weights;   ///< zeros, for a user who binds every weight
    int jobs;
} BuildOptions;

/// Prints the CPU code of each layer and the module's tables (emit/host.h), compiles and links
/// them with `cc` (or $CC), and renames the result to `output_path`. Adds E07xx.
bool build_module(Arena *arena, Diags *diags, const Plan *plan, const Images *images,
                  const BuildOptions *options);

/// What a compilation prints beside its module.
enum { DUMP_MODEL = 1, DUMP_PLAN = 2, DUMP_CUDA = 4, DUMP_PTX = 8 };

/// The whole pipeline from a spec file: what the command line and the tests call.
typedef struct {
    const char *spec_path;
    const Source *spec_text;             ///< the spec where it is in no file; NULL: spec_path
    const struct Safetensors *weights;   ///< with spec_text: what it names as weights
    const char *output_path;             ///< NULL: stop before the module is built (with `dump`)
    const char *targets;                 ///< "sm_90,cpu"; NULL: see targets_parse
    const char *variants;                ///< "auto", "all" or a list; NULL: the spec's
    const struct PlanFile *plan;         ///< what to run instead; NULL: `variants` says
    const char *keep_dir;                ///< NULL: none
    unsigned dump;                       ///< DUMP_ bits
    int64_t batch, timesteps;            ///< instead of the spec's; 0: the spec's
    bool trains;                         ///< for training, whatever the spec's mode
    bool without_weights;                ///< zeros, for a caller that binds every weight
    const Model **out_model;             ///< takes the model, with weights; may be NULL
    int jobs;                            ///< 0: one a core
    void (*progress)(const char *stage); ///< called at each stage; may be NULL
} CompileOptions;

/// Returns false where an error was added; then nothing was written. `dump` may be NULL where
/// options->dump is 0.
bool compile_model(Arena *arena, Diags *diags, const CompileOptions *options, Text *dump);

#endif
