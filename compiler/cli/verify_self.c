// Self-test: see verify_self.h. Sessions are those of the bench, without a clock.
#include "cli/verify_self.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "bench/bound_session.h"
#include "emit/host.h"
#include "plan/plan.h"
#include "rnnc/measure.h"

typedef struct {
    CliCall *call;
    Subject subject;
    const rnnc_self_test *test;
    BenchInput input;
    ReferencePart part;
    ReferenceOutput reference[2];
    int ran;
} SelfRun;

/// Row `row` of the batch is row `row % rows` of the test; steps beyond the test's are 0.
static void repeat_rows(SelfRun *run, int64_t width, bool time_major)
{
    Arena *arena = run->call->arena;
    const rnnc_self_test *test = run->test;
    const int64_t B = run->input.batch, T = run->input.timesteps;
    const uint32_t *from = test->x;
    uint32_t *x = ARENA_ARRAY(arena, uint32_t, B * T * width);
    uint32_t *laid_out = ARENA_ARRAY(arena, uint32_t, B * T * width);
    for (int64_t row = 0; row < B; row++)
        for (int64_t step = 0; step < test->timesteps; step++) {
            const uint32_t *values = from + (row % test->rows * test->timesteps + step) * width;
            const int64_t at = time_major ? step * B + row : row * T + step;
            memcpy(x + (row * T + step) * width, values, 4 * (size_t)width);
            memcpy(laid_out + at * width, values, 4 * (size_t)width);
        }
    run->input.x = x;
    run->input.laid_out = laid_out;
}

static void prepare(SelfRun *run)
{
    Arena *arena = run->call->arena;
    const rnnc_module *module = run->subject.module;
    size_t index = 0;
    while (rnnc_module_tensor(module, index)->role != RNNC_ROLE_INPUT)
        index++;
    const rnnc_tensor_info *x = rnnc_module_tensor(module, index);
    int32_t batch_axis, time_axis;
    rnnc_module_tensor_axes(module, index, &batch_axis, &time_axis);
    const int64_t batch = x->dims[batch_axis], timesteps = x->dims[time_axis];
    run->input.batch = batch > 0 ? batch : run->test->rows;
    run->input.timesteps = timesteps > 0 ? timesteps : run->test->timesteps;
    repeat_rows(run, x->ndim == 3 ? x->dims[2] : 1, time_axis == 0);
    const int64_t rows = run->test->rows < run->input.batch ? run->test->rows : run->input.batch;
    run->part = (ReferencePart){.rows = ARENA_ARRAY(arena, int64_t, rows + 1),
                                .row_count = rows,
                                .timesteps = run->test->timesteps};
    for (int64_t row = 0; row < rows; row++)
        run->part.rows[row] = row;
    for (int i = 0; i < 2; i++)
        run->reference[i] =
            (ReferenceOutput){(double *)(uintptr_t)run->test->outputs[i].values,
                              run->test->outputs[i].width, run->test->outputs[i].steps};
}

/// One line of the table. What cannot run here is told; where it was asked for, it is an error.
static void run_variant(SelfRun *run, const char *device, const char *variant, bool is_asked)
{
    CliCall *call = run->call;
    BoundSession bound;
    const rnnc_status status =
        bound_session_open(call->arena, &run->subject, &run->input, device, variant, &bound);
    const char *name = variant ? variant : "chosen";
    if (status != RNNC_OK) {
        printf("  %-7s %-24s not run: %s\n", device, name, bound.fault);
        if (is_asked || status != RNNC_UNAVAILABLE)
            diag_add(call->diags, status == RNNC_INVALID_ARGUMENT ? DIAG_E0805 : DIAG_E0806,
                     (Span){0}, "%s", bound.fault);
        return;
    }
    const double error =
        bound_session_error(&bound, &run->subject, &run->input, &run->part, run->reference);
    bound_session_close(&bound);
    const bool good = error <= run->test->tolerance;
    printf("  %-7s %-24s error %.2g%s\n", device, name, error, good ? "" : ", TOO LARGE");
    run->ran++;
    if (!good)
        diag_add(call->diags, DIAG_E0807, (Span){0},
                 "%s on %s is %.2g off, more than the %.2g of the module's precision", name, device,
                 error, run->test->tolerance);
}

static void run_cpu(SelfRun *run)
{
    int count;
    const HostIsa *isas = host_isas(&count);
    for (int i = 0; i < count; i++)
        run_variant(run, "cpu", arena_format(run->call->arena, "cpu:%s", isas[i].name), false);
}

/// All variants of one GPU; where there is none, one line says why.
static void run_gpu(SelfRun *run, const char *device, bool is_asked)
{
    BoundSession bound;
    const rnnc_status status =
        bound_session_open(run->call->arena, &run->subject, &run->input, device, NULL, &bound);
    bound_session_close(&bound);
    if (status == RNNC_UNAVAILABLE) {
        run_variant(run, device, NULL, is_asked);
        return;
    }
    run_variant(run, device, NULL, true);
    for (const Variant *const *at = plan_variants; *at; at++) {
        const bool is_cudnn = strcmp((*at)->name, "cudnn") == 0;
        for (int32_t i = 0; is_cudnn && rnnc_cudnn_algorithm_name(i); i++)
            run_variant(run, device,
                        arena_format(run->call->arena, "cudnn:%s", rnnc_cudnn_algorithm_name(i)),
                        false);
        if ((*at)->gpu && !is_cudnn)
            run_variant(run, device, (*at)->name, false);
    }
}

static void run_devices(SelfRun *run)
{
    const char *device = cli_value(run->call, "device"), *variant = cli_value(run->call, "variant");
    const bool is_cpu = device && strcmp(device, "cpu") == 0;
    if (variant) {
        const bool is_of_cpu = strncmp(variant, "cpu", 3) == 0;
        run_variant(run, device ? device : is_of_cpu ? "cpu" : "cuda:0", variant, true);
        return;
    }
    if (!device || is_cpu)
        run_cpu(run);
    if (!is_cpu)
        run_gpu(run, device ? device : "cuda:0", device != NULL);
}

int verify_self(CliCall *call)
{
    SelfRun run = {.call = call};
    const rnnc_status status = rnnc_module_open(call->operands[0], &run.subject.module);
    if (status != RNNC_OK) {
        diag_add(call->diags, status == RNNC_NOT_FOUND ? DIAG_E0001 : DIAG_E0802, (Span){0}, "%s",
                 rnnc_last_error());
        return cli_result(call);
    }
    run.test = rnnc_module_self_test(run.subject.module);
    if (run.test) {
        prepare(&run);
        printf("%s: %" PRId64 " rows, %" PRId64 " steps against float64, at most %.2g off\n",
               call->operands[0], run.part.row_count, run.part.timesteps, run.test->tolerance);
        run_devices(&run);
        if (run.ran == 0 && diags_error_count(call->diags) == 0)
            diag_add(call->diags, DIAG_E0806, (Span){0}, "no variant of '%s' runs on this machine",
                     call->operands[0]);
    } else {
        Diag *diag = diag_add(call->diags, DIAG_E0811, (Span){0}, "'%s' has no self-test",
                              call->operands[0]);
        diag_help(diag, "give files: --in x=x.npy --expect y=y.npy");
    }
    rnnc_module_close(run.subject.module);
    return cli_result(call);
}
