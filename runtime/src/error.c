// Error: the thread's own message, and the names of statuses.
#include "error.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local rnnc_error thread_error;

rnnc_status rnnc_error_set(rnnc_error *error, rnnc_status status, const char *format, ...)
{
    rnnc_error *to = error ? error : &thread_error;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(to->message, sizeof to->message, format, arguments);
    va_end(arguments);
    return status;
}

void rnnc_error_copy_to_thread(const rnnc_error *error)
{
    thread_error = *error;
}

const char *rnnc_last_error(void)
{
    return thread_error.message;
}

const char *rnnc_status_name(rnnc_status status)
{
    static const char *const names[] = {
        [RNNC_OK] = "ok",
        [RNNC_INVALID_ARGUMENT] = "invalid argument",
        [RNNC_NOT_FOUND] = "not found",
        [RNNC_BAD_MODULE] = "bad module",
        [RNNC_UNAVAILABLE] = "unavailable",
        [RNNC_OUT_OF_MEMORY] = "out of memory",
        [RNNC_NOT_READY] = "not ready",
        [RNNC_DEVICE_ERROR] = "device error",
        [RNNC_CANCELLED] = "cancelled",
    };
    size_t index = (size_t)status;
    return index < sizeof names / sizeof names[0] ? names[index] : "unknown status";
}

const char *rnnc_version(void)
{
    return RNNC_VERSION;
}
