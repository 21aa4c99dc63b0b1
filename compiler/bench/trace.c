// Trace: see trace.h. The format is that of the Chromium project's "Trace Event Format": complete
// events ("ph": "X") with a start and a duration in microseconds, and names of processes and
// tracks.
#include "bench/trace.h"

#include <math.h>
#include <stdlib.h>

enum { GAP_TRACK = 0, STREAM_TRACK = 1 };

/// Shorter gaps are below the clock's resolution.
static const double LEAST_GAP_US = 0.05;

static int by_start(const void *a, const void *b)
{
    const double left = ((const rnnc_trace_event *)a)->start_us;
    const double right = ((const rnnc_trace_event *)b)->start_us;
    return (left > right) - (left < right);
}

static void begin_event(Trace *trace)
{
    if (trace->events.length > 0)
        text_add(&trace->events, ",\n");
}

static void add_name(Arena *arena, Trace *trace, const char *what, int track, const char *name)
{
    begin_event(trace);
    text_addf(&trace->events,
              "{\"ph\": \"M\", \"pid\": %d, \"tid\": %d, \"name\": \"%s\", \"args\": {\"name\": "
              "\"%s\"}}",
              trace->process_count, track, what, text_json_escape(arena, name));
}

static void add_span(Trace *trace, int track, const char *name, double start_us, double length_us)
{
    begin_event(trace);
    text_addf(&trace->events,
              "{\"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"name\": \"%s\", \"ts\": %.3f, \"dur\": "
              "%.3f",
              trace->process_count, track, name, start_us, length_us);
}

static void add_event(Arena *arena, Trace *trace, const rnnc_trace_event *event, double origin_us)
{
    static const char *const names[] = {"kernel", "copy", "fill"};
    const char *name = event->name ? text_json_escape(arena, event->name) : names[event->kind];
    add_span(trace, STREAM_TRACK + (int)event->stream, name, event->start_us - origin_us,
             event->end_us - event->start_us);
    if (event->kind == RNNC_TRACE_KERNEL)
        text_addf(&trace->events,
                  ", \"args\": {\"grid\": [%d, %d, %d], \"block\": [%d, %d, %d], \"registers\": "
                  "%d, \"shared_bytes\": %d}}",
                  event->grid[0], event->grid[1], event->grid[2], event->block[0], event->block[1],
                  event->block[2], event->registers, event->shared_bytes);
    else
        text_addf(&trace->events, ", \"args\": {\"bytes\": %llu}}",
                  (unsigned long long)event->bytes);
}

/// The stream's track is named before its first event.
static bool is_first_of_stream(const rnnc_trace *events, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (events->events[i].stream == events->events[index].stream)
            return false;
    return true;
}

TraceSummary trace_add(Arena *arena, Trace *trace, const char *name, rnnc_trace *events, int runs)
{
    TraceSummary summary = {0};
    if (events->count == 0)
        return summary;
    qsort(events->events, events->count, sizeof *events->events, by_start);
    const double origin_us = events->events[0].start_us;
    double end_us = origin_us;
    add_name(arena, trace, "process_name", GAP_TRACK, name);
    add_name(arena, trace, "thread_name", GAP_TRACK, "gaps");
    for (size_t i = 0; i < events->count; i++) {
        const rnnc_trace_event *event = &events->events[i];
        if (is_first_of_stream(events, i))
            add_name(arena, trace, "thread_name", STREAM_TRACK + (int)event->stream,
                     arena_format(arena, "stream %u", event->stream));
        const double gap_us = event->start_us - end_us;
        if (gap_us > LEAST_GAP_US) {
            add_span(trace, GAP_TRACK, arena_format(arena, "gap %.1f us", gap_us),
                     end_us - origin_us, gap_us);
            text_add(&trace->events, "}");
        }
        summary.gap_us += fmax(0, gap_us);
        add_event(arena, trace, event, origin_us);
        summary.kernels += event->kind == RNNC_TRACE_KERNEL;
        end_us = fmax(end_us, event->end_us);
    }
    summary.busy_us = end_us - origin_us - summary.gap_us;
    trace->process_count++;
    summary.kernels /= runs;
    summary.busy_us /= runs;
    summary.gap_us /= runs;
    return summary;
}

void trace_print(const Trace *trace, Text *out)
{
    text_addf(out, "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n%s\n]}\n",
              text_string(&trace->events));
}
