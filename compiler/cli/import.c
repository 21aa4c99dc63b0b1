// import: reads a model of another framework and writes model.yaml and model.safetensors. What is
// written has been through the compiler's own front end before: a model that it refuses is not
// written.
#include <string.h>

#include "cli/cli.h"
#include "cli/import.h"
#include "model/model.h"

/// A word of a list as its place in it, IMPORT_UNSAID where the option is not given.
static bool read_switch(CliCall *call, const char *option, ImportSwitch *out)
{
    const char *value = cli_value(call, option);
    *out = IMPORT_UNSAID;
    if (!value)
        return true;
    if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0) {
        cli_usage(call, "--%s is true or false, not '%s'", option, value);
        return false;
    }
    *out = strcmp(value, "true") == 0 ? IMPORT_TRUE : IMPORT_FALSE;
    return true;
}

static bool read_options(CliCall *call, ImportOptions *out)
{
    *out = (ImportOptions){.prefix = cli_value(call, "prefix"),
                           .order = cli_value(call, "order"),
                           .config = cli_value(call, "config"),
                           .nonlinearity = cli_value(call, "nonlinearity")};
    const char *word = out->nonlinearity;
    if (word && strcmp(word, "tanh") != 0 && strcmp(word, "relu") != 0) {
        cli_usage(call, "--nonlinearity is tanh or relu, not '%s'", word);
        return false;
    }
    return read_switch(call, "batch-first", &out->batch_first) &&
           read_switch(call, "return-sequences", &out->return_sequences);
}

const Imported *cli_import_model(Arena *arena, Diags *diags, const char *path,
                                 const ImportOptions *options)
{
    const Imported *read = import_read(arena, diags, path, options);
    if (!read || diags_error_count(diags))
        return NULL;
    return read;
}

const Source *cli_import_spec(Arena *arena, const Imported *model, const char *path)
{
    const char *text = imported_spec(arena, model, "model.safetensors");
    Source *source = ARENA_NEW(arena, Source);
    *source = (Source){path, text, strlen(text)};
    return source;
}

/// Whether the compiler takes what would be written.
static bool is_a_model(CliCall *call, const Imported *imported, const char *path)
{
    const Spec *read =
        spec_parse(call->arena, call->diags, cli_import_spec(call->arena, imported, path));
    if (!read)
        return false;
    Spec *spec = ARENA_NEW(call->arena, Spec);
    *spec = *read;
    spec->weights_given = imported_tensors(call->arena, imported, "model.safetensors");
    return model_build(call->arena, call->diags, spec) != NULL;
}

int cli_import(CliCall *call)
{
    const char *folder = cli_value(call, "output"), *path = call->operands[0];
    ImportOptions options;
    if (!folder)
        return cli_usage(call, "where should the model go? Give -o DIR");
    if (!read_options(call, &options))
        return EXIT_USAGE;
    const Imported *model = cli_import_model(call->arena, call->diags, path, &options);
    const char *spec = arena_format(call->arena, "%s/model.yaml", folder);
    if (!model || !is_a_model(call, model, spec) ||
        !imported_write(call->arena, call->diags, model, folder))
        return cli_result(call);
    printf("%s: %s\nwrote %s and %s/model.safetensors\n", path, imported_found(model), spec,
           folder);
    return cli_result(call);
}
