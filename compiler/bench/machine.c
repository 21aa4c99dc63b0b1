// Machine: see machine.h.
#include "bench/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plan/plan.h"
#include "rnnc/measure.h"

/// The processor's name from Linux, and how many of its cores this process may use.
static const char *cpu_text(Arena *arena)
{
    char line[256];
    const char *name = "CPU";
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon) {
            colon += 1 + strspn(colon + 1, " \t");
            name = arena_copy(arena, colon, strcspn(colon, "\n"));
            break;
        }
    }
    if (file)
        fclose(file);
    return arena_format(arena, "%s, %ld cores", name, sysconf(_SC_NPROCESSORS_ONLN));
}

/// N of "cuda:N"; 0 for "cuda"; -1 where the name is none.
static int32_t ordinal_of(const char *device)
{
    char *end;
    if (strcmp(device, "cuda") == 0)
        return 0;
    if (strncmp(device, "cuda:", 5) != 0 || device[5] < '0' || device[5] > '9')
        return -1;
    const long ordinal = strtol(device + 5, &end, 10);
    return *end == '\0' && ordinal < 1000 ? (int32_t)ordinal : -1;
}

/// The newest arch of the device table that the GPU can run.
static int target_arch(int arch)
{
    while (arch > 0 && !device_find(arch))
        arch--;
    return arch;
}

bool machine_find(Arena *arena, Diags *diags, const char *device, BenchMachine *out,
                  BenchReport *report)
{
    const bool wants_cpu = !device || strcmp(device, "cpu") == 0;
    *out = (BenchMachine){.cpu = wants_cpu, .targets = "cpu"};
    report->cpu = cpu_text(arena);
    if (device && wants_cpu)
        return true;
    out->ordinal = device ? ordinal_of(device) : 0;
    if (out->ordinal < 0) {
        diag_add(diags, DIAG_E0805, (Span){0},
                 "--device is '%s', expected 'cpu', 'cuda' or 'cuda:N'", device);
        return false;
    }
    rnnc_gpu_facts facts;
    if (rnnc_gpu_find(out->ordinal, &facts) != RNNC_OK) {
        report->no_gpu = arena_copy(arena, rnnc_last_error(), strlen(rnnc_last_error()));
        if (!device)
            return true;
        diag_add(diags, DIAG_E0806, (Span){0}, "%s", report->no_gpu);
        return false;
    }
    out->gpu = arena_format(arena, "cuda:%d", (int)out->ordinal);
    out->targets = arena_format(arena, "sm_%d%s", target_arch(facts.arch), wants_cpu ? ",cpu" : "");
    report->gpu = arena_copy(arena, facts.name, strlen(facts.name));
    report->arch = facts.arch;
    report->multiprocessors = facts.multiprocessors;
    report->clock_mhz = facts.clock_mhz;
    report->driver_cuda = facts.driver_cuda;
    return true;
}
