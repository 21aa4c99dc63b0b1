// Cc: runs the machine's C compiler. Knows nothing of what it compiles.
#ifndef RNNC_BUILD_CC_H
#define RNNC_BUILD_CC_H

#include "base/diag.h"

/// One call of the compiler.
typedef struct {
    const char *what;             ///< for messages: "the CPU code of layer 'enc'"
    const char *const *arguments; ///< NULL-ended, without the compiler's own name
    const char *log;              ///< file for what it prints, below `folder`
    const char *target;           ///< what it writes where that lies elsewhere; NULL: in `folder`
} CcCall;

/// Runs all calls in `folder`, at most `jobs` at a time, with $CC or else cc. Adds E0711 where
/// there is no compiler, E0002 where the disk is full, and E0710 with the compiler's first lines
/// for any other failure; false then, and where a signal was noted (build/interrupt.h). All that
/// was started has ended on return.
bool cc_run(Arena *arena, Diags *diags, const char *folder, const CcCall *calls, int count,
            int jobs);

/// The same calls as a shell script, to build by hand what a folder holds.
const char *cc_script(Arena *arena, const CcCall *calls, int count);

#endif
