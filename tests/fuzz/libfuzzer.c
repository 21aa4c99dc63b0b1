// libFuzzer's entry for the target that RNNC_FUZZ_TARGET names: cmake -DRNNC_FUZZ=ON with clang.
#include <stdint.h>
#include <string.h>

#include "targets.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    for (const FuzzTarget *target = fuzz_targets; target->name; target++)
        if (strcmp(target->name, RNNC_FUZZ_TARGET) == 0)
            target->run(bytes, size_bytes);
    return 0;
}
