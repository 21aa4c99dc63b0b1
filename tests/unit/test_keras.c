// Keras models: the spec that a file gives, its weights in canonical order, and what is refused by
// name. Whole models against Keras' own results are in tests/oracles.
#include <check.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "import/keras_read.h"
#include "model/model.h"
#include "unit/diags_fixture.h"

#define CORPUS RNNC_SOURCE_DIR "/tests/fuzz/corpus/keras/"

static const char legacy_spec[] =
    "# From legacy.h5, a model of Keras 2.4.0 (legacy .h5).\n"
    "rnnc: 1\n"
    "input:\n"
    "  tokens: 3\n"
    "  batch: 2\n"
    "  timesteps: any\n"
    "layers:\n"
    "  - embedding: {units: 2, mask_zero: true}\n"
    "    name: e\n"
    "  # Bidirectional GRU; its gates z r h are r z n here\n"
    "  - bidirectional: {merge: sum, layer: {cell: gru, units: 2, reset_after: false, "
    "recurrent_activation: hard_sigmoid_k2, return_sequences: true}}\n"
    "    name: b\n"
    "  - dropout: 0.5\n"
    "  # CuDNNLSTM; its gates i f c o are i f g o here, its kernels in CuDNN's layout\n"
    "  - cell: lstm\n"
    "    name: c\n"
    "    units: 1\n"
    "    stateful: true\n"
    "  - dense: {units: 1, activation: relu, use_bias: false}\n"
    "    name: d\n"
    "weights: {file: w, convention: canonical}\n";

START_TEST(legacy_text)
{
    const Imported *model = keras_read(arena, diags, CORPUS "legacy.h5");
    diags_print(diags, stderr, false);
    ck_assert_ptr_nonnull(model);
    ck_assert_str_eq(imported_spec(arena, model, "w"), legacy_spec);
}
END_TEST

/// Writes an imported model and builds it, as `rnnc import` and `rnnc` do.
static const Model *build(const char *path)
{
    char folder[] = "/tmp/rnnc-keras-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(folder));
    const Imported *imported = keras_read(arena, diags, path);
    const char *spec = arena_format(arena, "%s/model.yaml", folder);
    const bool written = imported && imported_write(arena, diags, imported, folder);
    const Spec *read = written ? spec_read(arena, diags, spec) : NULL;
    const Model *model = read ? model_build(arena, diags, read) : NULL;
    diags_print(diags, stderr, false);
    unlink(spec);
    unlink(arena_format(arena, "%s/model.safetensors", folder));
    rmdir(folder);
    return model;
}

static const float *weights_of(const Model *model, const char *layer, int kind)
{
    for (int i = 0; i < model->layer_count; i++)
        if (strcmp(model->layers[i].name, layer) == 0)
            return model->layers[i].weights[kind].data;
    ck_abort_msg("no layer %s", layer);
}

/// `wanted` in eighths.
static void check_eighths(const float *values, const int *wanted, int count)
{
    for (int i = 0; i < count; i++)
        ck_assert_float_eq(values[i], (float)wanted[i] / 8);
}

/// The file's tensors are eighths from 0 on, row-major. A GRU's kernel [2, 6] has columns
/// z z r r h h and becomes [6, 2], r r z z n n. The CuDNNLSTM has one unit: its kernel [2, 4] is
/// i f c o, and of its biases [8] the second four are added to the first.
START_TEST(legacy_weights)
{
    const Model *model = build(CORPUS "legacy.h5");
    ck_assert_ptr_nonnull(model);
    static const int gru_W[] = {2, 8, 3, 9, 0, 6, 1, 7, 4, 10, 5, 11};
    check_eighths(weights_of(model, "b/fw", WEIGHT_W), gru_W, 12);
    check_eighths(weights_of(model, "b/bw", WEIGHT_R), gru_W, 12);
    check_eighths(weights_of(model, "b/bw", WEIGHT_b), (const int[]){2, 3, 0, 1, 4, 5}, 6);
    check_eighths(weights_of(model, "c", WEIGHT_W), (const int[]){0, 4, 1, 5, 2, 6, 3, 7}, 8);
    check_eighths(weights_of(model, "c", WEIGHT_b), (const int[]){4, 6, 8, 10}, 4);
    check_eighths(weights_of(model, "e", WEIGHT_E), (const int[]){0, 1, 2, 3, 4, 5}, 6);
}
END_TEST

/// A Functional graph with the operation that computes a mask, from an archive.
START_TEST(archive)
{
    const Model *model = build(CORPUS "new.keras");
    ck_assert_ptr_nonnull(model);
    ck_assert_int_eq(model->layer_count, 2);
    ck_assert(model->layers[0].mask_zero);
    ck_assert_float_eq(weights_of(model, "g", WEIGHT_b)[0], 2); // both biases of r
    ck_assert_float_eq(weights_of(model, "g", WEIGHT_b)[2], 1);
    ck_assert_float_eq(weights_of(model, "g", WEIGHT_rb)[0], 1);
}
END_TEST

/// A Functional graph as Keras 2 keeps it.
START_TEST(functional)
{
    const Imported *model = keras_read(arena, diags, CORPUS "functional.h5");
    diags_print(diags, stderr, false);
    ck_assert_ptr_nonnull(model);
    ck_assert_str_eq(imported_spec(arena, model, "w"),
                     "# From functional.h5, a model of Keras 2.4.0 (legacy .h5).\n"
                     "rnnc: 1\n"
                     "input:\n"
                     "  features: 2\n"
                     "  batch: any\n"
                     "  timesteps: 9\n"
                     "layers:\n"
                     "  - masking: -1.5\n"
                     "  # LSTM; its gates i f c o are i f g o here\n"
                     "  - cell: lstm\n"
                     "    name: a\n"
                     "    units: 1\n"
                     "    return_sequences: true\n"
                     "  - activation: {leaky_relu: 0.25}\n"
                     "  # SimpleRNN\n"
                     "  - cell: rnn\n"
                     "    name: b\n"
                     "    units: 1\n"
                     "    activation: linear\n"
                     "weights: {file: w, convention: canonical}\n");
}
END_TEST

/// The rnn stands first, since the dense layer's 4 outputs are nobody's inputs.
START_TEST(weights_alone)
{
    const Imported *model = keras_read(arena, diags, CORPUS "weights.h5");
    ck_assert(printed_has("'" CORPUS "weights.h5' holds weights alone: activations"));
    ck_assert_ptr_nonnull(model);
    const char *layers = strstr(imported_spec(arena, model, "w"), "  - cell");
    ck_assert_str_eq(layers, "  - cell: rnn\n"
                             "    name: simple_rnn\n"
                             "    units: 2\n"
                             "    use_bias: false\n"
                             "  - dense: {units: 4, use_bias: false}\n"
                             "    name: dense\n"
                             "weights: {file: w, convention: canonical}\n");
}
END_TEST

/// What becomes of the file where `from` stands as `to`.
static const struct {
    const char *file, *from, *to, *words;
} changed[] = {
    {"legacy.h5", "\"CuDNNLSTM\"", "\"QuDNNLSTM\"",
     "layer 'c' (QuDNNLSTM): rnnc has no such layer"},
    {"legacy.h5", "\"Dropout\"", "\"Lambda\" ", "layer 'r' (Lambda): it holds code"},
    {"legacy.h5", "\"relu\"", "\"rely\"", "layer 'd' (Dense): its activation 'rely' is none"},
    {"legacy.h5", "\"hard_sigmoid\"", "\"softmax\"     ",
     "layer 'b' (Bidirectional): its activation 'softmax' is not elementwise"},
    {"legacy.h5", "0.5", "1.5", "its 'rate' is no rate"},
    {"legacy.h5", "\"sum\"", "\"min\"", "its merge_mode is none of Keras'"},
    {"legacy.h5", "\"stateful\": true", "\"statefux\": true",
     "layer 'c' (CuDNNLSTM): its option 'statefux' has no counterpart"},
    {"legacy.h5", "\"stateful\": true", "\"time_major\": 1 ",
     "its option 'time_major' has no counterpart"},
    {"legacy.h5", "\"return_sequences\": true", "\"return_state\": true    ",
     "layer 'b' (Bidirectional): it gives the states of both directions"},
    {"legacy.h5", "2.4.0", "1.2.2", "written by Keras 1.2.2"},
    {"legacy.h5", "\"input_dim\": 3", "\"input_dim\": 4",
     "'/model_weights/e/E:0' is [3, 2], not [4, 2]"},
    {"legacy.h5", "\"layers\"", "\"lovers\"", "has no class, or no list of layers"},
    {"legacy.h5", "{\"class_name\": \"Seq", "{\"class_name\": \"Seq\"", "model_config is no JSON"},
    {"legacy.h5", "\"Sequential\"", "\"MyOwnModel\"", "its model is a 'MyOwnModel'"},
    {"legacy.h5", "model_config", "mudel_config", "of no Keras model"},
    {"legacy.h5", "\"units\": 1, \"use_bias\": false", "\"units\": 1, \"use_bias\": true ",
     "layer 'd' (Dense) has 1 weights in the file, not 2"},
    {"legacy.h5", "\"Dense\"", "\"ReLU\" ", "option 'units' has no counterpart"},
    {"functional.h5", "[[[\"m\", 0", "[[[\"i\", 0",
     "layer 'i' (InputLayer): both 'm' and 'a' read it: the model branches"},
    {"functional.h5", "[[[\"a\", 0", "[[[\"a\", 1",
     "layer 'r' (LeakyReLU): it reads a second call or a second value of 'a'"},
    {"functional.h5", "[[[\"a\", 0, 0", "[[[\"a\", 0, 2",
     "layer 'r' (LeakyReLU): it reads a second call or a second value of 'a'"},
    {"functional.h5", "{\"training\": null}", "{\"initial_s\": 123}",
     "layer 'a' (LSTM): it is called with 'initial_s'"},
    {"functional.h5", "[[\"b\", 0, 0]]", "[[\"r\", 0, 0]]",
     "layer 'r' (LeakyReLU): the model's output is also read by 'b'"},
    {"functional.h5", "[[\"i\", 0, 0]]", "[[\"q\", 0, 0]]", "its model has not one input"},
    {"functional.h5", "[null, 9, 2]", "[null, 9]   ", "the model's input has 2 dimensions"},
    {"weights.h5", "dropout", "masking", "what its layer 'masking' does, which has no weights"},
    {"weights.h5", "dense", "dance", "what its layer 'dance' does"},
    {"weights.h5", "layers", "lovers", "of no Keras model"},
    {"two_orders.h5", "dense", "dense", "their shapes fit in more than one order"},
    {"new.keras", "PK\5\6", "PK\5\7", "this is not a zip file"},
};

/// The file with every `from` as `to`, both of one length.
static const Imported *read_changed(const char *name, const char *from, const char *to)
{
    const unsigned char *bytes = NULL;
    size_t size_bytes = 0, length = strlen(from), places = 0;
    const char *path = arena_format(arena, CORPUS "%s", name);
    ck_assert(file_map(diags, path, (Span){0}, &bytes, &size_bytes));
    char *copy = arena_copy(arena, (const char *)bytes, size_bytes);
    ck_assert_uint_ge(length, strlen(to) - (strlen(to) > length));
    for (size_t at = 0; at + length <= size_bytes; at++)
        if (memcmp(copy + at, from, length) == 0) {
            memcpy(copy + at, to, strlen(to));
            places += 1;
        }
    ck_assert_uint_ge(places, 1);
    return keras_parse(arena, diags, name, (const unsigned char *)copy, size_bytes);
}

START_TEST(what_is_refused)
{
    ck_assert_ptr_null(read_changed(changed[_i].file, changed[_i].from, changed[_i].to));
    ck_assert(printed_has(changed[_i].words));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("keras");
    TCase *tests = tcase_create("keras");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_add_test(tests, legacy_text);
    tcase_add_test(tests, legacy_weights);
    tcase_add_test(tests, archive);
    tcase_add_test(tests, functional);
    tcase_add_test(tests, weights_alone);
    tcase_add_loop_test(tests, what_is_refused, 0, sizeof changed / sizeof *changed);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
