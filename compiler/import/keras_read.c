// Keras files: see keras_read.h. Which of its forms a file has, its content says: a zip archive is
// a .keras file; of HDF5 files one with the attribute model_config is a legacy model.
#define _GNU_SOURCE // memmem
#include "import/keras_read.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "import/keras_graph.h"
#include "import/keras_guess.h"
#include "import/keras_layers.h"
#include "import/zip.h"

Diag *keras_report(const KerasFile *file, DiagCode code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *text = arena_vformat(file->arena, format, arguments);
    va_end(arguments);
    return diag_add(file->diags, code, (Span){0}, "'%s': %s", file->path, text);
}

bool keras_refuse(const KerasFile *file, const KerasLayer *layer, const char *help,
                  const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *text = arena_vformat(file->arena, format, arguments);
    va_end(arguments);
    Diag *diag = diag_add(file->diags, DIAG_E0461, (Span){0}, "'%s': layer '%s' (%s): %s",
                          file->path, layer->name, layer->class_name, text);
    if (help)
        diag_help(diag, "%s", help);
    return false;
}

void keras_note(KerasFile *file, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *text = arena_vformat(file->arena, format, arguments);
    va_end(arguments);
    file->note.arena = file->arena;
    text_addf(&file->note, "%s%s", file->note.length ? "\n" : "", text);
}

const char *keras_string(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/// " 3.15.1": a version as far as it is the text of one; "" where there is none.
static const char *version_text(Arena *arena, const char *version)
{
    size_t length = 0;
    while (version && length < 20 &&
           (isalnum((unsigned char)version[length]) ||
            (version[length] && strchr(".+-", version[length]))))
        length++;
    return length ? arena_format(arena, " %.*s", (int)length, version) : "";
}

/// Takes the version of Keras that wrote the file; `otherwise` where the file does not say.
static bool set_version(KerasFile *file, const char *version, int otherwise)
{
    file->version = version ? (int)strtol(version, NULL, 10) : otherwise;
    if (file->version == 2 || file->version == 3)
        return true;
    keras_report(file, DIAG_E0460, "it is written by Keras%s; those of Keras 2 and 3 are read",
                 version_text(file->arena, version));
    return false;
}

/// Parses a JSON text; NULL, with E0460, where it is none. The caller owns the result.
static json_t *parse_json(const KerasFile *file, const char *what, const char *text,
                          size_t size_bytes)
{
    json_error_t error;
    json_t *json = json_loadb(text, size_bytes, JSON_REJECT_DUPLICATES, &error);
    if (!json)
        keras_report(file, DIAG_E0460, "its %s is no JSON: line %d: %s", what, error.line,
                     error.text);
    return json;
}

static bool set_weights(KerasFile *file, Hdf5 *weights, const char *store, bool is_legacy)
{
    int count = 0;
    if (!weights)
        return false;
    hdf5_objects(weights, &count);
    file->weights = weights;
    file->store = store;
    file->is_legacy = is_legacy;
    file->is_taken = ARENA_ARRAY(file->arena, bool, count + 1);
    return true;
}

/// Builds the model from its configuration and the weights that were set. `what` and `form` are for
/// the spec's head comment: "a model", " (.keras)".
static const Imported *build(KerasFile *file, const json_t *config, const char *what,
                             const char *version, const char *form)
{
    KerasModel model;
    const char *found = arena_format(file->arena, "%s of Keras%s%s", what,
                                     version_text(file->arena, version), form);
    file->model = imported_create(file->arena, file->path, found);
    if (!keras_read_graph(file, config, &model) || !keras_take_layers(file, &model))
        return NULL;
    return file->model;
}

static const Imported *read_archive(KerasFile *file, const unsigned char *bytes, size_t size_bytes)
{
    const Zip *zip = zip_parse(file->arena, file->diags, file->path, (Span){0}, bytes, size_bytes);
    size_t config_bytes = 0, facts_bytes = 0, weights_bytes = 0;
    const unsigned char *text = zip ? zip_find(zip, "config.json", &config_bytes) : NULL;
    const unsigned char *facts = text ? zip_find(zip, "metadata.json", &facts_bytes) : NULL;
    const unsigned char *weights = facts ? zip_find(zip, "model.weights.h5", &weights_bytes) : NULL;
    if (!weights)
        return NULL;
    const char *path = arena_format(file->arena, "%s:model.weights.h5", file->path);
    Hdf5 *h5 = hdf5_parse(file->arena, file->diags, path, (Span){0}, weights, weights_bytes);
    // Keras 2.12 named the group of layers otherwise.
    static const char old_store[] = "_layer_checkpoint_dependencies";
    const bool is_old = h5 && hdf5_find(h5, old_store);
    if (!set_weights(file, h5, is_old ? "_layer_checkpoint_dependencies/" : "layers/", false))
        return NULL;
    json_t *metadata = parse_json(file, "metadata.json", (const char *)facts, facts_bytes);
    json_t *config =
        metadata ? parse_json(file, "config.json", (const char *)text, config_bytes) : NULL;
    const char *version = keras_string(metadata, "keras_version");
    const Imported *model = NULL;
    if (config && set_version(file, version, 3))
        model = build(file, config, "a model", version, " (.keras)");
    json_decref(config);
    json_decref(metadata);
    return model;
}

/// A file of weights alone, legacy where its root lists the layers.
static const Imported *read_weights(KerasFile *file, Hdf5 *h5)
{
    int count = 0;
    const Hdf5Object *root = hdf5_find(h5, "");
    const bool is_legacy = hdf5_texts(h5, root, "layer_names", &count) != NULL;
    if (!is_legacy && !hdf5_find(h5, "layers")) {
        keras_report(file, DIAG_E0460, "it is an HDF5 file, but of no Keras model");
        return NULL;
    }
    const char *version = is_legacy ? hdf5_text(h5, root, "keras_version") : NULL;
    if (!set_weights(file, h5, is_legacy ? "" : "layers/", is_legacy) ||
        !set_version(file, version, is_legacy ? 2 : 3))
        return NULL;
    json_t *config = keras_guess(file);
    const Imported *model = config ? build(file, config, "weights", version, "") : NULL;
    json_decref(config);
    return model;
}

static const Imported *read_h5(KerasFile *file, const unsigned char *bytes, size_t size_bytes)
{
    Hdf5 *h5 = hdf5_parse(file->arena, file->diags, file->path, (Span){0}, bytes, size_bytes);
    if (!h5)
        return NULL;
    const Hdf5Object *root = hdf5_find(h5, "");
    const size_t errors = diags_error_count(file->diags);
    const char *text = hdf5_text(h5, root, "model_config");
    const char *version = text ? hdf5_text(h5, root, "keras_version") : NULL;
    if (diags_error_count(file->diags) > errors)
        return NULL;
    if (!text)
        return read_weights(file, h5);
    if (!set_weights(file, h5, "model_weights/", true) || !set_version(file, version, 2))
        return NULL;
    json_t *config = parse_json(file, "model_config", text, strlen(text));
    const Imported *model =
        config ? build(file, config, "a model", version, " (legacy .h5)") : NULL;
    json_decref(config);
    return model;
}

bool keras_recognises(const unsigned char *bytes, size_t size_bytes)
{
    enum { DIRECTORY_BYTES_MAX = 65536 };
    static const char member[] = "config.json";
    if (hdf5_is(bytes, size_bytes))
        return true;
    if (size_bytes < 4 || memcmp(bytes, "PK\3\4", 4) != 0)
        return false;
    const size_t tail = size_bytes < DIRECTORY_BYTES_MAX ? size_bytes : DIRECTORY_BYTES_MAX;
    return memmem(bytes + size_bytes - tail, tail, member, sizeof member - 1) != NULL;
}

const Imported *keras_parse(Arena *arena, Diags *diags, const char *path,
                            const unsigned char *bytes, size_t size_bytes)
{
    KerasFile file = {.arena = arena,
                      .diags = diags,
                      .path = arena_copy(arena, path, strlen(path)),
                      .note = {.arena = arena},
                      .last_note = {.arena = arena}};
    return hdf5_is(bytes, size_bytes) ? read_h5(&file, bytes, size_bytes)
                                      : read_archive(&file, bytes, size_bytes);
}

const Imported *keras_read(Arena *arena, Diags *diags, const char *path)
{
    const unsigned char *bytes = NULL;
    size_t size_bytes = 0;
    if (!file_map(diags, path, (Span){0}, &bytes, &size_bytes))
        return NULL;
    return keras_parse(arena, diags, path, bytes, size_bytes);
}
