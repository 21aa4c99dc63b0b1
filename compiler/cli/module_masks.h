// Masks: --lengths and --mask of a run, their values checked, and what they mean where the run is
// fed in chunks: a chunk does not see the steps before it.
#ifndef RNNC_CLI_MODULE_MASKS_H
#define RNNC_CLI_MODULE_MASKS_H

#include "cli/cli.h"
#include "cli/module_ports.h"
#include "import/npy.h"

/// What a run has of the two; at most one.
typedef struct {
    const Port *lengths, *mask; ///< with their arrays; NULL: not given
    bool repeats;               ///< rnnc_streaming's repeats_when_masked
} Masks;

/// Converts an array for a port of role RNNC_ROLE_MASK whose shape fits: lengths to int32 within 0
/// to `timesteps`, a mask to bytes 0 or 1. Adds E0804, which names the row, and returns false where
/// a value or the dtype does not fit.
bool masks_convert(CliCall *call, const char *path, Port *port, const NpyArray *array,
                   int64_t timesteps);

/// Writes what is left of the lengths at step `first` to `chunk`, for a run of `timesteps`.
void masks_cut_lengths(const Port *lengths, int64_t first, int64_t timesteps, int32_t *chunk);

/// Puts into a chunk of an output without time what earlier chunks gave for the rows that have no
/// step in this one.
void masks_keep_rows(const Masks *masks, const Port *output, int64_t first, int64_t timesteps,
                     unsigned char *chunk);

/// In the whole array of an output with time: repeats the step before `first` in the rows that
/// begin with masked steps there.
void masks_repeat_steps(const Masks *masks, const Port *output, int64_t first, int64_t timesteps);

#endif
