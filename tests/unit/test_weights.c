// Weights: every convention against small files written by hand, every fault's words, and drawing:
// Philox against Random123's known answers, bounds, moments, and independence of layers.
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "import/weights.h"
#include "prim/philox.h"
#include "unit/diags_fixture.h"

/// One tensor of a test file: element i is `first` + i.
typedef struct {
    const char *name;
    int dim_count;
    int64_t dims[3];
    float first;
    const char *dtype;
} Given;

static const Safetensors *file_of(const Given *given, int count)
{
    SafetensorsEntry *entries = ARENA_ARRAY(arena, SafetensorsEntry, count);
    for (int i = 0; i < count; i++) {
        int64_t elems = 1;
        for (int j = 0; j < given[i].dim_count; j++)
            elems *= given[i].dims[j];
        float *values = ARENA_ARRAY(arena, float, elems);
        for (int64_t j = 0; j < elems; j++)
            values[j] = given[i].first + (float)j;
        entries[i] = (SafetensorsEntry){given[i].name, given[i].dtype ? given[i].dtype : "F32",
                                        given[i].dims, given[i].dim_count, values};
    }
    char path[] = "/tmp/rnnc_weights_XXXXXX";
    close(mkstemp(path));
    ck_assert(safetensors_write(arena, diags, path, entries, count, NULL));
    const Safetensors *file = safetensors_open(arena, diags, path, (Span){0});
    unlink(path);
    ck_assert_ptr_nonnull(file);
    return file;
}

/// Wants a tensor of the gates named by the letters of `gates` (none: no gates).
static void want_gates(WantedLayer *layer, const char *kind, int64_t rows, int64_t columns,
                       const char *gates)
{
    int count = (int)strlen(gates);
    const char **names = count ? ARENA_ARRAY(arena, const char *, count) : NULL;
    for (int i = 0; i < count; i++)
        names[i] = arena_copy(arena, gates + i, 1);
    layer->tensors[layer->tensor_count++] =
        (struct WantedTensor){.kind = kind,
                              .rows = rows,
                              .columns = columns,
                              .gate_count = count ? count : 1,
                              .data = ARENA_ARRAY(arena, float, rows *columns),
                              .gates = names};
}

static void want(WantedLayer *layer, const char *kind, int64_t rows, int64_t columns)
{
    want_gates(layer, kind, rows, columns, "");
}

/// gru of 2 units on 3 inputs.
static WantedLayer gru(const char *layer, const char *stack, int index)
{
    WantedLayer wanted = {.layer = layer, .stack = stack, .stack_index = index, .cell = "gru"};
    want(&wanted, "W", 6, 3);
    want(&wanted, "R", 6, 2);
    want(&wanted, "b", 6, 1);
    want(&wanted, "rb", 2, 1);
    return wanted;
}

START_TEST(canonical_names_are_copied)
{
    const Given given[] = {{"m.enc/W", 2, {6, 3}, 1, 0},
                           {"m.enc/R", 2, {6, 2}, 100, 0},
                           {"m.enc/b", 1, {6}, 200, 0},
                           {"m.enc/rb", 1, {2}, 300, 0}};
    WantedLayer layer = gru("enc", "enc", 0);
    ck_assert(weights_fill(arena, diags, (Span){0}, file_of(given, 4), WEIGHTS_CANONICAL, "m.",
                           &layer, 1));
    ck_assert(layer.tensors[0].data[17] == 18.0f && layer.tensors[1].data[11] == 111.0f);
    ck_assert(layer.tensors[2].data[0] == 200.0f && layer.tensors[3].data[1] == 301.0f);
}
END_TEST

START_TEST(pytorch_gru_keeps_the_recurrent_bias_of_n_apart)
{
    const Given given[] = {{"gru.weight_ih_l0", 2, {6, 3}, 1, 0},
                           {"gru.weight_hh_l0", 2, {6, 2}, 100, 0},
                           {"gru.bias_ih_l0", 1, {6}, 10, 0},
                           {"gru.bias_hh_l0", 1, {6}, 1000, 0}};
    WantedLayer layer = gru("gru", "gru", 0);
    ck_assert(
        weights_fill(arena, diags, (Span){0}, file_of(given, 4), WEIGHTS_PYTORCH, NULL, &layer, 1));
    const float b[] = {1010, 1012, 1014, 1016, 14, 15}, rb[] = {1004, 1005};
    ck_assert_mem_eq(layer.tensors[2].data, b, sizeof b);
    ck_assert_mem_eq(layer.tensors[3].data, rb, sizeof rb);
    ck_assert_uint_eq(diags_error_count(diags), 0);
}
END_TEST

START_TEST(pytorch_stacks_projection_dense_and_embedding)
{
    const Given given[] = {{"m.enc.weight_ih_l1", 2, {4, 2}, 1, 0},
                           {"m.enc.weight_hh_l1", 2, {4, 2}, 20, 0},
                           {"m.enc.bias_ih_l1", 1, {4}, 30, 0},
                           {"m.enc.bias_hh_l1", 1, {4}, 40, 0},
                           {"m.enc.weight_hr_l1", 2, {2, 1}, 50, 0},
                           {"m.out.weight", 2, {3, 2}, 60, 0},
                           {"m.out.bias", 1, {3}, 70, 0},
                           {"m.emb.weight", 2, {5, 2}, 80, 0}};
    WantedLayer layers[3] = {{.layer = "enc/1", .stack = "enc", .stack_index = 1, .cell = "lstmp"},
                             {.layer = "out", .cell = "dense"},
                             {.layer = "emb", .cell = "embedding"}};
    want(&layers[0], "W", 4, 2);
    want(&layers[0], "R", 4, 2);
    want(&layers[0], "b", 4, 1);
    want(&layers[0], "P", 2, 1);
    want(&layers[1], "W", 3, 2);
    want(&layers[1], "b", 3, 1);
    want(&layers[2], "E", 5, 2);
    ck_assert(
        weights_fill(arena, diags, (Span){0}, file_of(given, 8), WEIGHTS_PYTORCH, "m.", layers, 3));
    ck_assert(layers[0].tensors[2].data[3] == 76.0f && layers[0].tensors[3].data[1] == 51.0f);
    ck_assert(layers[1].tensors[0].data[5] == 65.0f && layers[1].tensors[1].data[2] == 72.0f);
    ck_assert(layers[2].tensors[0].data[9] == 89.0f);
}
END_TEST

START_TEST(pytorch_cell_modules_have_no_suffix)
{
    const Given given[] = {{"c.weight_ih", 2, {2, 1}, 1, 0}, {"c.weight_hh", 2, {2, 2}, 5, 0}};
    WantedLayer layer = {.layer = "c", .cell = "rnn"};
    want(&layer, "W", 2, 1);
    want(&layer, "R", 2, 2);
    ck_assert(
        weights_fill(arena, diags, (Span){0}, file_of(given, 2), WEIGHTS_PYTORCH, "", &layer, 1));
    ck_assert(layer.tensors[1].data[3] == 8.0f);
}
END_TEST

START_TEST(a_missing_tensor_lists_near_names)
{
    const Given given[] = {{"gru.weight_ih_l0", 2, {6, 3}, 1, 0},
                           {"gru.weigth_hh_l0", 2, {6, 2}, 100, 0},
                           {"gru.bias_ih_l0", 1, {6}, 10, 0},
                           {"gru.bias_hh_l0", 1, {6}, 1000, 0}};
    WantedLayer layer = gru("gru", "gru", 0);
    ck_assert(!weights_fill(arena, diags, (Span){0}, file_of(given, 4), WEIGHTS_PYTORCH, NULL,
                            &layer, 1));
    ck_assert(printed_has("no tensor 'gru.weight_hh_l0' (or 'gru.weight_hh')"));
    ck_assert(printed_has("did you mean 'gru.weigth_hh_l0'?"));
    ck_assert(printed_has("E0405"));
}
END_TEST

START_TEST(a_shape_names_wanted_and_found)
{
    const Given given[] = {{"enc/W", 2, {3, 6}, 1, 0},
                           {"enc/R", 2, {6, 2}, 100, 0},
                           {"enc/b", 2, {6, 1}, 200, 0},
                           {"enc/rb", 1, {2}, 300, "I32"}};
    WantedLayer layer = gru("enc", "enc", 0);
    ck_assert(!weights_fill(arena, diags, (Span){0}, file_of(given, 4), WEIGHTS_CANONICAL, NULL,
                            &layer, 1));
    ck_assert(printed_has("tensor 'enc/W' of layer 'enc' (gru) is [3, 6], but [6, 3] is wanted"));
    ck_assert(printed_has("transpose"));
    ck_assert(printed_has("'enc/b' of layer 'enc' (gru) is [6, 1], but [6] is wanted"));
    ck_assert(printed_has("tensor 'enc/rb' is I32"));
}
END_TEST

START_TEST(unused_tensors_are_warned_of)
{
    const Given given[] = {{"c.weight_ih", 2, {2, 1}, 1, 0},
                           {"c.weight_hh", 2, {2, 2}, 5, 0},
                           {"c.bias_ih", 1, {2}, 5, 0}};
    WantedLayer layer = {.layer = "c", .cell = "rnn"};
    want(&layer, "W", 2, 1);
    want(&layer, "R", 2, 2);
    ck_assert(
        weights_fill(arena, diags, (Span){0}, file_of(given, 3), WEIGHTS_PYTORCH, "", &layer, 1));
    ck_assert(printed_has("no layer uses tensor 'c.bias_ih' [W0401]"));
}
END_TEST

START_TEST(pytorch_has_no_peepholes)
{
    const Given given[] = {{"c.weight_ih", 2, {2, 1}, 1, 0}};
    WantedLayer layer = {.layer = "c", .cell = "peephole_lstm"};
    want(&layer, "W", 2, 1);
    want(&layer, "p", 2, 1);
    ck_assert(
        !weights_fill(arena, diags, (Span){0}, file_of(given, 1), WEIGHTS_PYTORCH, "", &layer, 1));
    ck_assert(printed_has("E0408"));
}
END_TEST

/// A layer of one unit and one input, with the gates in the order that `gates` says and a recurrent
/// bias apart for `apart` ("" for none).
static WantedLayer unit_layer(const char *cell, const char *layer, const char *gates,
                              const char *apart)
{
    int64_t count = (int64_t)strlen(gates);
    WantedLayer wanted = {.layer = layer, .cell = cell};
    want_gates(&wanted, "W", count, 1, gates);
    want_gates(&wanted, "R", count, 1, gates);
    want_gates(&wanted, "b", count, 1, gates);
    if (*apart)
        want_gates(&wanted, "rb", (int64_t)strlen(apart), 1, apart);
    return wanted;
}

static bool fill(const Given *given, int count, WeightsConvention convention, WantedLayer *layer)
{
    return weights_fill(arena, diags, (Span){0}, file_of(given, count), convention, NULL, layer, 1);
}

static void check_values(const WantedLayer *layer, const char *kind, const float *values)
{
    for (int i = 0; i < layer->tensor_count; i++) {
        const struct WantedTensor *want = &layer->tensors[i];
        for (int64_t j = 0; strcmp(want->kind, kind) == 0 && j < want->rows * want->columns; j++)
            ck_assert_msg(want->data[j] == values[j], "%s[%d] is %g, not %g", kind, (int)j,
                          (double)want->data[j], (double)values[j]);
    }
}

START_TEST(keras_kernels_are_turned)
{
    const Given given[] = {{"enc/kernel", 2, {3, 8}, 0, 0},
                           {"enc/lstm_cell/recurrent_kernel", 2, {2, 8}, 100, 0},
                           {"enc/bias", 1, {8}, 200, 0}};
    WantedLayer layer = {.layer = "enc", .cell = "lstm"};
    want_gates(&layer, "W", 8, 3, "ifgo");
    want_gates(&layer, "R", 8, 2, "ifgo");
    want_gates(&layer, "b", 8, 1, "ifgo");
    ck_assert(fill(given, 3, WEIGHTS_KERAS, &layer));
    check_values(&layer, "W", (float[]){0, 8,  16, 1, 9,  17, 2, 10, 18, 3, 11, 19,
                                        4, 12, 20, 5, 13, 21, 6, 14, 22, 7, 15, 23});
    check_values(
        &layer, "R",
        (float[]){100, 108, 101, 109, 102, 110, 103, 111, 104, 112, 105, 113, 106, 114, 107, 115});
    check_values(&layer, "b", (float[]){200, 201, 202, 203, 204, 205, 206, 207});
}
END_TEST

/// Two units: Keras' columns z0 z1 r0 r1 h0 h1, two rows of bias.
START_TEST(keras_gru_has_another_order_and_two_rows_of_bias)
{
    const Given given[] = {{"gru/kernel", 2, {1, 6}, 0, 0},
                           {"gru/recurrent_kernel", 2, {2, 6}, 10, 0},
                           {"gru/bias", 2, {2, 6}, 100, 0}};
    WantedLayer layer = {.layer = "gru", .cell = "gru"};
    want_gates(&layer, "W", 6, 1, "rzn");
    want_gates(&layer, "R", 6, 2, "rzn");
    want_gates(&layer, "b", 6, 1, "rzn");
    want_gates(&layer, "rb", 2, 1, "n");
    ck_assert(fill(given, 3, WEIGHTS_KERAS, &layer));
    check_values(&layer, "W", (float[]){2, 3, 0, 1, 4, 5});
    check_values(&layer, "R", (float[]){12, 18, 13, 19, 10, 16, 11, 17, 14, 20, 15, 21});
    check_values(&layer, "b", (float[]){210, 212, 206, 208, 104, 105});
    check_values(&layer, "rb", (float[]){110, 111});
}
END_TEST

START_TEST(keras_bias_of_the_other_gru_is_named)
{
    const Given after[] = {{"g/kernel", 2, {1, 3}, 0, 0},
                           {"g/recurrent_kernel", 2, {1, 3}, 0, 0},
                           {"g/bias", 1, {3}, 0, 0}};
    WantedLayer layer = unit_layer("gru", "g", "rzn", "n");
    ck_assert(!fill(after, 3, WEIGHTS_KERAS, &layer));
    ck_assert(printed_has("'g/bias' of layer 'g' (gru) is [3], but [2, 3] is wanted"));
    ck_assert(printed_has("`reset_after: false`"));
    Given before[3] = {after[0], after[1], {"g/bias", 2, {2, 3}, 0, 0}};
    WantedLayer other = unit_layer("gru_before", "g", "rzn", "");
    ck_assert(!fill(before, 3, WEIGHTS_KERAS, &other));
    ck_assert(printed_has("'g/bias' of layer 'g' (gru_before) is [2, 3], but [3] is wanted"));
    Given cudnn[3] = {after[0], after[1], {"g/bias", 1, {6}, 0, 0}};
    ck_assert(!fill(cudnn, 3, WEIGHTS_KERAS, &layer));
    ck_assert(printed_has("CuDNN layers"));
}
END_TEST

START_TEST(keras_directions_have_several_names)
{
    const Given given[] = {{"enc/forward_rnn/simple_rnn_cell/kernel", 2, {1, 1}, 1, 0},
                           {"enc/forward_rnn/simple_rnn_cell/recurrent_kernel", 2, {1, 1}, 2, 0},
                           {"enc/forward_rnn/simple_rnn_cell/bias", 1, {1}, 3, 0},
                           {"enc/bw/kernel", 2, {1, 1}, 4, 0},
                           {"enc/simple_rnn_7/recurrent_kernel", 2, {1, 1}, 5, 0},
                           {"enc/backward_rnn/simple_rnn_cell/bias", 1, {1}, 6, 0}};
    WantedLayer layers[2] = {unit_layer("rnn", "enc/fw", "n", ""),
                             unit_layer("rnn", "enc/bw", "n", "")};
    layers[0].base = layers[1].base = "enc";
    layers[0].side = SIDE_FORWARD;
    layers[1].side = SIDE_BACKWARD;
    ck_assert(
        weights_fill(arena, diags, (Span){0}, file_of(given, 6), WEIGHTS_KERAS, NULL, layers, 2));
    check_values(&layers[0], "b", (float[]){3});
    check_values(&layers[1], "R", (float[]){5});
    ck_assert(!printed_has("W0401"));
}
END_TEST

START_TEST(keras_names_that_fit_twice_are_refused)
{
    const Given given[] = {{"c/kernel", 2, {1, 1}, 1, 0},
                           {"c/rnn_cell/kernel", 2, {1, 1}, 1, 0},
                           {"c/recurrent_kernel", 2, {1, 1}, 2, 0},
                           {"c/bias", 1, {1}, 3, 0}};
    WantedLayer layer = unit_layer("rnn", "c", "n", "");
    ck_assert(!fill(given, 4, WEIGHTS_KERAS, &layer));
    ck_assert(printed_has("both 'c/kernel' and 'c/rnn_cell/kernel' could be the kernel of layer"));
}
END_TEST

START_TEST(keras_dense_and_embedding)
{
    const Given given[] = {{"m/out/kernel", 2, {2, 3}, 0, 0},
                           {"m/out/bias", 1, {3}, 10, 0},
                           {"m/emb/embeddings", 2, {4, 2}, 20, 0}};
    WantedLayer layers[2] = {{.layer = "out", .cell = "dense"},
                             {.layer = "emb", .cell = "embedding"}};
    want(&layers[0], "W", 3, 2);
    want(&layers[0], "b", 3, 1);
    want(&layers[1], "E", 4, 2);
    ck_assert(
        weights_fill(arena, diags, (Span){0}, file_of(given, 3), WEIGHTS_KERAS, "m/", layers, 2));
    check_values(&layers[0], "W", (float[]){0, 3, 1, 4, 2, 5});
    check_values(&layers[0], "b", (float[]){10, 11, 12});
    check_values(&layers[1], "E", (float[]){20, 21, 22, 23, 24, 25, 26, 27});
}
END_TEST

START_TEST(onnx_lstm_with_peepholes_in_two_directions)
{
    const Given given[] = {{"enc/W", 3, {2, 4, 1}, 0, 0},
                           {"enc/R", 3, {2, 4, 1}, 10, 0},
                           {"enc/B", 2, {2, 8}, 100, 0},
                           {"enc/P", 2, {2, 3}, 200, 0}};
    WantedLayer layers[2] = {unit_layer("peephole_lstm", "enc/fw", "ifgo", ""),
                             unit_layer("peephole_lstm", "enc/bw", "ifgo", "")};
    for (int i = 0; i < 2; i++) {
        want_gates(&layers[i], "p", 3, 1, "ifo");
        layers[i].base = "enc";
        layers[i].side = i ? SIDE_BACKWARD : SIDE_FORWARD;
    }
    ck_assert(
        weights_fill(arena, diags, (Span){0}, file_of(given, 4), WEIGHTS_ONNX, NULL, layers, 2));
    check_values(&layers[0], "W", (float[]){0, 2, 3, 1});
    check_values(&layers[1], "R", (float[]){14, 16, 17, 15});
    check_values(&layers[1], "b", (float[]){108 + 112, 110 + 114, 111 + 115, 109 + 113});
    check_values(&layers[0], "p", (float[]){200, 202, 201});
    check_values(&layers[1], "p", (float[]){203, 205, 204});
}
END_TEST

START_TEST(onnx_gru_keeps_the_bias_of_n_apart_after_the_reset_only)
{
    const Given given[] = {
        {"g/W", 3, {1, 3, 1}, 0, 0}, {"g/R", 3, {1, 3, 1}, 10, 0}, {"g/B", 2, {1, 6}, 100, 0}};
    WantedLayer after = unit_layer("gru", "g", "rzn", "n");
    WantedLayer before = unit_layer("gru_before", "g", "rzn", "");
    ck_assert(fill(given, 3, WEIGHTS_ONNX, &after) && fill(given, 3, WEIGHTS_ONNX, &before));
    check_values(&after, "W", (float[]){1, 0, 2});
    check_values(&after, "b", (float[]){101 + 104, 100 + 103, 102});
    check_values(&after, "rb", (float[]){105});
    check_values(&before, "b", (float[]){101 + 104, 100 + 103, 102 + 105});
}
END_TEST

START_TEST(onnx_faults_name_directions_and_biases)
{
    const Given given[] = {{"g/W", 3, {2, 1, 1}, 0, 0}, {"g/R", 2, {1, 1}, 10, 0}};
    WantedLayer layer = unit_layer("rnn", "g", "n", "");
    ck_assert(!fill(given, 2, WEIGHTS_ONNX, &layer));
    ck_assert(printed_has("'g/W' of layer 'g' (rnn) is [2, 1, 1], but [1, 1, 1] is wanted"));
    ck_assert(printed_has("write bidirectional"));
    ck_assert(printed_has("'g/R' of layer 'g' (rnn) is [1, 1], but [1, 1, 1] is wanted"));
    ck_assert(printed_has("a node without B is `use_bias: false`"));
}
END_TEST

/// A user's cell file may be called `lstm` too: its gates tell.
START_TEST(cells_that_a_convention_does_not_know)
{
    static const struct {
        const char *cell, *gates;
        WeightsConvention convention;
        int heads;
    } rows[] = {{"mgu", "fn", WEIGHTS_KERAS, 1},    {"lstm", "ifgq", WEIGHTS_KERAS, 1},
                {"lstmp", "ifgo", WEIGHTS_ONNX, 1}, {"cifg_lstm", "igo", WEIGHTS_ONNX, 1},
                {"lstm", "ifgo", WEIGHTS_ONNX, 2},  {"rnn", "n", WEIGHTS_KERAS, 2},
                {"rnn", "n", WEIGHTS_PYTORCH, 2}};
    const Given given[] = {{"c/kernel", 2, {1, 1}, 1, 0}};
    WantedLayer layer = unit_layer(rows[_i].cell, "c", rows[_i].gates, "");
    layer.heads = rows[_i].heads;
    ck_assert(!fill(given, 1, rows[_i].convention, &layer));
    ck_assert(printed_has("E0408"));
    ck_assert(
        printed_has(rows[_i].heads > 1 ? "the heads of layer 'c'" : "the weights of the cell"));
}
END_TEST

START_TEST(pytorch_backward_direction_has_a_suffix)
{
    const Given given[] = {{"rnn.weight_ih_l1_reverse", 2, {1, 1}, 1, 0},
                           {"rnn.weight_hh_l1_reverse", 2, {1, 1}, 2, 0},
                           {"rnn.bias_ih_l1_reverse", 1, {1}, 3, 0},
                           {"rnn.bias_hh_l1_reverse", 1, {1}, 4, 0}};
    WantedLayer layer = unit_layer("rnn", "rnn/1/bw", "n", "");
    layer.base = "rnn/1";
    layer.stack = "rnn";
    layer.stack_index = 1;
    layer.side = SIDE_BACKWARD;
    ck_assert(fill(given, 4, WEIGHTS_PYTORCH, &layer));
    check_values(&layer, "R", (float[]){2});
    check_values(&layer, "b", (float[]){7});
}
END_TEST

/// Random123 1.14, tests/kat_vectors: philox4x32 10.
static const struct {
    unsigned int counter[4], key[2], answer[4];
} known_answers[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

START_TEST(philox_gives_the_known_answers)
{
    unsigned int words[4];
    memcpy(words, known_answers[_i].counter, sizeof words);
    rnn_philox(words, known_answers[_i].key[0], known_answers[_i].key[1]);
    ck_assert_mem_eq(words, known_answers[_i].answer, sizeof words);
}
END_TEST

START_TEST(drawn_values_have_the_bounds_and_moments)
{
    WantedLayer layers[3] = {{.layer = "enc", .cell = "lstm"},
                             {.layer = "out", .cell = "dense"},
                             {.layer = "emb", .cell = "embedding"}};
    int64_t units[] = {16, 0, 0};
    want(&layers[0], "W", 64, 100);
    want(&layers[1], "W", 50, 64);
    want(&layers[2], "E", 100, 100);
    weights_draw(7, layers, 3, units);
    const double bounds[] = {0.25, 0.125, 1e9};
    const double deviations[] = {0.25 / sqrt(3), 0.125 / sqrt(3), 1};
    for (int i = 0; i < 3; i++) {
        const struct WantedTensor *tensor = &layers[i].tensors[0];
        int64_t count = tensor->rows * tensor->columns;
        double sum = 0, squares = 0;
        for (int64_t j = 0; j < count; j++) {
            ck_assert(fabs(tensor->data[j]) < bounds[i]);
            sum += tensor->data[j];
            squares += (double)tensor->data[j] * tensor->data[j];
        }
        double error = deviations[i] / sqrt((double)count);
        ck_assert(fabs(sum / (double)count) < 4 * error);
        ck_assert(fabs(sqrt(squares / (double)count) - deviations[i]) < 4 * error);
    }
}
END_TEST

START_TEST(gains_of_a_norm_are_drawn_as_one)
{
    static const bool gains[] = {true, false, true};
    WantedLayer layer = {.layer = "enc", .cell = "layer_norm_lstm"};
    int64_t units[] = {5};
    want(&layer, "p", 15, 1);
    layer.tensors[0].gate_count = 3;
    layer.tensors[0].is_gain = gains;
    weights_draw(7, &layer, 1, units);
    for (int i = 0; i < 15; i++)
        ck_assert_int_eq(layer.tensors[0].data[i] == 1, gains[i / 5]);
}
END_TEST

START_TEST(a_layer_draws_the_same_beside_others)
{
    WantedLayer alone = gru("enc", "enc", 0);
    WantedLayer both[] = {gru("pre", "pre", 0), gru("enc", "enc", 0)};
    int64_t units[] = {2, 2};
    weights_draw(3, &alone, 1, units);
    weights_draw(3, both, 2, units);
    ck_assert_mem_eq(alone.tensors[0].data, both[1].tensors[0].data, 18 * sizeof(float));
    ck_assert_mem_ne(both[0].tensors[0].data, both[1].tensors[0].data, 18 * sizeof(float));
    ck_assert_mem_ne(alone.tensors[0].data, alone.tensors[1].data, 12 * sizeof(float));
    weights_draw(4, &alone, 1, units);
    ck_assert_mem_ne(alone.tensors[0].data, both[1].tensors[0].data, 18 * sizeof(float));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("weights");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_add_test(tests, canonical_names_are_copied);
    tcase_add_test(tests, pytorch_gru_keeps_the_recurrent_bias_of_n_apart);
    tcase_add_test(tests, pytorch_stacks_projection_dense_and_embedding);
    tcase_add_test(tests, pytorch_cell_modules_have_no_suffix);
    tcase_add_test(tests, a_missing_tensor_lists_near_names);
    tcase_add_test(tests, a_shape_names_wanted_and_found);
    tcase_add_test(tests, unused_tensors_are_warned_of);
    tcase_add_test(tests, pytorch_has_no_peepholes);
    tcase_add_test(tests, keras_kernels_are_turned);
    tcase_add_test(tests, keras_gru_has_another_order_and_two_rows_of_bias);
    tcase_add_test(tests, keras_bias_of_the_other_gru_is_named);
    tcase_add_test(tests, keras_directions_have_several_names);
    tcase_add_test(tests, keras_names_that_fit_twice_are_refused);
    tcase_add_test(tests, keras_dense_and_embedding);
    tcase_add_test(tests, onnx_lstm_with_peepholes_in_two_directions);
    tcase_add_test(tests, onnx_gru_keeps_the_bias_of_n_apart_after_the_reset_only);
    tcase_add_test(tests, onnx_faults_name_directions_and_biases);
    tcase_add_loop_test(tests, cells_that_a_convention_does_not_know, 0, 7);
    tcase_add_test(tests, pytorch_backward_direction_has_a_suffix);
    tcase_add_loop_test(tests, philox_gives_the_known_answers, 0,
                        sizeof known_answers / sizeof known_answers[0]);
    tcase_add_test(tests, drawn_values_have_the_bounds_and_moments);
    tcase_add_test(tests, gains_of_a_norm_are_drawn_as_one);
    tcase_add_test(tests, a_layer_draws_the_same_beside_others);
    Suite *suite = suite_create("weights");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
