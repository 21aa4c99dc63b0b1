// Diagnostics: collected, not printed, so that one run reports up to 20 faults. Each has a code
// from diagnostics.def, a place in a source text, a message and the way out. The command line
// prints them as text with a caret, or as JSON.
#ifndef RNNC_BASE_DIAG_H
#define RNNC_BASE_DIAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"

/// A text that spans point into. Lives in the arena or longer than it.
typedef struct {
    const char *path; ///< as the user wrote it; printed before line and column
    const char *text; ///< NUL-terminated; NULL for a binary file (no source line is shown)
    size_t length;
} Source;

/// A place: 1-based line and column (in bytes), and the length to underline. `source` NULL: no
/// place; `line` 0: the file as a whole.
typedef struct {
    const Source *source;
    int line, column, length;
} Span;

typedef enum {
#define DIAGNOSTIC(code, severity, title, explanation) DIAG_##code,
#include "base/diagnostics.def"
#undef DIAGNOSTIC
    DIAG_COUNT
} DiagCode;

/// What a diagnostic costs: an error stops before anything is written (exit 1, or 3 where the
/// environment is at fault); warnings and notes do not.
typedef enum { SEVERITY_ERROR, SEVERITY_ENVIRONMENT, SEVERITY_WARNING, SEVERITY_NOTE } Severity;

typedef struct Diags Diags;
typedef struct Diag Diag;

/// An empty collection. Beyond 20 errors only the count goes on.
Diags *diags_create(Arena *arena);

/// Adds one diagnostic; its severity is the code's. Returns a handle for diag_help and diag_note,
/// valid as long as the arena; never NULL.
Diag *diag_add(Diags *diags, DiagCode code, Span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/// Adds the way out ("help: ..."), or a further place ("note: ..." with its own span).
void diag_help(Diag *diag, const char *format, ...) __attribute__((format(printf, 2, 3)));
void diag_note(Diag *diag, Span span, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/// Errors so far (environment faults included): a stage that finds the count grown stops the
/// pipeline.
size_t diags_error_count(const Diags *diags);

/// 0 without errors; 1 for diagnostics; 3 where an environment fault is among them.
int diags_exit_code(const Diags *diags);

/// Prints all of them, errors first in order of place. Colours only where `colour`.
void diags_print(const Diags *diags, FILE *out, bool colour);

/// Prints one JSON array: [{"code", "severity", "message", "file", "line", "column", "length",
/// "help": [..], "notes": [{..}]}].
void diags_print_json(const Diags *diags, FILE *out);

/// The code's name ("E0204"), title and explanation, for `rnnc explain E0204`. `diag_find` returns
/// DIAG_COUNT for an unknown name (case-insensitive).
DiagCode diag_find(const char *name);
const char *diag_name(DiagCode code);
const char *diag_title(DiagCode code);
const char *diag_explanation(DiagCode code);

#endif
