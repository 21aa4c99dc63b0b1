// Devices: the table of devices.def, and the reading of target names ("sm_90").
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "plan/plan.h"

static const Device devices[] = {
#define DEVICE(...) {__VA_ARGS__},
#include "plan/devices.def"
#undef DEVICE
};

enum { DEVICE_COUNT = sizeof devices / sizeof devices[0] };

const Device *device_find(int arch)
{
    for (int i = 0; i < DEVICE_COUNT; i++)
        if (devices[i].arch == arch)
            return &devices[i];
    return NULL;
}

const char *device_names(Arena *arena)
{
    Text names = {.arena = arena};
    for (int i = 0; i < DEVICE_COUNT; i++)
        text_addf(&names, "%ssm_%d", i ? ", " : "", devices[i].arch);
    return text_string(&names);
}

int device_arch(Arena *arena, Diags *diags, Span span, const char *target)
{
    if (strncmp(target, "sm_", 3) != 0)
        return 0;
    char *end;
    long arch = strtol(target + 3, &end, 10);
    bool whole = end > target + 3 && (*end == '\0' || ((*end == 'a' || *end == 'f') && !end[1]));
    if (whole && arch > 0 && arch < 1000 && device_find((int)arch))
        return (int)arch;
    Diag *diag = diag_add(diags, DIAG_E0601, span, "unknown GPU target '%s'", target);
    diag_help(diag, "known GPU targets: %s; the PTX of the newest one named runs on later chips",
              device_names(arena));
    return -1;
}
