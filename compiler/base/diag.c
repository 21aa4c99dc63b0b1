// Diagnostics: the collection, and its two printers.
#include "base/diag.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

enum { MOST_ERRORS_SHOWN = 20, LONGEST_LINE_SHOWN = 160, SHOWN_BEFORE_CARET = 100 };

typedef struct Remark {
    struct Remark *next;
    Span span;
    const char *text;
    bool is_help;
} Remark;

struct Diag {
    Diags *diags;
    DiagCode code;
    Span span;
    const char *message;
    Remark *remarks, **remarks_end;
};

struct Diags {
    Arena *arena;
    Diag **items;
    size_t count;
    size_t error_count;
    bool environment;
};

static const struct {
    const char *name;
    Severity severity;
    const char *title, *explanation;
} facts[] = {
#define DIAGNOSTIC(code, severity, title, explanation) {#code, severity, title, explanation},
#include "base/diagnostics.def"
#undef DIAGNOSTIC
};

static const struct {
    const char *word, *colour;
} severities[] = {
    [SEVERITY_ERROR] = {"error", "\033[1;31m"},
    [SEVERITY_ENVIRONMENT] = {"error", "\033[1;31m"},
    [SEVERITY_WARNING] = {"warning", "\033[1;33m"},
    [SEVERITY_NOTE] = {"note", "\033[1;36m"},
};

static bool is_error(Severity severity)
{
    return severity == SEVERITY_ERROR || severity == SEVERITY_ENVIRONMENT;
}

Diags *diags_create(Arena *arena)
{
    Diags *diags = ARENA_NEW(arena, Diags);
    diags->arena = arena;
    return diags;
}

Diag *diag_add(Diags *diags, DiagCode code, Span span, const char *format, ...)
{
    Diag *diag = ARENA_NEW(diags->arena, Diag);
    va_list arguments;
    va_start(arguments, format);
    const char *message = arena_vformat(diags->arena, format, arguments);
    va_end(arguments);
    *diag = (Diag){.diags = diags, .code = code, .span = span, .message = message};
    diag->remarks_end = &diag->remarks;
    Severity severity = facts[code].severity;
    diags->environment |= severity == SEVERITY_ENVIRONMENT;
    diags->error_count += is_error(severity);
    if (!is_error(severity) || diags->error_count <= MOST_ERRORS_SHOWN)
        ARENA_PUSH(diags->arena, diags->items, diags->count, diag);
    return diag;
}

static void add_remark(Diag *diag, Remark remark)
{
    Remark *copy = ARENA_NEW(diag->diags->arena, Remark);
    *copy = remark;
    *diag->remarks_end = copy;
    diag->remarks_end = &copy->next;
}

void diag_help(Diag *diag, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *text = arena_vformat(diag->diags->arena, format, arguments);
    va_end(arguments);
    add_remark(diag, (Remark){.text = text, .is_help = true});
}

void diag_note(Diag *diag, Span span, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *text = arena_vformat(diag->diags->arena, format, arguments);
    va_end(arguments);
    add_remark(diag, (Remark){.text = text, .span = span});
}

size_t diags_error_count(const Diags *diags)
{
    return diags->error_count;
}

int diags_exit_code(const Diags *diags)
{
    return diags->environment ? 3 : diags->error_count > 0;
}

static void print_place(FILE *out, Span span)
{
    if (!span.source)
        return;
    fprintf(out, "%s:", span.source->path);
    if (span.line > 0)
        fprintf(out, "%d:%d:", span.line, span.column);
    fputc(' ', out);
}

static const char *line_start(const Source *source, int line)
{
    const char *at = source->text;
    while (--line > 0 && at) {
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    return at;
}

/// A byte of UTF-8 that takes no column of its own.
static bool is_continuation(char byte)
{
    return ((unsigned char)byte & 0xC0) == 0x80;
}

/// The source line and the caret under it; tabs are kept so that the caret stands right. Of a long
/// line only the part around the caret is shown.
static void print_caret(FILE *out, Span span, const char *colour, const char *plain)
{
    const char *line = span.source && span.line > 0 && span.source->text
                           ? line_start(span.source, span.line)
                           : NULL;
    if (!line)
        return;
    int length = (int)strcspn(line, "\r\n"), from = 0, to = length;
    if (length > LONGEST_LINE_SHOWN && span.column > SHOWN_BEFORE_CARET)
        from = span.column - 1 - SHOWN_BEFORE_CARET;
    if (to - from > LONGEST_LINE_SHOWN)
        to = from + LONGEST_LINE_SHOWN;
    while (from > 0 && is_continuation(line[from]))
        from--;
    while (to < length && is_continuation(line[to]))
        to++;
    const char *before = from > 0 ? "..." : "", *after = to < length ? "..." : "";
    fprintf(out, "%5d | %s%.*s%s\n      | %*s", span.line, before, to - from, line + from, after,
            (int)strlen(before), "");
    for (int i = from; i < span.column - 1 && i < to; i++)
        if (!is_continuation(line[i]))
            fputc(line[i] == '\t' ? '\t' : ' ', out);
    int underline = span.length > 0 ? span.length : 1;
    if (underline > to - span.column + 1)
        underline = to - span.column + 1;
    fprintf(out, "%s^", colour);
    for (int i = 1; i < underline; i++)
        if (!is_continuation(line[span.column - 1 + i]))
            fputc('~', out);
    fprintf(out, "%s\n", plain);
}

static void print_one(const Diag *diag, FILE *out, bool use_colour)
{
    Severity severity = facts[diag->code].severity;
    const char *colour = use_colour ? severities[severity].colour : "";
    const char *plain = use_colour ? "\033[0m" : "";
    print_place(out, diag->span);
    fprintf(out, "%s%s:%s %s [%s]\n", colour, severities[severity].word, plain, diag->message,
            facts[diag->code].name);
    print_caret(out, diag->span, colour, plain);
    for (const Remark *remark = diag->remarks; remark; remark = remark->next) {
        print_place(out, remark->span);
        fprintf(out, "%s: %s\n", remark->is_help ? "help" : "note", remark->text);
        print_caret(out, remark->span, "", "");
    }
}

static int compare_places(const void *left, const void *right)
{
    const Diag *a = *(Diag *const *)left, *b = *(Diag *const *)right;
    bool a_error = is_error(facts[a->code].severity), b_error = is_error(facts[b->code].severity);
    if (a_error != b_error)
        return a_error ? -1 : 1;
    if (a->span.line != b->span.line)
        return a->span.line < b->span.line ? -1 : 1;
    return (a->span.column > b->span.column) - (a->span.column < b->span.column);
}

/// A stable order: qsort is not stable, so ties go by the order of arrival.
static Diag **sorted(const Diags *diags)
{
    Diag **items = ARENA_ARRAY(diags->arena, Diag *, diags->count + 1);
    for (size_t i = 0; i < diags->count; i++) {
        size_t at = i;
        for (; at > 0 && compare_places(&diags->items[i], &items[at - 1]) < 0; at--)
            items[at] = items[at - 1];
        items[at] = diags->items[i];
    }
    return items;
}

void diags_print(const Diags *diags, FILE *out, bool colour)
{
    Diag **items = sorted(diags);
    for (size_t i = 0; i < diags->count; i++)
        print_one(items[i], out, colour);
    if (diags->error_count > MOST_ERRORS_SHOWN)
        fprintf(out, "rnnc: %zu more errors are not shown\n",
                diags->error_count - MOST_ERRORS_SHOWN);
}

/// JSON holds UTF-8 only; a name from the command line need not be that.
static json_t *text_json(const char *text)
{
    json_t *string = json_string(text);
    if (string || !text)
        return string;
    char *ascii = strdup(text);
    for (char *at = ascii; at && *at; at++)
        if ((unsigned char)*at >= 0x80)
            *at = '?';
    string = json_string(ascii);
    free(ascii);
    return string;
}

static json_t *span_json(Span span)
{
    json_t *object = json_object();
    if (!span.source)
        return object;
    json_object_set_new(object, "file", text_json(span.source->path));
    if (span.line > 0) {
        json_object_set_new(object, "line", json_integer(span.line));
        json_object_set_new(object, "column", json_integer(span.column));
        json_object_set_new(object, "length", json_integer(span.length));
    }
    return object;
}

static json_t *diag_json(const Diag *diag)
{
    json_t *object = span_json(diag->span), *help = json_array(), *notes = json_array();
    json_object_set_new(object, "code", json_string(facts[diag->code].name));
    json_object_set_new(object, "severity",
                        json_string(severities[facts[diag->code].severity].word));
    json_object_set_new(object, "message", text_json(diag->message));
    for (const Remark *remark = diag->remarks; remark; remark = remark->next) {
        if (remark->is_help) {
            json_array_append_new(help, text_json(remark->text));
            continue;
        }
        json_t *note = span_json(remark->span);
        json_object_set_new(note, "message", text_json(remark->text));
        json_array_append_new(notes, note);
    }
    json_object_set_new(object, "help", help);
    json_object_set_new(object, "notes", notes);
    return object;
}

void diags_print_json(const Diags *diags, FILE *out)
{
    Diag **items = sorted(diags);
    json_t *array = json_array();
    for (size_t i = 0; i < diags->count; i++)
        json_array_append_new(array, diag_json(items[i]));
    json_dumpf(array, out, JSON_INDENT(2));
    fputc('\n', out);
    json_decref(array);
}

DiagCode diag_find(const char *name)
{
    int code = 0;
    while (code < DIAG_COUNT && strcasecmp(facts[code].name, name) != 0)
        code++;
    return (DiagCode)code;
}

const char *diag_name(DiagCode code)
{
    return facts[code].name;
}

const char *diag_title(DiagCode code)
{
    return facts[code].title;
}

const char *diag_explanation(DiagCode code)
{
    return facts[code].explanation;
}
