// Module: prints the sources of a model.so into a folder, compiles them there and links. The folder
// is private and removed on every path, unless the user keeps it; the link goes to a temporary name
// beside the output and is renamed, so that no partial module can be seen.
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/embedded.h"
#include "base/file.h"
#include "build/build.h"
#include "build/cc.h"
#include "build/interrupt.h"
#include "emit/host.h"
#include "emit/template.h"

typedef struct {
    Arena *arena;
    Diags *diags;
    const BuildOptions *options;
    const char *folder, *output;
    const SelfTest *self_test;
    CcCall *calls;
    int call_count;
    const char **objects;
    int object_count;
} Builder;

static const char *const compile_flags[] = {"-std=gnu17",
                                            "-O2",
                                            "-fPIC",
                                            "-ffp-contract=fast",
                                            "-fno-math-errno",
                                            "-fno-trapping-math",
                                            "-fvisibility=hidden",
                                            "-fno-semantic-interposition",
                                            "-fno-stack-protector",
                                            "-w",
                                            "-Iinclude"};

static bool cannot_write(Builder *builder, const char *path)
{
    int reason = errno;
    Diag *diag = diag_add(builder->diags, DIAG_E0002, (Span){0}, "cannot write '%s': %s", path,
                          strerror(reason));
    if (reason == ENOSPC && !builder->options->keep_dir && path != builder->output)
        diag_help(diag, "set TMPDIR to a folder with more room");
    return false;
}

static bool make_folder(Builder *builder, const char *path)
{
    return mkdir(path, 0755) == 0 || errno == EEXIST || cannot_write(builder, path);
}

static bool make_folders(Builder *builder)
{
    const char *kept = builder->options->keep_dir, *temporary = getenv("TMPDIR");
    if (kept) {
        builder->folder = kept;
        if (!make_folder(builder, kept))
            return false;
    } else {
        char *name = arena_format(builder->arena, "%s/rnnc.XXXXXX",
                                  temporary && *temporary ? temporary : "/tmp");
        if (!mkdtemp(name))
            return cannot_write(builder, name);
        builder->folder = name;
    }
    static const char *const below[] = {"include", "include/rnnc", "include/dlpack"};
    for (size_t i = 0; i < sizeof below / sizeof below[0]; i++)
        if (!make_folder(builder, arena_format(builder->arena, "%s/%s", builder->folder, below[i])))
            return false;
    return true;
}

/// Removes the folder with all that is in it. Failure leaves files behind but spoils no module.
static void remove_folder(Arena *arena, const char *path)
{
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        const char *name = arena_format(arena, "%s/%s", path, entry->d_name);
        if (unlink(name) != 0 && (errno == EISDIR || errno == EPERM))
            remove_folder(arena, name);
    }
    if (folder)
        closedir(folder);
    rmdir(path);
}

static bool write_file(Builder *builder, const char *name, const void *data, size_t size_bytes)
{
    return file_write(builder->arena, builder->diags,
                      arena_format(builder->arena, "%s/%s", builder->folder, name), data,
                      size_bytes);
}

static bool write_text(Builder *builder, const char *name, const char *text)
{
    return write_file(builder, name, text, strlen(text));
}

static bool write_headers(Builder *builder)
{
    for (const EmbeddedFile *file = embedded_files(); file->path; file++)
        if (strncmp(file->path, "include/", 8) == 0 &&
            !write_file(builder, file->path, file->text, file->length))
            return false;
    return true;
}

static bool write_weights(Builder *builder, const Model *model)
{
    if (builder->options->without_weights)
        return true;
    char *bytes = arena_alloc(builder->arena, (size_t)host_weights_bytes(model));
    for (int i = 0; i < model->layer_count; i++)
        for (int kind = 0; kind < WEIGHT_COUNT; kind++) {
            const Weight *weight = &model->layers[i].weights[kind];
            if (weight->name)
                memcpy(bytes + host_weight_offset(model, i, kind), weight->data,
                       (size_t)(weight->rows * weight->columns) * sizeof(float));
        }
    return write_file(builder, "weights.bin", bytes, (size_t)host_weights_bytes(model));
}

/// The module's self-test, written beside its tables; none in a module without weights.
static bool write_self_test(Builder *builder, const Model *model)
{
    const char *refusal;
    if (builder->options->without_weights)
        return true;
    builder->self_test = self_test_make(builder->arena, model, &refusal);
    if (!builder->self_test)
        return true; // `rnnc verify` says that there is none
    size_t size_bytes;
    const void *bytes = self_test_bytes(builder->arena, builder->self_test, &size_bytes);
    return write_file(builder, "self_test.bin", bytes, size_bytes);
}

static bool write_images(Builder *builder, const Images *images)
{
    for (int i = 0; i < images->count; i++) {
        const Image *image = &images->items[i];
        for (int k = 0; k < image->cubin_count; k++)
            if (!write_file(builder,
                            arena_format(builder->arena, "%s.sm_%d.cubin", image->name,
                                         image->cubins[k].arch),
                            image->cubins[k].data, image->cubins[k].size_bytes))
                return false;
        if (image->ptx &&
            !write_text(builder, arena_format(builder->arena, "%s.ptx", image->name), image->ptx))
            return false;
        if (!write_text(builder, arena_format(builder->arena, "%s.cu", image->name), image->source))
            return false;
    }
    return true;
}

/// Adds the call that compiles `source` to an object for one level.
static void add_compile(Builder *builder, const char *what, const char *source, const HostIsa *isa)
{
    Arena *arena = builder->arena;
    const char **arguments = NULL;
    int count = 0;
    const char *object = arena_format(arena, "%s.%s.o", source, isa->tag);
    for (size_t i = 0; i < sizeof compile_flags / sizeof compile_flags[0]; i++)
        ARENA_PUSH(arena, arguments, count, compile_flags[i]);
    ARENA_PUSH(arena, arguments, count, isa->flag);
    ARENA_PUSH(arena, arguments, count, arena_format(arena, "-DRNN_ISA=%s", isa->tag));
    ARENA_PUSH(arena, arguments, count, arena_format(arena, "-DRNN_ISA_NAME=\"%s\"", isa->name));
    ARENA_PUSH(arena, arguments, count, "-c");
    ARENA_PUSH(arena, arguments, count, source);
    ARENA_PUSH(arena, arguments, count, "-o");
    ARENA_PUSH(arena, arguments, count, object);
    ARENA_PUSH(arena, arguments, count, NULL);
    CcCall call = {what, arguments, arena_format(arena, "%s.log", object), NULL};
    ARENA_PUSH(arena, builder->calls, builder->call_count, call);
    ARENA_PUSH(arena, builder->objects, builder->object_count, object);
}

static bool write_cpu_layers(Builder *builder, const Plan *plan)
{
    int isa_count;
    const HostIsa *isas = host_isas(&isa_count);
    for (int i = 0; i < plan->layer_count && plan->cpu; i++) {
        const Layer *layer = &plan->model->layers[i];
        Text text = {.arena = builder->arena};
        emit_cpu_layer(layer, i, &text);
        const char *source = arena_format(builder->arena, "layer%d.c", i);
        if (!write_text(builder, source, template_resolve(builder->arena, text_string(&text))))
            return false;
        for (int k = 0; k < isa_count; k++)
            add_compile(builder,
                        arena_format(builder->arena, "the CPU code of layer '%s' for %s",
                                     layer->name, isas[k].name),
                        source, &isas[k]);
    }
    return true;
}

/// The most registers that a kernel of the log uses ("Used 40 registers").
static int most_registers(const char *log)
{
    static const char word[] = "Used ";
    int most = 0;
    for (const char *at = log ? strstr(log, word) : NULL; at; at = strstr(at + 1, word)) {
        int count = atoi(at + sizeof word - 1);
        most = count > most ? count : most;
    }
    return most;
}

static HostModule describe(Builder *builder, const Plan *plan, const Images *images)
{
    Arena *arena = builder->arena;
    HostImage *items = ARENA_ARRAY(arena, HostImage, images->count + 1);
    for (int i = 0; i < images->count; i++) {
        const Image *image = &images->items[i];
        int *arches = ARENA_ARRAY(arena, int, image->cubin_count + 1);
        int *registers = ARENA_ARRAY(arena, int, image->cubin_count + 1);
        int64_t *sizes = ARENA_ARRAY(arena, int64_t, image->cubin_count + 1);
        for (int k = 0; k < image->cubin_count; k++) {
            arches[k] = image->cubins[k].arch;
            sizes[k] = (int64_t)image->cubins[k].size_bytes;
            registers[k] = most_registers(image->ptxas_log);
        }
        items[i] = (HostImage){.name = image->name,
                               .options = image->options,
                               .arches = arches,
                               .cubin_bytes = sizes,
                               .registers = registers,
                               .cubin_count = image->cubin_count,
                               .has_ptx = image->ptx != NULL};
    }
    Text plan_text = {.arena = arena};
    plan_print(plan, &plan_text);
    return (HostModule){.plan = plan,
                        .provenance = builder->options->provenance,
                        .self_test = builder->self_test,
                        .without_weights = builder->options->without_weights,
                        .plan_text = text_string(&plan_text),
                        .images = items,
                        .image_count = images->count,
                        .of_choice = images->of_choice,
                        .of_layer = images->of_layer,
                        .sequence_image = images->count > 0 ? images->sequence : -1,
                        .generator_image = images->count > 0 ? images->generator : -1};
}

static bool write_host(Builder *builder, const Plan *plan, const Images *images)
{
    const HostModule module = describe(builder, plan, images);
    int isa_count;
    const HostIsa *isas = host_isas(&isa_count);
    Text note = {.arena = builder->arena}, host = {.arena = builder->arena};
    emit_note(builder->arena, &module, &note);
    emit_host(builder->arena, &module, &host);
    add_compile(builder, "the tables of the module", "module.c", &isas[isa_count - 1]);
    return write_text(builder, "note.json", text_string(&note)) &&
           write_text(builder, "module.c", template_resolve(builder->arena, text_string(&host)));
}

/// The call that links all objects to `output`.
static CcCall link_call(Builder *builder, const char *output)
{
    const char **arguments = NULL;
    int count = 0;
    ARENA_PUSH(builder->arena, arguments, count, "-shared");
    ARENA_PUSH(builder->arena, arguments, count, "-Wl,-z,noexecstack");
    ARENA_PUSH(builder->arena, arguments, count, "-o");
    ARENA_PUSH(builder->arena, arguments, count, output);
    for (int i = 0; i < builder->object_count; i++)
        ARENA_PUSH(builder->arena, arguments, count, builder->objects[i]);
    ARENA_PUSH(builder->arena, arguments, count, NULL);
    return (CcCall){"linking the module", arguments, "link.log", builder->options->output_path};
}

/// Links to a temporary name in the output's folder, then renames.
static bool link_module(Builder *builder)
{
    Arena *arena = builder->arena;
    const char *output = builder->output;
    char *temporary = arena_format(arena, "%s.XXXXXX", output);
    int file = mkstemp(temporary);
    if (file < 0)
        return cannot_write(builder, output);
    close(file);
    // The linker runs in the build folder.
    const char *absolute = realpath(temporary, NULL);
    CcCall call = link_call(builder, absolute ? arena_format(arena, "%s", absolute) : temporary);
    free((void *)absolute);
    struct stat facts;
    bool linked = cc_run(arena, builder->diags, builder->folder, &call, 1, 1);
    if (linked && (stat(temporary, &facts) != 0 || facts.st_size == 0)) {
        diag_add(builder->diags, DIAG_E0710, (Span){0},
                 "the C compiler ended well, but linked nothing");
        linked = false;
    }
    if (linked && (chmod(temporary, 0755) != 0 || rename(temporary, output) != 0))
        linked = cannot_write(builder, output);
    if (!linked)
        unlink(temporary);
    return linked;
}

static bool write_script(Builder *builder)
{
    CcCall *all = ARENA_ARRAY(builder->arena, CcCall, builder->call_count + 1);
    memcpy(all, builder->calls, sizeof *all * (size_t)builder->call_count);
    all[builder->call_count] = link_call(builder, "model.so");
    return write_text(builder, "build.sh", cc_script(builder->arena, all, builder->call_count + 1));
}

bool build_module(Arena *arena, Diags *diags, const Plan *plan, const Images *images,
                  const BuildOptions *options)
{
    Builder builder = {.arena = arena, .diags = diags, .options = options};
    builder.output = file_to_replace(arena, diags, options->output_path);
    if (!builder.output)
        return false;
    interrupt_hold();
    bool built = make_folders(&builder) && write_headers(&builder) &&
                 write_weights(&builder, plan->model) && write_self_test(&builder, plan->model) &&
                 write_images(&builder, images) && write_cpu_layers(&builder, plan) &&
                 write_host(&builder, plan, images) &&
                 (!options->keep_dir || write_script(&builder)) &&
                 cc_run(arena, diags, builder.folder, builder.calls, builder.call_count,
                        options->jobs > 0 ? options->jobs : 1) &&
                 link_module(&builder);
    if (builder.folder && !options->keep_dir)
        remove_folder(arena, builder.folder);
    interrupt_release();
    return built;
}
