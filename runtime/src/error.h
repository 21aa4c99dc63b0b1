// Error: a status with a message, one in each session and one in each thread for calls that have no
// session.
#ifndef RNNC_RUNTIME_ERROR_H
#define RNNC_RUNTIME_ERROR_H

#include "rnnc/rnnc.h"

typedef struct {
    char message[2048]; ///< "" while nothing failed
} rnnc_error;

/// Writes the message and returns `status`, so that a failure is one statement. NULL `error`: this
/// thread's own.
rnnc_status rnnc_error_set(rnnc_error *error, rnnc_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/// Puts a message into this thread's own error.
void rnnc_error_copy_to_thread(const rnnc_error *error);

#endif
