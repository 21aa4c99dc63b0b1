// Test cases of ONNX models: input_N.pb and output_N.pb in the module's names and layouts. The
// module's arrays are
//
//     x [B, T, F] ([T, B, F] time-major)   lengths [B]   a state [B, F]
//     y [B, T, D*F] ([T, B, D*F]); [B, D*F] where only the last step is returned
#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "import/onnx_read.h"
#include "import/onnx_tensor.h"

/// A case under reading.
typedef struct {
    Arena *arena;
    Diags *diags;
    const OnnxModel *model;
    const char *folder;
    int64_t T, B;
} Case;

static bool open_tensor(const Case *on, const OnnxPort *port, OnnxTensor *out)
{
    const char *path = arena_format(on->arena, "%s/%s_%d.pb", on->folder,
                                    port->is_output ? "output" : "input", port->index);
    return onnx_tensor_open(on->arena, on->diags, path, out);
}

static bool mismatch(const Case *on, const OnnxPort *port, const OnnxTensor *tensor)
{
    diag_add(on->diags, DIAG_E0453, onnx_place(on->arena, on->folder),
             "%s_%d.pb, %" PRId64 " elements, is not of the shape that '%s' has in the model",
             port->is_output ? "output" : "input", port->index, tensor->elems, port->port);
    return false;
}

static NpyArray array_of(const void *data, NpyType type, int dim_count, const int64_t *dims)
{
    NpyArray array = {.type = type, .dim_count = dim_count, .elems = 1, .data = data};
    for (int i = 0; i < dim_count; i++) {
        array.dims[i] = dims[i];
        array.elems *= dims[i];
    }
    return array;
}

/// NULL, with E0453, where an element is not an int32.
static const int32_t *as_int32(const Case *on, const OnnxPort *port, const OnnxTensor *tensor)
{
    int32_t *data = ARENA_ARRAY(on->arena, int32_t, tensor->elems + 1);
    for (int64_t i = 0; i < tensor->elems; i++) {
        data[i] = (int32_t)tensor->integers[i];
        if (data[i] == tensor->integers[i])
            continue;
        diag_add(on->diags, DIAG_E0453, onnx_place(on->arena, on->folder),
                 "input_%d.pb: element %" PRId64 " is %" PRId64 ", beyond int32", port->index, i,
                 tensor->integers[i]);
        return NULL;
    }
    return data;
}

/// x has the layout of the file, so only its axes are counted.
static bool take_x(Case *on, const OnnxPort *port, NpyArray *out)
{
    OnnxTensor tensor;
    int64_t F = 1;
    on->T = on->B = 1;
    if (!open_tensor(on, port, &tensor))
        return false;
    if ((int)strlen(on->model->x_order) != tensor.dim_count)
        return mismatch(on, port, &tensor);
    for (int i = 0; i < tensor.dim_count; i++) {
        const char letter = on->model->x_order[i];
        *(letter == 'T' ? &on->T : letter == 'B' ? &on->B : &F) *= tensor.dims[i];
    }
    const bool time_major = on->model->time_major;
    const int64_t dims[] = {time_major ? on->T : on->B, time_major ? on->B : on->T, F};
    const int32_t *tokens = tensor.floats ? NULL : as_int32(on, port, &tensor);
    *out = tensor.floats ? array_of(tensor.floats, NPY_FLOAT32, 3, dims)
                         : array_of(tokens, NPY_INT32, 2, dims);
    return tensor.floats || tokens;
}

/// How many steps apart two elements of the file are that differ by one in `letter`; 0: not there.
static int64_t stride_of(const Case *on, const OnnxPort *port, char letter, int64_t rows)
{
    const char *at = strchr(port->order, letter);
    int64_t stride = at ? 1 : 0;
    for (const char *after = at ? at + 1 : ""; *after; after++)
        stride *= *after == 'T'   ? on->T
                  : *after == 'B' ? on->B
                  : *after == 'D' ? port->directions
                  : *after == 'F' ? port->features
                                  : rows;
    return stride;
}

static bool has(const OnnxPort *port, char letter)
{
    return strchr(port->order, letter) != NULL;
}

/// Moves the file's elements to [outer, inner, D, F] or a state's [B, F].
static bool take_floats(const Case *on, const OnnxPort *port, NpyArray *out)
{
    OnnxTensor tensor;
    if (!open_tensor(on, port, &tensor))
        return false;
    const bool is_state = strcmp(port->port, "y") != 0;
    const int64_t T = has(port, 'T') ? on->T : 1, D = has(port, 'D') ? port->directions : 1;
    const int64_t B = has(port, 'B') ? on->B : 1, F = port->features;
    int64_t known = 0, rows = 1;
    if (__builtin_mul_overflow(T * D, B, &known) || __builtin_mul_overflow(known, F, &known) ||
        known == 0 || !tensor.floats)
        return mismatch(on, port, &tensor);
    if (has(port, 'S'))
        rows = tensor.elems / known;
    if (known * rows != tensor.elems || (has(port, 'S') && port->row >= rows) || B != on->B)
        return mismatch(on, port, &tensor);
    const int64_t strides[] = {stride_of(on, port, 'T', rows), stride_of(on, port, 'B', rows),
                               stride_of(on, port, 'D', rows), stride_of(on, port, 'F', rows)};
    const int64_t base = !is_state        ? 0
                         : has(port, 'S') ? port->row * stride_of(on, port, 'S', rows)
                                          : port->row * strides[2];
    const int64_t D_used = is_state ? 1 : D;
    const bool time_major = on->model->time_major;
    float *data = ARENA_ARRAY(on->arena, float, T *B *D_used *F + 1), *to = data;
    for (int64_t i = 0; i < T * B; i++) {
        const int64_t t = time_major ? i / B : i % T, b = time_major ? i % B : i / T;
        for (int64_t d = 0; d < D_used; d++)
            for (int64_t f = 0; f < F; f++)
                *to++ = tensor.floats[base + t * strides[0] + b * strides[1] + d * strides[2] +
                                      f * strides[3]];
    }
    const int64_t sequence[] = {time_major ? T : B, time_major ? B : T, D_used * F};
    const int64_t last[] = {B, D_used * F};
    *out = has(port, 'T') ? array_of(data, NPY_FLOAT32, 3, sequence)
                          : array_of(data, NPY_FLOAT32, 2, last);
    return true;
}

static bool take_lengths(const Case *on, const OnnxPort *port, NpyArray *out)
{
    OnnxTensor tensor;
    if (!open_tensor(on, port, &tensor))
        return false;
    if (!tensor.integers || tensor.elems != on->B)
        return mismatch(on, port, &tensor);
    const int32_t *lengths = as_int32(on, port, &tensor);
    *out = array_of(lengths, NPY_INT32, 1, &tensor.elems);
    return lengths != NULL;
}

static bool take_port(const Case *on, const OnnxPort *port, OnnxCase *out)
{
    NpzMember member = {.name = port->port};
    const bool is_lengths = strcmp(port->port, "lengths") == 0;
    if (!(is_lengths ? take_lengths : take_floats)(on, port, &member.array))
        return false;
    if (port->is_output)
        ARENA_PUSH(on->arena, out->outputs, out->output_count, member);
    else
        ARENA_PUSH(on->arena, out->inputs, out->input_count, member);
    return true;
}

/// A weight of the folder has to be what the model was read with.
static bool check_weight(const Case *on, const OnnxLeftInput *weight)
{
    const char *path = arena_format(on->arena, "%s/input_%d.pb", on->folder, weight->index);
    const NpyArray *model = weight->array;
    OnnxTensor tensor;
    if (access(path, F_OK) != 0)
        return true;
    if (!onnx_tensor_open(on->arena, on->diags, path, &tensor))
        return false;
    if (tensor.floats && tensor.dim_count == model->dim_count &&
        memcmp(tensor.dims, model->dims, sizeof tensor.dims[0] * (size_t)tensor.dim_count) == 0 &&
        memcmp(tensor.floats, model->data, (size_t)tensor.elems * sizeof(float)) == 0)
        return true;
    Diag *diag = diag_add(on->diags, DIAG_E0810, onnx_place(on->arena, on->folder),
                          "input_%d.pb has other values of the weight '%s' than test_data_set_0, "
                          "from which the model has them",
                          weight->index, onnx_shown(on->arena, weight->name));
    diag_help(diag, "put the model and this folder, as test_data_set_0, into a folder of their "
                    "own, and compile it there");
    return false;
}

/// Names of one kind within the folder, as "a, b".
typedef struct {
    Text text;
    int count;
} Names;

static void add_name(Names *names, const char *name)
{
    enum { NAMED_MAX = 10 };
    if (names->count++ < NAMED_MAX)
        text_addf(&names->text, "%s%s", names->text.length ? ", " : "",
                  onnx_shown(names->text.arena, name));
    else if (names->count == NAMED_MAX + 1)
        text_add(&names->text, ", ...");
}

/// Whether the model has a place for "input_N.pb" or "output_N.pb".
static bool has_place(const OnnxModel *model, bool is_output, int64_t index, bool *out_is_read)
{
    *out_is_read = true;
    for (int i = 0; i < model->port_count; i++)
        if (model->ports[i].is_output == is_output && model->ports[i].index == index)
            return true;
    for (int i = 0; !is_output && i < model->left_count; i++)
        if (model->left[i].index == index) {
            *out_is_read = model->left[i].array != NULL;
            return true;
        }
    return false;
}

/// N of `kind`_N.pb, without a leading zero; -1 for any other name.
static int64_t index_of(const char *name, const char *kind)
{
    const size_t length = strlen(kind);
    if (strncmp(name, kind, length) != 0 || name[length] != '_')
        return -1;
    const char *digits = name + length + 1;
    char *end;
    const long long index = strtoll(digits, &end, 10);
    const bool is_plain = isdigit((unsigned char)*digits) && (*digits != '0' || end == digits + 1);
    return is_plain && strcmp(end, ".pb") == 0 ? index : -1;
}

static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/// Every file of the folder is one that the model has a place for, or is named.
static bool check_files(const Case *on)
{
    struct dirent **entries = NULL;
    Names without_place = {{.arena = on->arena}, 0}, unread = without_place;
    const int count = scandir(on->folder, &entries, is_shown, alphasort);
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        const int64_t input = index_of(name, "input"), output = index_of(name, "output");
        bool is_read = false;
        if ((input >= 0 || output >= 0) &&
            !has_place(on->model, output >= 0, input >= 0 ? input : output, &is_read))
            add_name(&without_place, name);
        else if (!is_read)
            add_name(&unread, name);
        free(entries[i]);
    }
    free(entries);
    if (unread.count > 0)
        diag_add(on->diags, DIAG_W0402, onnx_place(on->arena, on->folder), "not read: %s",
                 text_string(&unread.text));
    if (without_place.count > 0)
        diag_add(on->diags, DIAG_E0810, onnx_place(on->arena, on->folder),
                 "the model has no place for %s", text_string(&without_place.text));
    return without_place.count == 0;
}

bool onnx_case_read(Arena *arena, Diags *diags, const char *model_path, const char *folder,
                    OnnxCase *out)
{
    *out = (OnnxCase){0};
    Case on = {.arena = arena,
               .diags = diags,
               .model = onnx_read_model(arena, diags, model_path),
               .folder = folder};
    NpzMember x = {.name = "x"};
    if (!on.model)
        return false;
    for (int i = 0; i < on.model->port_count; i++)
        if (strcmp(on.model->ports[i].port, "x") == 0 &&
            !take_x(&on, &on.model->ports[i], &x.array))
            return false;
    ARENA_PUSH(arena, out->inputs, out->input_count, x);
    for (int i = 0; i < on.model->port_count; i++)
        if (strcmp(on.model->ports[i].port, "x") != 0 && !take_port(&on, &on.model->ports[i], out))
            return false;
    for (int i = 0; i < on.model->left_count; i++)
        if (on.model->left[i].array && !check_weight(&on, &on.model->left[i]))
            return false;
    return check_files(&on);
}
