// Images: prints the stub of every choice and pointwise layer, keeps equal ones once, and compiles
// each for every arch on several threads.
//
//     plan -> stubs -> sources (templates included) -> [image x arch] jobs -> cubins, PTX
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "build/build.h"
#include "build/nvrtc.h"
#include "emit/emit.h"
#include "emit/template.h"

enum { THREADS_MAX = 64, LOG_BYTES_SHOWN = 2000 };

static const char *const options[] = {"--std=c++17", "--ptxas-options=-v", "--restrict"};
enum { OPTION_COUNT = sizeof options / sizeof *options };

/// The image of `stub`, added where there is none like it; -1 for an empty stub.
static int add_image(Arena *arena, Images *images, const char *layer, const char *variant,
                     const Text *stub)
{
    if (stub->length == 0)
        return -1;
    for (int i = 0; i < images->count; i++)
        if (text_equal(images->items[i].stub, text_string(stub)))
            return i;
    Text option_lines = {.arena = arena};
    for (int i = 0; i < OPTION_COUNT; i++)
        text_addf(&option_lines, "%s%s", i ? "\n" : "", options[i]);
    Image image = {.name = arena_format(arena, "%s.%s", layer, variant),
                   .stub = text_string(stub),
                   .source = template_resolve(arena, text_string(stub)),
                   .options = text_string(&option_lines)};
    ARENA_PUSH(arena, images->items, images->count, image);
    return images->count - 1;
}

static void print_layer(Arena *arena, const Plan *plan, int layer_index, Images *images)
{
    const LayerPlan *layer_plan = &plan->layers[layer_index];
    const Layer *layer = layer_plan->layer;
    int *of_choice = ARENA_ARRAY(arena, int, layer_plan->choice_count + 1);
    for (int i = 0; i < layer_plan->choice_count; i++) {
        const Choice *choice = &layer_plan->choices[i];
        Text stub = {.arena = arena};
        if (choice->variant->print_stub && !choice->variant->stub_alone)
            emit_cuda_cell(layer, plan->model->spec->precision, &stub);
        if (choice->variant->print_stub)
            choice->variant->print_stub(&layer_plan->context, choice, &stub);
        of_choice[i] = add_image(arena, images, layer->name, choice->variant->name, &stub);
    }
    images->of_choice[layer_index] = of_choice;
    Text stub = {.arena = arena};
    emit_cuda_layer(layer, plan->model->spec->precision, &stub);
    images->of_layer[layer_index] = add_image(arena, images, layer->name, "pointwise", &stub);
}

/// All compilations, handed out by a counter.
typedef struct {
    const Nvrtc *nvrtc;
    const Images *images;
    const int *arches;
    int arch_count, job_count;
    NvrtcResult *results; ///< [image][arch]
    atomic_int next;
} Queue;

static void *work(void *argument)
{
    Queue *queue = argument;
    for (int job; (job = atomic_fetch_add(&queue->next, 1)) < queue->job_count;) {
        const Image *image = &queue->images->items[job / queue->arch_count];
        char name[256];
        snprintf(name, sizeof name, "/rnnc/%s.cu", image->name);
        queue->results[job] = nvrtc_compile(queue->nvrtc, image->source, name, options,
                                            OPTION_COUNT, queue->arches[job % queue->arch_count]);
    }
    return NULL;
}

/// Runs the queue on `jobs` threads, this one among them.
static void run_queue(Queue *queue, int jobs)
{
    pthread_t threads[THREADS_MAX];
    int started = 0;
    int wanted = jobs < queue->job_count ? jobs : queue->job_count;
    while (started < wanted - 1 && started < THREADS_MAX &&
           pthread_create(&threads[started], NULL, work, queue) == 0)
        started++;
    work(queue);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

static int newest(const int *arches, int arch_count)
{
    int best = 0;
    for (int i = 1; i < arch_count; i++)
        if (arches[i] > arches[best])
            best = i;
    return best;
}

/// Copies what the threads made into the arena; adds E0702 for what did not compile.
static bool take_results(Arena *arena, Diags *diags, const Queue *queue, Images *images)
{
    bool compiled = true;
    for (int job = 0; job < queue->job_count; job++) {
        NvrtcResult *result = &queue->results[job];
        Image *image = &images->items[job / queue->arch_count];
        int arch_index = job % queue->arch_count;
        if (!result->compiled) {
            Diag *diag =
                diag_add(diags, DIAG_E0702, (Span){0}, "%s does not compile for sm_%d:\n%.*s",
                         image->name, queue->arches[arch_index], LOG_BYTES_SHOWN,
                         result->log ? result->log : "out of memory");
            diag_help(diag, "this is a fault of rnnc; --dump cuda prints the kernel");
            compiled = false;
        } else {
            struct Cubin cubin = {queue->arches[arch_index],
                                  arena_copy(arena, result->cubin, result->cubin_bytes),
                                  result->cubin_bytes};
            ARENA_PUSH(arena, image->cubins, image->cubin_count, cubin);
            if (arch_index == newest(queue->arches, queue->arch_count)) {
                image->ptx = arena_copy(arena, result->ptx, strlen(result->ptx));
                image->ptxas_log = arena_copy(arena, result->log, strlen(result->log));
            }
        }
        nvrtc_result_free(result);
    }
    return compiled;
}

bool build_images(Arena *arena, Diags *diags, const Plan *plan, const int *arches, int arch_count,
                  int jobs, Images *out)
{
    *out = (Images){.of_choice = ARENA_ARRAY(arena, int *, plan->layer_count + 1),
                    .of_layer = ARENA_ARRAY(arena, int, plan->layer_count + 1)};
    for (int i = 0; i < plan->layer_count; i++)
        print_layer(arena, plan, i, out);
    Queue queue = {.nvrtc = nvrtc_open(arena, diags),
                   .images = out,
                   .arches = arches,
                   .arch_count = arch_count,
                   .job_count = out->count * arch_count};
    if (!queue.nvrtc)
        return false;
    queue.results = ARENA_ARRAY(arena, NvrtcResult, queue.job_count + 1);
    run_queue(&queue, jobs);
    return take_results(arena, diags, &queue, out);
}
