// Interrupt: a signal that would end the process is noted while temporary files exist, the child
// processes are ended, and the signal takes its course once the files are gone.
#ifndef RNNC_BUILD_INTERRUPT_H
#define RNNC_BUILD_INTERRUPT_H

#include <stdbool.h>
#include <sys/types.h>

/// From here on SIGHUP, SIGINT and SIGTERM are noted. One hold at a time, by one thread.
void interrupt_hold(void);

/// Process groups to end with SIGTERM on a signal; an entry 0 is none. The array must stay until
/// the next call; NULL and 0: none.
void interrupt_watch(const volatile pid_t *groups, int count);

/// Whether a signal has come since the hold.
bool interrupt_noted(void);

/// Ends the hold. A noted signal is raised again, and as a rule ends the process.
void interrupt_release(void);

#endif
