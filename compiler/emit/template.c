// Templates: lookup and inclusion.
#include "emit/template.h"

#include <string.h>

#include "base/embedded.h"

const char *template_find(const char *path)
{
    const EmbeddedFile *file = embedded_find(path);
    return file ? file->text : NULL;
}

typedef struct {
    Arena *arena;
    Text out;
    const char **included;
    int included_count;
} Resolver;

static const EmbeddedFile *look_up(Resolver *resolver, const char *includer, const char *name)
{
    const EmbeddedFile *file = embedded_find(name);
    const char *slash = includer ? strrchr(includer, '/') : NULL;
    if (!file && slash)
        file = embedded_find(
            arena_format(resolver->arena, "%.*s/%s", (int)(slash - includer), includer, name));
    return file;
}

/// The name in `#include "name"` where `line` is one, or NULL.
static const char *included_name(Arena *arena, const char *line, size_t length)
{
    static const char directive[] = "#include \"";
    if (length < sizeof directive || strncmp(line, directive, sizeof directive - 1) != 0)
        return NULL;
    const char *name = line + sizeof directive - 1;
    const char *end = memchr(name, '"', length - (sizeof directive - 1));
    return end ? arena_copy(arena, name, (size_t)(end - name)) : NULL;
}

static bool first_time(Resolver *resolver, const char *path)
{
    for (int i = 0; i < resolver->included_count; i++)
        if (strcmp(resolver->included[i], path) == 0)
            return false;
    ARENA_PUSH(resolver->arena, resolver->included, resolver->included_count, path);
    return true;
}

static void resolve(Resolver *resolver, const char *path, const char *text)
{
    int line_number = 1;
    for (const char *line = text; *line; line_number++) {
        size_t length = strcspn(line, "\n");
        const char *name = included_name(resolver->arena, line, length);
        const EmbeddedFile *file = name ? look_up(resolver, path, name) : NULL;
        if (file && first_time(resolver, file->path)) {
            text_addf(&resolver->out, "#line 1 \"%s\"\n", file->path);
            resolve(resolver, file->path, file->text);
            text_addf(&resolver->out, "#line %d \"%s\"\n", line_number + 1, path ? path : "stub");
        } else if (file) {
            text_add(&resolver->out, "\n");
        } else {
            text_add_bytes(&resolver->out, line, length);
            text_add(&resolver->out, "\n");
        }
        line += length + (line[length] == '\n');
    }
}

const char *template_resolve(Arena *arena, const char *source)
{
    Resolver resolver = {.arena = arena, .out = {.arena = arena}};
    resolve(&resolver, NULL, source);
    return text_string(&resolver.out);
}
