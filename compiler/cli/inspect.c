// inspect: prints what a module holds from the descriptor in its ELF note, without loading it. The
// descriptor is the JSON object that emit/note.c describes. What is missing is left out of the
// text; what is unknown shows with --json.
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "build/module_note.h"
#include "cli/cli.h"

/// A value in one word: text as it is, numbers, else "".
static const char *word(Arena *arena, const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (json_is_string(value))
        return json_string_value(value);
    if (json_is_integer(value))
        return arena_format(arena, "%" PRId64, (int64_t)json_integer_value(value));
    return "";
}

/// The array as "a, b", of words and numbers.
static const char *list_text(Arena *arena, const json_t *array)
{
    Text text = {.arena = arena};
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *item = json_array_get(array, i);
        const char *string = json_string_value(item);
        text_add(&text, i ? ", " : "");
        if (string)
            text_add(&text, string);
        else
            text_addf(&text, "%" PRId64, (int64_t)json_integer_value(item));
    }
    return text_string(&text);
}

/// [1, 0] as "1.0".
static const char *abi_text(Arena *arena, const json_t *abi)
{
    if (json_array_size(abi) != 2)
        return "";
    return arena_format(arena, "%" PRId64 ".%" PRId64,
                        (int64_t)json_integer_value(json_array_get(abi, 0)),
                        (int64_t)json_integer_value(json_array_get(abi, 1)));
}

static void print_fact(const char *name, const char *value)
{
    if (value[0])
        printf("%-10s %s\n", name, value);
}

static void print_tensors(Arena *arena, const json_t *tensors)
{
    if (json_array_size(tensors))
        printf("\ntensors\n");
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        const json_t *tensor = json_array_get(tensors, i);
        const char *role = word(arena, tensor, "role");
        printf("  %-20s %-7s %-8s [%s]%s\n", word(arena, tensor, "name"), role,
               word(arena, tensor, "dtype"), list_text(arena, json_object_get(tensor, "shape")),
               strcmp(role, "mask") == 0 ? "  (optional)" : "");
    }
}

static void print_layers(Arena *arena, const json_t *layers)
{
    if (json_array_size(layers))
        printf("\nlayers\n");
    for (size_t i = 0; i < json_array_size(layers); i++) {
        const json_t *layer = json_array_get(layers, i);
        const char *cell = word(arena, layer, "cell");
        printf("  %-20s %-14s %s -> %s  %s\n", word(arena, layer, "name"),
               cell[0] ? cell : word(arena, layer, "kind"), word(arena, layer, "inputs"),
               word(arena, layer, "outputs"), list_text(arena, json_object_get(layer, "variants")));
    }
}

static void print_kernels(Arena *arena, const json_t *kernels)
{
    if (json_array_size(kernels))
        printf("\nkernels\n");
    for (size_t i = 0; i < json_array_size(kernels); i++) {
        const json_t *kernel = json_array_get(kernels, i);
        printf("  %-20s %-14s %-12s", word(arena, kernel, "layer"), word(arena, kernel, "variant"),
               word(arena, kernel, "arch"));
        if (word(arena, kernel, "registers")[0])
            printf(" %s registers, %s shared bytes;", word(arena, kernel, "registers"),
                   word(arena, kernel, "shared_bytes"));
        printf(" line %s\n", word(arena, kernel, "line"));
    }
}

static void print_provenance(json_t *provenance)
{
    const char *key;
    json_t *value;
    if (json_object_size(provenance))
        printf("\nprovenance\n");
    json_object_foreach(provenance, key, value)
    {
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        if (json_is_string(value))
            printf("  %-20s %s\n", key, json_string_value(value));
        else
            printf("  %-20s %s\n", key, text ? text : "");
        free(text);
    }
}

static void print_text(Arena *arena, const json_t *root)
{
    const char *plan = json_string_value(json_object_get(root, "plan"));
    print_fact("name", word(arena, root, "name"));
    print_fact("abi", abi_text(arena, json_object_get(root, "abi")));
    print_fact("precision", word(arena, root, "precision"));
    print_fact("targets", list_text(arena, json_object_get(root, "targets")));
    print_tensors(arena, json_object_get(root, "tensors"));
    print_layers(arena, json_object_get(root, "layers"));
    print_kernels(arena, json_object_get(root, "kernels"));
    if (plan)
        printf("\nplan\n%s%s", plan, plan[0] && plan[strlen(plan) - 1] == '\n' ? "" : "\n");
    print_provenance(json_object_get(root, "provenance"));
}

int cli_inspect(CliCall *call)
{
    const char *path = call->operands[0], *text = NULL;
    const unsigned char *bytes = NULL;
    size_t size_bytes = 0, length = 0;
    if (!file_map(call->diags, path, (Span){0}, &bytes, &size_bytes) ||
        !module_note_find(call->diags, path, bytes, size_bytes, &text, &length))
        return cli_result(call);
    json_error_t error;
    json_t *root = json_loadb(text, length, 0, &error);
    if (!json_is_object(root)) {
        diag_add(call->diags, DIAG_E0802, (Span){0}, "'%s': its descriptor is damaged: %s", path,
                 root ? "no object" : error.text);
    } else if (cli_flag(call, "json")) {
        json_dumpf(root, stdout, JSON_INDENT(2));
        putchar('\n');
    } else {
        print_text(call->arena, root);
    }
    json_decref(root);
    return cli_result(call);
}
