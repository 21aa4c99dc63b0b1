// Measuring a session: see rnnc/measure.h. The device holds the clock; here is the run that it
// times.
#include "rnnc/measure.h"

#include "session.h"

rnnc_status rnnc_measured_run(rnnc_session *session)
{
    if (!session || !session->training.trains)
        return rnnc_run(session);
    const rnnc_status status = rnnc_forward(session);
    return status == RNNC_OK ? rnnc_backward(session, NULL) : status;
}

static rnnc_status run_once(void *context)
{
    return rnnc_measured_run(context);
}

rnnc_status rnnc_session_time(rnnc_session *session, const rnnc_timing *timing, double *out_us)
{
    if (!session || !timing || !out_us || timing->runs < 1 || timing->samples < 1)
        return rnnc_error_set(session ? &session->error : NULL, RNNC_INVALID_ARGUMENT,
                              "rnnc_session_time: a pointer is NULL, or no run is asked for");
    return session->ops->time(session->device, timing, run_once, session, out_us);
}

size_t rnnc_session_memory(const rnnc_session *session)
{
    return session ? (size_t)session->memory_bytes : 0;
}
