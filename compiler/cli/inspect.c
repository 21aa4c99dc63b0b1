// inspect: prints what a module holds from the descriptor in its ELF note, without loading it. The
// descriptor is a JSON object:
//
//     {"name", "rnnc" (version), "abi": [major, minor], "batch", "timesteps" (0: any), "precision",
//      "tensors": [{"name", "role", "dtype", "dims": [-1: B, -2: T]}],
//      "layers": [{"name", "kind", "inputs", "outputs", "variants": [{"name", "reason"}]}],
//      "kernels": [{"name", "arch", "registers", "spill_bytes", "shared_bytes"}],
//      "provenance": {...}, "plan": text}
//
// What is missing is left out of the text; what is unknown shows with --json.
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"
#include "cli/module_note.h"

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

static const char *dims_text(Arena *arena, const json_t *dims)
{
    Text text = {.arena = arena};
    text_add(&text, "[");
    for (size_t i = 0; i < json_array_size(dims); i++) {
        const json_t *dim = json_array_get(dims, i);
        text_add(&text, i ? ", " : "");
        if (json_is_string(dim))
            text_add(&text, json_string_value(dim));
        else if (json_integer_value(dim) < 0)
            text_add(&text, json_integer_value(dim) == -1 ? "B" : "T");
        else
            text_addf(&text, "%" PRId64, (int64_t)json_integer_value(dim));
    }
    text_add(&text, "]");
    return text_string(&text);
}

static void print_size(Arena *arena, const json_t *root, const char *key)
{
    const json_t *value = json_object_get(root, key);
    if (!json_is_integer(value))
        return;
    const char *text = json_integer_value(value) ? word(arena, root, key) : "any";
    printf("%-10s %s\n", key, text);
}

static void print_tensors(Arena *arena, const json_t *tensors)
{
    if (json_array_size(tensors))
        printf("\ntensors\n");
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        const json_t *tensor = json_array_get(tensors, i);
        printf("  %-20s %-7s %-8s %s\n", word(arena, tensor, "name"), word(arena, tensor, "role"),
               word(arena, tensor, "dtype"), dims_text(arena, json_object_get(tensor, "dims")));
    }
}

static void print_layers(Arena *arena, const json_t *layers)
{
    if (json_array_size(layers))
        printf("\nlayers\n");
    for (size_t i = 0; i < json_array_size(layers); i++) {
        const json_t *layer = json_array_get(layers, i);
        const json_t *variants = json_object_get(layer, "variants");
        printf("  %-20s %-10s %s -> %s\n", word(arena, layer, "name"), word(arena, layer, "kind"),
               word(arena, layer, "inputs"), word(arena, layer, "outputs"));
        for (size_t j = 0; j < json_array_size(variants); j++) {
            const json_t *variant = json_array_get(variants, j);
            const char *name = json_string_value(variant);
            printf("    %-18s %s\n", name ? name : word(arena, variant, "name"),
                   word(arena, variant, "reason"));
        }
    }
}

static void print_kernels(Arena *arena, const json_t *kernels)
{
    if (json_array_size(kernels))
        printf("\nkernels\n");
    for (size_t i = 0; i < json_array_size(kernels); i++) {
        const json_t *kernel = json_array_get(kernels, i);
        printf("  %-28s sm_%-4s %s registers, %s spill bytes, %s shared bytes\n",
               word(arena, kernel, "name"), word(arena, kernel, "arch"),
               word(arena, kernel, "registers"), word(arena, kernel, "spill_bytes"),
               word(arena, kernel, "shared_bytes"));
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
    const json_t *abi = json_object_get(root, "abi");
    printf("%-10s %s\n", "name", word(arena, root, "name"));
    if (json_array_size(abi) == 2)
        printf("%-10s %" PRId64 ".%" PRId64 "\n", "abi",
               (int64_t)json_integer_value(json_array_get(abi, 0)),
               (int64_t)json_integer_value(json_array_get(abi, 1)));
    if (word(arena, root, "rnnc")[0])
        printf("%-10s %s\n", "rnnc", word(arena, root, "rnnc"));
    if (word(arena, root, "precision")[0])
        printf("%-10s %s\n", "precision", word(arena, root, "precision"));
    print_size(arena, root, "batch");
    print_size(arena, root, "timesteps");
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
