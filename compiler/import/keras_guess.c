// Guessing a model from its weights: see keras_guess.h.
//
//     layers/lstm/cell/vars/0 [3, 16]   inputs 3, units 4
//     layers/dense/vars/0 [4, 2]        4 inputs: behind the lstm
#include "import/keras_guess.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "import/keras_cell.h"

enum { GUESSES_MAX = 64, STEPS_MAX = 100000 };

/// A layer by its shapes.
typedef struct {
    KerasLayer layer;
    const char *inner; ///< class of the layer in a Bidirectional; NULL otherwise
    int64_t inputs, units, outputs;
    bool use_bias, reset_after;
} Guess;

typedef struct {
    KerasFile *file;
    Guess guesses[GUESSES_MAX];
    int count;
    int order[GUESSES_MAX], best[GUESSES_MAX]; ///< places in `guesses`
    bool used[GUESSES_MAX];
    int solutions, steps;
} Guesser;

/// Groups of Keras 3's store by their class.
static const struct {
    const char *group, *class_name;
} classes[] = {
    {"lstm", "LSTM"},
    {"gru", "GRU"},
    {"simple_rnn", "SimpleRNN"},
    {"dense", "Dense"},
    {"embedding", "Embedding"},
    {"bidirectional", "Bidirectional"},
    {"time_distributed", "TimeDistributed"},
};

/// What layers without weights are called that do nothing at inference.
static const char *const idle[] = {
    "dropout",       "spatial_dropout1d",       "gaussian_noise", "gaussian_dropout",
    "alpha_dropout", "activity_regularization", "input",          "input_layer"};

static bool refuse(const Guesser *guesser, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool refuse(const Guesser *guesser, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    Diag *diag = keras_report(guesser->file, DIAG_E0463, "it holds weights alone, and %s",
                              arena_vformat(guesser->file->arena, format, arguments));
    va_end(arguments);
    diag_help(diag, "give the file of the whole model, as model.save(\"model.keras\") writes it");
    return false;
}

/// "lstm_2" without its number, which goes to `*out_number`.
static const char *stem_of(Arena *arena, const char *name, int *out_number)
{
    size_t length = strlen(name), digits = 0;
    while (digits < length && isdigit((unsigned char)name[length - 1 - digits]))
        digits++;
    *out_number = 0;
    if (digits == 0 || digits > 6 || digits + 1 >= length || name[length - 1 - digits] != '_')
        return name;
    *out_number = atoi(name + length - digits);
    return arena_copy(arena, name, length - digits - 1);
}

static bool is_idle(const char *stem)
{
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++)
        if (text_equal(idle[i], stem))
            return true;
    return false;
}

/// The class of a recurrent layer by its kernels [I, G*H] and [H, G*H]; NULL where they are none.
static const char *class_by_gates(const KerasShape *shapes, int count)
{
    static const char *const by_gates[] = {NULL, "SimpleRNN", NULL, "GRU", "LSTM"};
    if (count < 2 || shapes[0].dim_count != 2 || shapes[1].dim_count != 2)
        return NULL;
    const int64_t units = shapes[1].dims[0], columns = shapes[1].dims[1];
    if (units < 1 || columns % units != 0 || columns / units > 4 || shapes[0].dims[1] != columns)
        return NULL;
    return by_gates[columns / units];
}

static bool guess_cell(const Guesser *guesser, Guess *guess, const char *class_name,
                       const KerasShape *shapes, int count)
{
    const char *found = class_by_gates(shapes, count);
    if (!found || (class_name && !text_equal(found, class_name)))
        return refuse(guesser, "the weights of '%s' are those of no LSTM, GRU or SimpleRNN",
                      guess->layer.name);
    guess->inputs = shapes[0].dims[0];
    guess->units = guess->outputs = shapes[1].dims[0];
    guess->use_bias = count > 2;
    guess->reset_after =
        !guess->use_bias || shapes[2].dim_count == 2 || shapes[2].dims[0] == 6 * guess->units;
    if (text_equal(guess->layer.class_name, "Bidirectional")) {
        guess->inner = found;
        guess->outputs = 2 * guess->units;
    } else {
        guess->layer.class_name = found;
    }
    return true;
}

static bool guess_dense(const Guesser *guesser, Guess *guess, const KerasShape *shapes, int count)
{
    if (count < 1 || shapes[0].dim_count != 2)
        return refuse(guesser, "'%s' has no kernel of two dimensions", guess->layer.name);
    const bool is_embedding = text_equal(guess->layer.class_name, "Embedding");
    guess->inputs = shapes[0].dims[0];
    guess->units = guess->outputs = shapes[0].dims[1];
    guess->use_bias = count > 1 && !is_embedding;
    return true;
}

/// Reads the shapes of a layer whose class is known; in a legacy file a Bidirectional has those of
/// both directions, of which the first half is read.
static bool guess_layer(Guesser *guesser, Guess *guess)
{
    KerasShape shapes[KERAS_SHAPES_MAX];
    const char *class_name = guess->layer.class_name;
    const bool is_wrapped = text_equal(class_name, "Bidirectional");
    const KerasPart part = is_wrapped                                  ? KERAS_FORWARD
                           : keras_is_cell(class_name)                 ? KERAS_CELL
                           : text_equal(class_name, "TimeDistributed") ? KERAS_INNER
                                                                       : KERAS_OWN;
    int count = keras_shapes(guesser->file, &guess->layer, part, shapes);
    if (count < 0)
        return false;
    if (is_wrapped && guesser->file->is_legacy)
        count /= 2;
    if (count > 3)
        count = 3; // states follow
    return is_wrapped || part == KERAS_CELL
               ? guess_cell(guesser, guess, is_wrapped ? NULL : class_name, shapes, count)
               : guess_dense(guesser, guess, shapes, count);
}

static Guess *add(Guesser *guesser, const char *class_name, const char *name, int number)
{
    json_t *text = json_string(name);
    if (!text || guesser->count == GUESSES_MAX) {
        refuse(guesser, "it has over %d layers, or one whose name is no UTF-8", GUESSES_MAX);
        json_decref(text);
        return NULL;
    }
    json_decref(text);
    Guess *guess = &guesser->guesses[guesser->count++];
    *guess = (Guess){.layer = {.class_name = class_name, .name = name, .same_before = number}};
    return guess;
}

/// A layer of a file that has no weights of its own.
static bool take_idle(const Guesser *guesser, const char *name)
{
    int number = 0;
    if (!is_idle(stem_of(guesser->file->arena, name, &number)))
        return refuse(guesser, "what its layer '%s' does, which has no weights, it does not say",
                      name);
    keras_note(guesser->file, "'%s' does nothing at inference and is left out", name);
    return true;
}

static bool add_group(Guesser *guesser, const char *name)
{
    int number = 0;
    const char *stem = stem_of(guesser->file->arena, name, &number);
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (text_equal(classes[i].group, stem)) {
            Guess *guess = add(guesser, classes[i].class_name, name, number);
            return guess && guess_layer(guesser, guess);
        }
    return take_idle(guesser, name);
}

/// The groups right below layers/.
static bool add_groups(Guesser *guesser)
{
    int count = 0;
    const Hdf5Object *objects = hdf5_objects(guesser->file->weights, &count);
    const size_t length = strlen(guesser->file->store);
    for (int i = 0; i < count; i++) {
        const char *path = objects[i].path;
        if (strncmp(path, guesser->file->store, length) == 0 && path[length] &&
            !strchr(path + length, '/') && !add_group(guesser, path + length))
            return false;
    }
    return true;
}

/// What the names of a legacy layer's weights say: "lstm/lstm_cell/recurrent_kernel:0".
static const char *class_by_names(const char *const *names, int count)
{
    int recurrent = 0;
    bool embeds = false;
    for (int i = 0; i < count; i++) {
        recurrent += strstr(names[i], "recurrent_kernel") != NULL;
        embeds |= strstr(names[i], "embeddings") != NULL;
    }
    if (recurrent > 1)
        return "Bidirectional";
    return recurrent == 1 ? "LSTM" : embeds ? "Embedding" : "Dense";
}

static bool add_legacy_layer(Guesser *guesser, const char *name)
{
    int count = 0;
    Hdf5 *weights = guesser->file->weights;
    const Hdf5Object *group =
        hdf5_find(weights, arena_format(guesser->file->arena, "%s%s", guesser->file->store, name));
    const char *const *names = group ? hdf5_texts(weights, group, "weight_names", &count) : NULL;
    if (!names || count == 0)
        return take_idle(guesser, name);
    Guess *guess = add(guesser, class_by_names(names, count), name, 0);
    if (!guess)
        return false;
    KerasShape shapes[KERAS_SHAPES_MAX];
    if (text_equal(guess->layer.class_name, "LSTM")) { // or another: the shapes say which
        const int found = keras_shapes(guesser->file, &guess->layer, KERAS_CELL, shapes);
        const char *class_name = found < 0 ? NULL : class_by_gates(shapes, found);
        if (class_name)
            guess->layer.class_name = class_name;
    }
    return guess_layer(guesser, guess);
}

static bool add_legacy(Guesser *guesser)
{
    int count = 0;
    const Hdf5Object *root = hdf5_find(guesser->file->weights, "");
    const char *const *names = hdf5_texts(guesser->file->weights, root, "layer_names", &count);
    for (int i = 0; i < count; i++)
        if (!add_legacy_layer(guesser, names[i]))
            return false;
    for (int i = 0; i < guesser->count; i++)
        guesser->best[i] = i;
    return names != NULL || refuse(guesser, "it does not list its layers");
}

/// Whether a layer may stand at `place`: its inputs fit, and those of its class before it are used.
static bool fits(const Guesser *guesser, int place, int candidate)
{
    const Guess *guess = &guesser->guesses[candidate];
    const bool is_embedding = text_equal(guess->layer.class_name, "Embedding");
    if (guesser->used[candidate] || (is_embedding && place > 0))
        return false;
    for (int i = 0; i < guesser->count; i++) {
        const Guess *other = &guesser->guesses[i];
        if (!guesser->used[i] && other->layer.same_before < guess->layer.same_before &&
            text_equal(other->layer.class_name, guess->layer.class_name))
            return false;
        if (place == 0 && !is_embedding && text_equal(other->layer.class_name, "Embedding"))
            return false;
    }
    return place == 0 || guesser->guesses[guesser->order[place - 1]].outputs == guess->inputs;
}

/// Counts the orders in which every layer fits, up to two; keeps the first.
static void search(Guesser *guesser, int place)
{
    if (guesser->solutions > 1 || guesser->steps++ > STEPS_MAX)
        return;
    if (place == guesser->count) {
        if (guesser->solutions++ == 0)
            memcpy(guesser->best, guesser->order, sizeof guesser->best);
        return;
    }
    for (int i = 0; i < guesser->count; i++) {
        if (!fits(guesser, place, i))
            continue;
        guesser->used[i] = true;
        guesser->order[place] = i;
        search(guesser, place + 1);
        guesser->used[i] = false;
    }
}

static bool find_order(Guesser *guesser)
{
    search(guesser, 0);
    if (guesser->steps > STEPS_MAX || guesser->solutions > 1)
        return refuse(guesser, "their shapes fit in more than one order");
    if (guesser->solutions == 0)
        return refuse(guesser, "there is no order in which the inputs of each layer fit the "
                               "outputs before it (a Bidirectional is taken to concatenate)");
    return true;
}

static bool is_recurrent(const Guess *guess)
{
    return guess->inner || keras_is_cell(guess->layer.class_name);
}

/// The configuration of one layer, by Keras' names.
static json_t *describe(const Guess *guess, const char *class_name, bool is_sequence)
{
    if (text_equal(class_name, "Embedding"))
        return json_pack("{s:s, s:{s:s, s:I, s:I}}", "class_name", class_name, "config", "name",
                         guess->layer.name, "input_dim", (json_int_t)guess->inputs, "output_dim",
                         (json_int_t)guess->units);
    if (text_equal(class_name, "Bidirectional"))
        return json_pack("{s:s, s:{s:s, s:s, s:o}}", "class_name", class_name, "config", "name",
                         guess->layer.name, "merge_mode", "concat", "layer",
                         describe(guess, guess->inner, is_sequence));
    if (text_equal(class_name, "TimeDistributed"))
        return json_pack("{s:s, s:{s:s, s:o}}", "class_name", class_name, "config", "name",
                         guess->layer.name, "layer", describe(guess, "Dense", is_sequence));
    json_t *config = json_pack("{s:s, s:I, s:b}", "name", guess->layer.name, "units",
                               (json_int_t)guess->units, "use_bias", guess->use_bias);
    if (!text_equal(class_name, "Dense"))
        json_object_set_new(config, "return_sequences", json_boolean(is_sequence));
    if (text_equal(class_name, "GRU"))
        json_object_set_new(config, "reset_after", json_boolean(guess->reset_after));
    return json_pack("{s:s, s:o}", "class_name", class_name, "config", config);
}

/// All layers in their order. The last recurrent layer gives a sequence where one over time
/// follows.
static json_t *describe_all(const Guesser *guesser)
{
    json_t *list = json_array();
    int last = -1;
    for (int i = 0; i < guesser->count; i++) {
        const Guess *guess = &guesser->guesses[guesser->best[i]];
        if (is_recurrent(guess))
            last = i;
        else if (text_equal(guess->layer.class_name, "TimeDistributed"))
            last = guesser->count;
    }
    for (int i = 0; i < guesser->count; i++) {
        const Guess *guess = &guesser->guesses[guesser->best[i]];
        json_array_append_new(list, describe(guess, guess->layer.class_name, i < last));
    }
    return json_pack("{s:s, s:{s:s, s:o}}", "class_name", "Sequential", "config", "name", "model",
                     "layers", list);
}

json_t *keras_guess(KerasFile *file)
{
    Guesser *guesser = ARENA_NEW(file->arena, Guesser);
    guesser->file = file;
    if (!(file->is_legacy ? add_legacy(guesser) : add_groups(guesser)))
        return NULL;
    if (guesser->count == 0) {
        refuse(guesser, "none of them is of a layer");
        return NULL;
    }
    if (!file->is_legacy && !find_order(guesser))
        return NULL;
    keras_note(file, "A file of weights alone: activations, masks, return_sequences and directions "
                     "are taken\nas Keras has them by default; the last recurrent layer gives its "
                     "last step");
    Diag *diag = diag_add(file->diags, DIAG_N0401, (Span){0},
                          "'%s' holds weights alone: activations, masks, return_sequences and the "
                          "like are taken as Keras has them by default",
                          file->path);
    diag_help(diag, "give the file of the whole model, as model.save(\"model.keras\") writes it");
    return describe_all(guesser);
}
