// Doc: libyaml's events made into nodes. libyaml counts lines and columns from 0 and in characters;
// places here count from 1 and in bytes, as editors and compilers do. A block collection of libyaml
// ends where the next token begins, so ends are taken from scalars and closing brackets.
#include "spec/doc.h"

#include <string.h>
#include <yaml.h>

#include "base/text.h"

enum { DEEPEST = 32, MOST_ENTRIES = 1000 };

/// A character of the text: libyaml's index (in characters) and where that is.
typedef struct {
    size_t index, offset, line_start;
    int line;
} Place;

typedef struct {
    Arena *arena;
    Diags *diags;
    const Source *source;
    yaml_parser_t parser;
    Place place; ///< of the latest event; events come in the order of the text
} Reader;

static bool is_continuation(char byte)
{
    return ((unsigned char)byte & 0xC0) == 0x80;
}

static Place advance(const Source *source, Place place, size_t index)
{
    while (place.index < index && place.offset < source->length) {
        bool newline = source->text[place.offset++] == '\n';
        while (place.offset < source->length && is_continuation(source->text[place.offset]))
            place.offset++;
        place.index++;
        if (newline) {
            place.line++;
            place.line_start = place.offset;
        }
    }
    return place;
}

static int column_of(Place place)
{
    return (int)(place.offset - place.line_start) + 1;
}

/// The span between two marks, cut at the end of its first line; `out_end` may be NULL.
static Span span_between(Reader *reader, yaml_mark_t from, yaml_mark_t to, Place *out_end)
{
    Place start = advance(reader->source, reader->place, from.index);
    Place end = advance(reader->source, start, to.index);
    reader->place = start;
    if (out_end)
        *out_end = end;
    size_t length = strcspn(reader->source->text + start.offset, "\r\n");
    if (end.offset - start.offset < length)
        length = end.offset - start.offset;
    return (Span){reader->source, start.line, column_of(start), (int)length};
}

/// libyaml's own complaint, in its words, at its mark.
static void report_syntax(Reader *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    const char *problem = parser->problem ? parser->problem : "unreadable";
    if (parser->error == YAML_READER_ERROR) {
        Place place = {.line = 1};
        while (place.offset < parser->problem_offset && place.offset < reader->source->length)
            place = advance(reader->source, place, place.index + 1);
        Span span = {reader->source, place.line, column_of(place), 1};
        Diag *diag = diag_add(reader->diags, DIAG_E0105, span, "not UTF-8 text: %s", problem);
        diag_help(diag, "save the file as UTF-8");
        return;
    }
    reader->place = (Place){.line = 1};
    Span span = span_between(reader, parser->problem_mark, parser->problem_mark, NULL);
    span.length = 1;
    const char *context = parser->context ? parser->context : "";
    Diag *diag = diag_add(reader->diags, DIAG_E0101, span, "%s%s%s", problem,
                          context[0] ? ", " : "", context);
    if (reader->source->text[reader->place.offset] == '\t')
        diag_help(diag, "YAML does not allow tabs here: indent with spaces");
}

static bool next_event(Reader *reader, yaml_event_t *event)
{
    if (yaml_parser_parse(&reader->parser, event))
        return true;
    report_syntax(reader);
    return false;
}

/// Refuses what a spec has no use for: aliases, anchors, tags.
static bool is_plain_data(Reader *reader, const yaml_event_t *event)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;
    if (event->type == YAML_ALIAS_EVENT)
        anchor = event->data.alias.anchor;
    else if (event->type == YAML_SCALAR_EVENT)
        anchor = event->data.scalar.anchor, tag = event->data.scalar.tag;
    else if (event->type == YAML_SEQUENCE_START_EVENT)
        anchor = event->data.sequence_start.anchor, tag = event->data.sequence_start.tag;
    else if (event->type == YAML_MAPPING_START_EVENT)
        anchor = event->data.mapping_start.anchor, tag = event->data.mapping_start.tag;
    if (!anchor && !tag)
        return true;
    Span span = span_between(reader, event->start_mark, event->end_mark, NULL);
    if (anchor) {
        Diag *diag = diag_add(reader->diags, DIAG_E0103, span, "a spec has no anchors and aliases");
        diag_help(diag, "write the value out; equal layers are `layers: N`");
    } else {
        Diag *diag = diag_add(reader->diags, DIAG_E0107, span, "a spec has no tags ('%s')",
                              (const char *)tag);
        diag_help(diag, "remove the tag: the key decides its value's type");
    }
    return false;
}

static const DocNode *read_node(Reader *reader, yaml_event_t *event, int depth);

static DocNode *scalar_node(Reader *reader, const yaml_event_t *event)
{
    DocNode *node = ARENA_NEW(reader->arena, DocNode);
    Place end;
    node->span = span_between(reader, event->start_mark, event->end_mark, &end);
    node->end_line = end.line;
    node->end_column = column_of(end);
    node->text = arena_copy(reader->arena, (const char *)event->data.scalar.value,
                            event->data.scalar.length);
    node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    return node;
}

/// The end of a collection: its closing bracket, or the end of its last child.
static void close_collection(Reader *reader, DocNode *node, const yaml_event_t *event,
                             const DocNode *last)
{
    if (event->start_mark.index < event->end_mark.index || !last) {
        Place end;
        span_between(reader, event->start_mark, event->end_mark, &end);
        node->end_line = end.line;
        node->end_column = column_of(end);
    } else {
        node->end_line = last->end_line;
        node->end_column = last->end_column;
    }
    if (node->end_line == node->span.line)
        node->span.length = node->end_column - node->span.column;
}

static bool add_item(Reader *reader, DocNode *node, const DocNode *item)
{
    if (node->count >= MOST_ENTRIES) {
        diag_add(reader->diags, DIAG_E0106, item->span, "more than %d items in one list",
                 MOST_ENTRIES);
        return false;
    }
    ARENA_PUSH(reader->arena, node->items, node->count, item);
    return true;
}

static bool read_items(Reader *reader, DocNode *node, int depth)
{
    yaml_event_t event;
    while (next_event(reader, &event)) {
        if (event.type == YAML_SEQUENCE_END_EVENT) {
            close_collection(reader, node, &event,
                             node->count ? node->items[node->count - 1] : NULL);
            yaml_event_delete(&event);
            return true;
        }
        const DocNode *item = read_node(reader, &event, depth);
        if (!item || !add_item(reader, node, item))
            return false;
    }
    return false;
}

static bool add_entry(Reader *reader, DocNode *node, DocEntry entry)
{
    if (node->count >= MOST_ENTRIES) {
        diag_add(reader->diags, DIAG_E0106, entry.key->span, "more than %d keys in one mapping",
                 MOST_ENTRIES);
        return false;
    }
    const DocEntry *first = doc_find(node, entry.key->text);
    if (!first) {
        ARENA_PUSH(reader->arena, node->entries, node->count, entry);
        return true;
    }
    Diag *diag = diag_add(reader->diags, DIAG_E0102, entry.key->span, "key '%s' is given twice",
                          entry.key->text);
    diag_note(diag, first->key->span, "the first time is here");
    return true;
}

static bool read_entries(Reader *reader, DocNode *node, int depth)
{
    yaml_event_t event;
    while (next_event(reader, &event)) {
        if (event.type == YAML_MAPPING_END_EVENT) {
            close_collection(reader, node, &event,
                             node->count ? node->entries[node->count - 1].value : NULL);
            yaml_event_delete(&event);
            return true;
        }
        const DocNode *key = read_node(reader, &event, depth);
        if (!key)
            return false;
        if (key->kind != DOC_SCALAR) {
            diag_add(reader->diags, DIAG_E0108, key->span,
                     "a key is a word, not a list or mapping");
            return false;
        }
        const DocNode *value = next_event(reader, &event) ? read_node(reader, &event, depth) : NULL;
        if (!value || !add_entry(reader, node, (DocEntry){key, value}))
            return false;
    }
    return false;
}

static DocNode *collection_node(Reader *reader, yaml_event_t *event, int depth)
{
    DocNode *node = ARENA_NEW(reader->arena, DocNode);
    node->kind = event->type == YAML_MAPPING_START_EVENT ? DOC_MAPPING : DOC_SEQUENCE;
    node->span = span_between(reader, event->start_mark, event->end_mark, NULL);
    Place start = reader->place;
    yaml_event_delete(event);
    if (depth >= DEEPEST) {
        diag_add(reader->diags, DIAG_E0106, node->span, "nested more than %d deep", DEEPEST);
        return NULL;
    }
    bool good = node->kind == DOC_MAPPING ? read_entries(reader, node, depth + 1)
                                          : read_items(reader, node, depth + 1);
    if (good && node->end_line != node->span.line)
        node->span.length = (int)strcspn(reader->source->text + start.offset, "\r\n");
    return good ? node : NULL;
}

/// Reads the node that `event` begins, and ends the event.
static const DocNode *read_node(Reader *reader, yaml_event_t *event, int depth)
{
    if (!is_plain_data(reader, event)) {
        yaml_event_delete(event);
        return NULL;
    }
    if (event->type != YAML_SCALAR_EVENT)
        return collection_node(reader, event, depth);
    const DocNode *node = scalar_node(reader, event);
    yaml_event_delete(event);
    return node;
}

/// Skips events up to one that begins a document's content, or the stream's end.
static bool next_content(Reader *reader, yaml_event_t *event)
{
    while (next_event(reader, event)) {
        if (event->type != YAML_STREAM_START_EVENT && event->type != YAML_DOCUMENT_START_EVENT &&
            event->type != YAML_DOCUMENT_END_EVENT)
            return true;
        yaml_event_delete(event);
    }
    return false;
}

static const DocNode *read_document(Reader *reader)
{
    yaml_event_t event;
    if (!next_content(reader, &event))
        return NULL;
    if (event.type == YAML_STREAM_END_EVENT) {
        yaml_event_delete(&event);
        Diag *diag =
            diag_add(reader->diags, DIAG_E0109, (Span){.source = reader->source}, "file is empty");
        diag_help(diag, "begin with `rnnc: 1`, `input:` and `layers:`");
        return NULL;
    }
    const DocNode *root = read_node(reader, &event, 0);
    if (!root || !next_content(reader, &event))
        return NULL;
    bool is_end = event.type == YAML_STREAM_END_EVENT;
    if (!is_end)
        diag_add(reader->diags, DIAG_E0104,
                 span_between(reader, event.start_mark, event.end_mark, NULL),
                 "a second document in one file");
    yaml_event_delete(&event);
    return is_end ? root : NULL;
}

const DocNode *doc_read(Arena *arena, Diags *diags, const Source *source)
{
    size_t mark = source->length >= 3 && memcmp(source->text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    size_t errors = diags_error_count(diags);
    Reader reader = {arena, diags, source, .place = {.line = 1, .offset = mark}};
    if (!yaml_parser_initialize(&reader.parser))
        return NULL;
    yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)source->text + mark,
                                 source->length - mark);
    const DocNode *root = read_document(&reader);
    yaml_parser_delete(&reader.parser);
    return diags_error_count(diags) == errors ? root : NULL;
}

const DocEntry *doc_find(const DocNode *mapping, const char *key)
{
    for (int i = 0; i < mapping->count; i++)
        if (text_equal(mapping->entries[i].key->text, key))
            return &mapping->entries[i];
    return NULL;
}

Span doc_entry_span(const DocEntry *entry)
{
    Span span = entry->key->span;
    if (entry->value->end_line == span.line)
        span.length = entry->value->end_column - span.column;
    else if (entry->value->span.line == span.line)
        span.length = entry->value->span.column + entry->value->span.length - span.column;
    return span;
}
