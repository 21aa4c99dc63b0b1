// Keras' variables: see keras_weights.h. Kernels are [inputs, gates * units] and become [gates *
// units, inputs]; gates are i f c o of lstm, which is the canonical i f g o, and z r h of gru,
// which becomes r z n. The layers CuDNNLSTM and CuDNNGRU keep in each gate's block of [inputs,
// units] the elements of its transpose, and two biases behind each other; their biases' length
// tells them.
#include "import/keras_weights.h"

#include <ctype.h>
#include <string.h>

enum { VARIABLES_MAX = KERAS_SHAPES_MAX };

typedef struct {
    const Hdf5Object *items[VARIABLES_MAX];
    int count;
} Variables;

/// A kernel, recurrent kernel or bias of a recurrent layer, read.
typedef struct {
    const float *kernel, *recurrent, *bias;
    int64_t inputs;
    bool is_cudnn;
} CellValues;

/// The name of a class in Keras 3's store: SimpleRNN is simple_rnn (keras.src.utils.naming).
static const char *snake_case(Arena *arena, const char *name)
{
    Text text = {.arena = arena};
    for (const char *at = name; *at; at++) {
        const bool starts = isupper((unsigned char)*at) && at > name &&
                            (islower((unsigned char)at[1]) || islower((unsigned char)at[-1]));
        text_addf(&text, "%s%c", starts ? "_" : "", tolower((unsigned char)*at));
    }
    return text_string(&text);
}

static const char *group_of(const KerasFile *file, const KerasLayer *layer)
{
    if (file->is_legacy)
        return arena_format(file->arena, "%s%s", file->store, layer->name);
    const char *name = snake_case(file->arena, layer->class_name);
    return layer->same_before == 0
               ? arena_format(file->arena, "%s%s", file->store, name)
               : arena_format(file->arena, "%s%s_%d", file->store, name, layer->same_before);
}

static bool add(Variables *to, const Hdf5Object *variable)
{
    if (!variable || !variable->is_dataset || to->count == VARIABLES_MAX)
        return false;
    to->items[to->count++] = variable;
    return true;
}

/// Every weight that the attribute weight_names, or its parts weight_names0, ..., lists.
static bool collect_legacy(KerasFile *file, const KerasLayer *layer, Variables *out)
{
    const char *path = group_of(file, layer);
    const Hdf5Object *group = hdf5_find(file->weights, path);
    if (!group)
        return true;
    for (int part = -1; part < VARIABLES_MAX; part++) {
        int count = 0;
        const char *attribute =
            part < 0 ? "weight_names" : arena_format(file->arena, "weight_names%d", part);
        const char *const *names = hdf5_texts(file->weights, group, attribute, &count);
        if (!names && part >= 0)
            return true;
        for (int i = 0; i < count; i++) {
            const char *at = arena_format(file->arena, "%s/%s", path, names[i]);
            if (!add(out, hdf5_find(file->weights, at))) {
                keras_report(file, DIAG_E0462,
                             "layer '%s': its weight '%s' is not in the file, or one too many",
                             layer->name, names[i]);
                return false;
            }
        }
    }
    return true;
}

/// The variables <group>/<inner>vars/0, 1, ...
static void collect_new(KerasFile *file, const KerasLayer *layer, const char *inner, Variables *out)
{
    const char *path = group_of(file, layer);
    for (int i = 0; i < VARIABLES_MAX; i++) {
        const char *at = arena_format(file->arena, "%s/%svars/%d", path, inner, i);
        if (!add(out, hdf5_find(file->weights, at)))
            return;
    }
}

static bool collect(KerasFile *file, const KerasLayer *layer, KerasPart part, Variables *out)
{
    static const char *const inner[] = {
        [KERAS_OWN] = "",
        [KERAS_CELL] = "cell/",
        [KERAS_FORWARD] = "forward_layer/cell/",
        [KERAS_BACKWARD] = "backward_layer/cell/",
        [KERAS_INNER] = "layer/",
    };
    *out = (Variables){0};
    if (file->is_legacy)
        return collect_legacy(file, layer, out);
    collect_new(file, layer, inner[part], out);
    return true;
}

static const char *shape_text(const KerasFile *file, const Hdf5Object *variable)
{
    Text text = {.arena = file->arena};
    for (int i = 0; i < variable->dim_count; i++)
        text_addf(&text, "%s%lld", i ? ", " : "", (long long)variable->dims[i]);
    return arena_format(file->arena, "[%s]", text_string(&text));
}

static bool has_shape(const Hdf5Object *variable, int64_t rows, int64_t columns)
{
    if (columns == 0)
        return variable->dim_count == 1 && variable->dims[0] == rows;
    return variable->dim_count == 2 && variable->dims[0] == rows && variable->dims[1] == columns;
}

static bool misfit(const KerasFile *file, const KerasLayer *layer, const char *what,
                   const Hdf5Object *variable, int64_t rows, int64_t columns)
{
    const char *wanted =
        columns ? arena_format(file->arena, "[%lld, %lld]", (long long)rows, (long long)columns)
                : arena_format(file->arena, "[%lld]", (long long)rows);
    keras_report(file, DIAG_E0462, "layer '%s' (%s): its %s '/%s' is %s, not %s", layer->name,
                 layer->class_name, what, variable->path, shape_text(file, variable), wanted);
    return false;
}

static const float *read_values(KerasFile *file, const Hdf5Object *variable)
{
    const char *dtype = hdf5_text(file->weights, variable, "dtype");
    file->is_taken[variable - hdf5_objects(file->weights, &(int){0})] = true;
    return dtype && text_equal(dtype, "bfloat16") ? hdf5_bfloats(file->weights, variable)
                                                  : hdf5_floats(file->weights, variable);
}

/// `variable` as read where it has the shape; NULL with a diagnostic otherwise.
static const float *take(KerasFile *file, const KerasLayer *layer, const char *what,
                         const Hdf5Object *variable, int64_t rows, int64_t columns)
{
    if (!has_shape(variable, rows, columns)) {
        misfit(file, layer, what, variable, rows, columns);
        return NULL;
    }
    return read_values(file, variable);
}

static bool check_count(const KerasFile *file, const KerasLayer *layer, int found, int wanted)
{
    if (found >= wanted)
        return true;
    Diag *diag =
        keras_report(file, DIAG_E0462, "layer '%s' (%s) has %d weights in the file, not %d",
                     layer->name, layer->class_name, found, wanted);
    diag_help(diag, "give the file of the whole model, as model.save(\"model.keras\") writes it");
    return false;
}

int keras_shapes(KerasFile *file, const KerasLayer *layer, KerasPart part,
                 KerasShape shapes[KERAS_SHAPES_MAX])
{
    Variables variables;
    if (!collect(file, layer, part, &variables))
        return -1;
    for (int i = 0; i < variables.count; i++) {
        const Hdf5Object *from = variables.items[i];
        shapes[i] = (KerasShape){
            from->dim_count,
            {from->dim_count > 0 ? from->dims[0] : 0, from->dim_count > 1 ? from->dims[1] : 0}};
    }
    return variables.count;
}

int keras_cell_variables(const KerasCell *cell)
{
    return cell->use_bias ? 3 : 2;
}

/// The width that a first variable's rows say.
static int64_t rows_of(const Variables *variables, int at)
{
    const Hdf5Object *first = at < variables->count ? variables->items[at] : NULL;
    return first && first->dim_count == 2 ? first->dims[0] : 0;
}

int64_t keras_input_width(KerasFile *file, const KerasLayer *layer, KerasPart part)
{
    Variables variables;
    if (!collect(file, layer, part, &variables))
        return 0;
    const int64_t rows = rows_of(&variables, 0);
    if (rows == 0)
        keras_report(file, DIAG_E0462, "layer '%s' (%s) has no kernel of two dimensions",
                     layer->name, layer->class_name);
    return rows;
}

bool keras_bias_has_rows(KerasFile *file, const KerasLayer *layer, KerasPart part)
{
    Variables variables;
    return collect(file, layer, part, &variables) && variables.count > 2 &&
           variables.items[2]->dim_count == 2;
}

/// Reads and checks kernel, recurrent kernel and bias from variable `skip` on.
static bool read_cell(KerasFile *file, const KerasLayer *layer, const Variables *variables,
                      int skip, const KerasCell *cell, CellValues *out)
{
    const int64_t gate_rows = cell->gates * cell->units;
    const Hdf5Object *const *at = variables->items + skip;
    if (!check_count(file, layer, variables->count, skip + keras_cell_variables(cell)))
        return false;
    out->inputs = file->width ? file->width : rows_of(variables, skip);
    out->kernel = take(file, layer, "kernel", at[0], out->inputs, gate_rows);
    out->recurrent = take(file, layer, "recurrent_kernel", at[1], cell->units, gate_rows);
    if (!out->kernel || !out->recurrent || !cell->use_bias)
        return out->kernel && out->recurrent;
    out->is_cudnn = cell->gates > 1 && has_shape(at[2], 2 * gate_rows, 0);
    if (out->is_cudnn && text_equal(cell->cell, "gru") && !cell->reset_after)
        return misfit(file, layer, "bias", at[2], gate_rows, 0);
    if (out->is_cudnn)
        out->bias = take(file, layer, "bias", at[2], 2 * gate_rows, 0);
    else if (cell->reset_after)
        out->bias = take(file, layer, "bias", at[2], 2, gate_rows);
    else
        out->bias = take(file, layer, "bias", at[2], gate_rows, 0);
    return out->bias != NULL;
}

/// Where a gate of the file stands in canonical order: gru's z and r change places.
static int64_t canonical_gate(const KerasCell *cell, int64_t gate)
{
    return cell->gates == 3 && gate < 2 ? 1 - gate : gate;
}

/// [columns, G*H] of the file to [G*H, columns].
static const float *turn_kernel(const KerasFile *file, const KerasCell *cell, const float *values,
                                int64_t columns, bool is_cudnn)
{
    const int64_t units = cell->units, gate_rows = cell->gates * units;
    float *turned = ARENA_ARRAY(file->arena, float, gate_rows *columns);
    for (int64_t gate = 0; gate < cell->gates; gate++) {
        float *to = turned + canonical_gate(cell, gate) * units * columns;
        for (int64_t i = 0; i < columns; i++)
            for (int64_t unit = 0; unit < units; unit++) {
                const float value = values[i * gate_rows + gate * units + unit];
                if (is_cudnn) // the block's elements in their order are those of [units, columns]
                    to[i * units + unit] = value;
                else
                    to[unit * columns + i] = value;
            }
    }
    return turned;
}

/// b [G*H], and rb [H] of the last gate under reset_after.
static void turn_bias(const KerasFile *file, const KerasCell *cell, const CellValues *values,
                      ImportedLayer *to, const char *side)
{
    const int64_t units = cell->units, gate_rows = cell->gates * units;
    const bool has_two = values->is_cudnn || cell->reset_after;
    float *b = ARENA_ARRAY(file->arena, float, gate_rows);
    for (int64_t gate = 0; gate < cell->gates; gate++)
        for (int64_t unit = 0; unit < units; unit++) {
            const bool apart = cell->reset_after && gate == cell->gates - 1;
            const float *from = values->bias + gate * units + unit;
            b[canonical_gate(cell, gate) * units + unit] =
                has_two && !apart ? from[0] + from[gate_rows] : from[0];
        }
    imported_weight(to, arena_format(file->arena, "%sb", side), gate_rows, 1, b);
    if (cell->reset_after)
        imported_weight(to, arena_format(file->arena, "%srb", side), units, 1,
                        values->bias + gate_rows + (cell->gates - 1) * units);
}

bool keras_take_cell(KerasFile *file, const KerasLayer *layer, KerasPart part, int skip,
                     const KerasCell *cell, ImportedLayer *to, const char *side)
{
    Variables variables;
    CellValues values = {0};
    if (!collect(file, layer, part, &variables) ||
        !read_cell(file, layer, &variables, file->is_legacy ? skip : 0, cell, &values))
        return false;
    const int64_t gate_rows = cell->gates * cell->units;
    imported_weight(to, arena_format(file->arena, "%sW", side), gate_rows, values.inputs,
                    turn_kernel(file, cell, values.kernel, values.inputs, values.is_cudnn));
    imported_weight(to, arena_format(file->arena, "%sR", side), gate_rows, cell->units,
                    turn_kernel(file, cell, values.recurrent, cell->units, values.is_cudnn));
    if (values.bias)
        turn_bias(file, cell, &values, to, side);
    return true;
}

bool keras_take_dense(KerasFile *file, const KerasLayer *layer, KerasPart part, int64_t units,
                      bool use_bias, ImportedLayer *to)
{
    Variables variables;
    if (!collect(file, layer, part, &variables) ||
        !check_count(file, layer, variables.count, use_bias ? 2 : 1))
        return false;
    const int64_t inputs = file->width ? file->width : rows_of(&variables, 0);
    const float *kernel = take(file, layer, "kernel", variables.items[0], inputs, units);
    const float *bias = use_bias ? take(file, layer, "bias", variables.items[1], units, 0) : NULL;
    if (!kernel || (use_bias && !bias))
        return false;
    float *turned = ARENA_ARRAY(file->arena, float, units *inputs);
    for (int64_t i = 0; i < inputs; i++)
        for (int64_t unit = 0; unit < units; unit++)
            turned[unit * inputs + i] = kernel[i * units + unit];
    imported_weight(to, "W", units, inputs, turned);
    if (bias)
        imported_weight(to, "b", units, 1, bias);
    return true;
}

bool keras_take_embedding(KerasFile *file, const KerasLayer *layer, int64_t tokens, int64_t units,
                          ImportedLayer *to)
{
    Variables variables;
    if (!collect(file, layer, KERAS_OWN, &variables) ||
        !check_count(file, layer, variables.count, 1))
        return false;
    const float *values = take(file, layer, "embeddings", variables.items[0], tokens, units);
    if (values)
        imported_weight(to, "E", tokens, units, values);
    return values != NULL;
}

/// Marks variables from `first` on as taken; whether one of them holds anything but 0.
static bool drop(KerasFile *file, const Variables *variables, int first)
{
    bool any = false;
    for (int i = first; i < variables->count; i++) {
        const float *values = read_values(file, variables->items[i]);
        int64_t elems = 1;
        for (int dim = 0; dim < variables->items[i]->dim_count; dim++)
            elems *= variables->items[i]->dims[dim];
        for (int64_t at = 0; values && at < elems; at++)
            any |= values[at] != 0;
    }
    return any;
}

void keras_drop_states(KerasFile *file, const KerasLayer *layer, int weight_count)
{
    static const char *const inner[] = {"", "forward_layer/", "backward_layer/"};
    Variables variables = {0};
    bool any = false;
    if (file->is_legacy) {
        any = collect_legacy(file, layer, &variables) && drop(file, &variables, weight_count);
    } else {
        for (size_t i = 0; i < sizeof inner / sizeof *inner; i++)
            collect_new(file, layer, inner[i], &variables);
        any = drop(file, &variables, 0);
    }
    if (any)
        keras_note(file, "'%s' was saved with states; here it starts from 0", layer->name);
}

bool keras_check_all_taken(KerasFile *file)
{
    int count = 0;
    const Hdf5Object *objects = hdf5_objects(file->weights, &count);
    const size_t length = strlen(file->store);
    for (int i = 0; i < count; i++) {
        if (!objects[i].is_dataset || file->is_taken[i] ||
            strncmp(objects[i].path, file->store, length) != 0 ||
            strstr(objects[i].path, "seed_generator"))
            continue;
        keras_report(file, DIAG_E0462, "the weight '/%s' belongs to no layer that was read",
                     objects[i].path);
        return false;
    }
    return true;
}
