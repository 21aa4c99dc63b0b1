// PyTorch state_dicts: what names and shapes are taken for, how the biases are merged, and that
// what they leave open is asked for. Values of the frameworks themselves are in tests/oracles.
#include <check.h>

#include "import/pytorch_read.h"
#include "unit/diags_fixture.h"

/// Element i of every tensor is i + 1.
static Safetensors file;
static SafetensorsTensor tensors[32];
static float values[4096];

static void begin(void)
{
    start();
    file = (Safetensors){"net.safetensors", tensors, 0};
    for (int i = 0; i < 4096; i++)
        values[i] = (float)(i + 1);
}

static void add(const char *name, int64_t rows, int64_t columns)
{
    tensors[file.count++] =
        (SafetensorsTensor){.name = name,
                            .dtype = "F32",
                            .dims = {rows, columns},
                            .dim_count = columns ? 2 : 1,
                            .data = (const unsigned char *)values,
                            .size_bytes = sizeof(float) * (size_t)(rows * (columns ? columns : 1))};
}

/// A layer without bias: `gates` * `units` rows.
static void add_plain(const char *path, const char *ending, int64_t gates, int64_t inputs,
                      int64_t units)
{
    add(arena_format(arena, "%sweight_ih%s", path, ending), gates * units, inputs);
    add(arena_format(arena, "%sweight_hh%s", path, ending), gates * units, units);
}

static const Imported *parse_with(const char *json, ImportOptions options)
{
    const Source source = {"config.json", json, json ? strlen(json) : 0};
    return pytorch_parse(arena, diags, &file, json ? &source : NULL, &options);
}

static const char *spec_with(const char *json, ImportOptions options)
{
    const Imported *model = parse_with(json, options);
    return model ? imported_spec(arena, model, "w") : "";
}

static bool has(const char *text, const char *words)
{
    if (!strstr(text, words))
        fprintf(stderr, "wanted '%s', got:\n%s", words, text);
    return strstr(text, words) != NULL;
}

static const float *tensor_of(const Imported *model, const char *name)
{
    const SafetensorsTensor *tensor = safetensors_find(imported_tensors(arena, model, "m"), name);
    ck_assert_ptr_nonnull(tensor);
    return (const float *)(const void *)tensor->data;
}

START_TEST(gru_keeps_the_bias_within_its_reset_apart)
{
    add_plain("g.", "_l0", 3, 5, 2);
    add("g.bias_ih_l0", 6, 0);
    add("g.bias_hh_l0", 6, 0);
    const Imported *model = parse_with(NULL, (ImportOptions){.batch_first = IMPORT_FALSE});
    ck_assert_ptr_nonnull(model);
    const char *spec = imported_spec(arena, model, "w");
    ck_assert(has(spec, "  features: 5\n  layout: time_major # batch_first=False\n"));
    ck_assert(has(spec, "- cell: gru\n    name: g\n    units: 2\n    return_sequences: true\n"));
    const float *b = tensor_of(model, "g/b"), *rb = tensor_of(model, "g/rb");
    ck_assert_float_eq(b[3], 4 + 4);
    ck_assert_float_eq(b[4], 5);
    ck_assert_float_eq(rb[1], 6);
}
END_TEST

START_TEST(lstm_sums_its_biases)
{
    add_plain("", "", 4, 3, 1); // LSTMCell, saved alone
    add("bias_ih", 4, 0);
    add("bias_hh", 4, 0);
    const Imported *model = parse_with(NULL, (ImportOptions){0});
    ck_assert_ptr_nonnull(model);
    ck_assert(has(imported_spec(arena, model, "w"), "  # LSTMCell(3, 1)\n  - cell: lstm\n"));
    ck_assert_float_eq(tensor_of(model, "rnn/b")[3], 8);
    ck_assert(printed_has("does not say batch_first: x is taken as [B, T, features]"));
}
END_TEST

START_TEST(stacks_directions_and_projection)
{
    for (int layer = 0; layer < 2; layer++)
        for (int side = 0; side < 2; side++) {
            const char *ending = arena_format(arena, "_l%d%s", layer, side ? "_reverse" : "");
            add(arena_format(arena, "e.f.weight_ih%s", ending), 12, layer ? 4 : 5);
            add(arena_format(arena, "e.f.weight_hh%s", ending), 12, 2);
            add(arena_format(arena, "e.f.weight_hr%s", ending), 2, 3);
        }
    const Imported *model =
        parse_with(NULL, (ImportOptions){.prefix = "e.", .return_sequences = IMPORT_FALSE});
    ck_assert_ptr_nonnull(model);
    ck_assert(has(imported_spec(arena, model, "w"),
                  "- bidirectional: {layer: {cell: lstm, units: 3, projection: 2, layers: 2, "
                  "use_bias: false}}\n    name: f\n"));
    ck_assert_float_eq(tensor_of(model, "f/1/bw/P")[5], 6);
}
END_TEST

START_TEST(nonlinearity_is_asked_for)
{
    add_plain("r.", "_l0", 1, 3, 2);
    ck_assert_ptr_null(parse_with(NULL, (ImportOptions){0}));
    ck_assert(printed_has("--nonlinearity tanh, or --nonlinearity relu"));
    ck_assert(has(spec_with(NULL, (ImportOptions){.nonlinearity = "relu"}), "activation: relu"));
    ck_assert(
        has(spec_with("{\"nonlinearity\": \"relu\"}", (ImportOptions){0}), "activation: relu"));
    ck_assert(!strstr(spec_with("{\"r\": {\"nonlinearity\": \"tanh\"}, \"nonlinearity\": \"relu\"}",
                                (ImportOptions){0}),
                      "activation"));
}
END_TEST

START_TEST(order_follows_the_shapes)
{
    add_plain("a.", "_l0", 4, 6, 4);
    add_plain("b.", "_l0", 3, 9, 6);
    add("z.weight", 7, 9);
    const char *spec = spec_with(NULL, (ImportOptions){0});
    ck_assert(has(spec, "tokens: 7"));
    ck_assert(strstr(spec, "name: z") < strstr(spec, "name: b"));
    ck_assert(strstr(spec, "name: b") < strstr(spec, "name: a"));
}
END_TEST

START_TEST(numbers_in_names_are_an_order)
{
    add_plain("rnn10.", "_l0", 4, 6, 6);
    add_plain("rnn9.", "_l0", 4, 6, 6);
    const char *spec = spec_with(NULL, (ImportOptions){0});
    ck_assert(*spec && strstr(spec, "name: rnn9") < strstr(spec, "name: rnn10"));
}
END_TEST

START_TEST(two_orders_are_told)
{
    add_plain("a.", "_l0", 4, 6, 6);
    add_plain("b.", "_l0", 4, 6, 6);
    ck_assert_ptr_null(parse_with(NULL, (ImportOptions){0}));
    ck_assert(printed_has("say which: --order a,b\nhelp: or --order b,a\n"));
    ck_assert(*spec_with("{\"order\": [\"b\", \"a\"]}", (ImportOptions){0}));
    ck_assert(has(spec_with(NULL, (ImportOptions){.order = "b"}), "name: b"));
    ck_assert(printed_has("left out, as the order has it: a"));
}
END_TEST

START_TEST(a_matrix_alone_may_be_two_things)
{
    add("m.weight", 6, 6);
    add_plain("r.", "_l0", 4, 6, 6);
    ck_assert_ptr_null(parse_with(NULL, (ImportOptions){0}));
    ck_assert(printed_has("m=embedding,r"));
    ck_assert(has(spec_with(NULL, (ImportOptions){.order = "m=linear,r"}),
                  "dense: {units: 6, use_bias: false}"));
    ck_assert(
        has(spec_with("{\"m\": {\"type\": \"Embedding\"}}", (ImportOptions){0}), "embedding: 6"));
}
END_TEST

START_TEST(what_stands_between_linears_is_asked_for)
{
    add_plain("r.", "_l0", 4, 6, 6);
    add("f1.weight", 5, 6);
    add("f1.bias", 5, 0);
    add("f2.weight", 4, 5);
    add("f2.bias", 4, 0);
    ck_assert_ptr_null(parse_with(NULL, (ImportOptions){0}));
    ck_assert(printed_has("as in --order r,f1,relu,f2"));
    ck_assert(
        has(spec_with(NULL, (ImportOptions){.order = "r,f1,relu,f2"}), "- activation: relu\n"));
}
END_TEST

START_TEST(dropout_stands_between_layers)
{
    for (int layer = 0; layer < 2; layer++)
        add_plain("r.", arena_format(arena, "_l%d", layer), 4, 6, 6);
    const char *spec = spec_with("{\"r\": {\"dropout\": 0.25}}", (ImportOptions){0});
    ck_assert(has(spec, "- dropout: 0.25\n"));
    ck_assert(strstr(spec, "name: r_l0") < strstr(spec, "dropout: 0.25\n"));
}
END_TEST

static const struct {
    const char *name;
    int64_t rows, columns;
    const char *json, *words;
} refused[] = {
    {"norm.weight", 6, 0, NULL, "tensor 'norm.weight' [6] is of no module that is imported"},
    {"norm.running_mean", 6, 0, NULL, "tensor 'norm.running_mean' [6] is of no module"},
    {"r.weight_ih_l1", 24, 6, NULL, "module 'r' has no tensor weight_hh_l1"},
    {"r.weight_hh_l0_reverse", 24, 6, NULL, "module 'r' has no tensor weight_ih_l0_reverse"},
    {"r.weight_hr_l0", 2, 6, NULL, "tensor 'r.weight_hh_l0' is [24, 6], not [24, 2]"},
    {"r.bias_ih_l0", 24, 0, NULL, "module 'r' has no tensor bias_hh_l0"},
    {"r.weight_ih", 24, 6, NULL, "tensor 'r.weight_ih' [24, 6] is of no module"},
    {"s.weight_ih_l0", 24, 5, NULL, "module 's' has no tensor weight_hh_l0"},
    {"f.weight", 5, 7, NULL, "in no order does every module take"},
    {"f.weight", 5, 6, "{\"r\": {\"hidden_size\": 7}}", "hidden_size of module 'r' is 7, but"},
    {"f.weight", 5, 6, "{\"r\": {\"type\": \"GRU\"}}", "type of module 'r' is 'GRU', but its"},
    {"f.weight", 5, 6, "{\"batch_first\": 1}", "batch_first is true or false"},
    {"f.weight", 5, 6, "[]", "it is not an object"},
    {"f.weight", 5, 6, "{", "line 1"},
    {"f.weight", 5, 6, "{\"order\": [\"q\"]}", "'q' is neither a module nor an activation"},
    {"f.weight", 5, 6, "{\"order\": [\"r\", \"r\"]}", "module 'r' is named twice"},
    {"f.weight", 5, 6, "{\"order\": [\"f=linear\"]}", "none of the modules taken is an RNN"},
};

START_TEST(refusals)
{
    add_plain("r.", "_l0", 4, 6, 6);
    add(refused[_i].name, refused[_i].rows, refused[_i].columns);
    ck_assert_ptr_null(parse_with(refused[_i].json, (ImportOptions){0}));
    ck_assert(printed_has(refused[_i].words));
    ck_assert(diags_error_count(diags) > 0);
}
END_TEST

START_TEST(rows_that_are_no_cell)
{
    add_plain("r.", "_l0", 2, 6, 6);
    ck_assert_ptr_null(parse_with(NULL, (ImportOptions){0}));
    ck_assert(printed_has("12 rows are not 1 (RNN), 3 (GRU) or 4 (LSTM) times 6 units"));
}
END_TEST

START_TEST(keys_that_nothing_is_made_of)
{
    add_plain("r.", "_l0", 4, 6, 6);
    ck_assert(
        *spec_with("{\"model_type\": \"x\", \"r\": {\"num_layers\": 1}}", (ImportOptions){0}));
    ck_assert(printed_has("nothing was made of model_type"));
}
END_TEST

START_TEST(content_decides)
{
    static const unsigned char header[] = "\20\0\0\0\0\0\0\0{\"a\"";
    ck_assert_ptr_nonnull(import_reader_of(header, sizeof header));
    ck_assert_ptr_null(import_reader_of((const unsigned char *)"rnnc: 1\n{", 9));
    ck_assert_ptr_null(import_reader_of(header, 8));
    // ModelProto: ir_version 8, producer_name "a", graph
    static const unsigned char model[] = {0x08, 8, 0x12, 1, 'a', 0x3a, 100};
    ck_assert_str_eq(import_reader_of(model, sizeof model)->name, "ONNX model");
    ck_assert_ptr_null(import_reader_of(model + 2, sizeof model - 2));
    ck_assert_ptr_null(import_reader_of(model, 5));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pytorch_read");
    TCase *tests = tcase_create("pytorch_read");
    tcase_add_checked_fixture(tests, begin, stop);
    tcase_add_test(tests, gru_keeps_the_bias_within_its_reset_apart);
    tcase_add_test(tests, lstm_sums_its_biases);
    tcase_add_test(tests, stacks_directions_and_projection);
    tcase_add_test(tests, nonlinearity_is_asked_for);
    tcase_add_test(tests, order_follows_the_shapes);
    tcase_add_test(tests, numbers_in_names_are_an_order);
    tcase_add_test(tests, two_orders_are_told);
    tcase_add_test(tests, a_matrix_alone_may_be_two_things);
    tcase_add_test(tests, what_stands_between_linears_is_asked_for);
    tcase_add_test(tests, dropout_stands_between_layers);
    tcase_add_loop_test(tests, refusals, 0, (int)(sizeof refused / sizeof *refused));
    tcase_add_test(tests, rows_that_are_no_cell);
    tcase_add_test(tests, keys_that_nothing_is_made_of);
    tcase_add_test(tests, content_decides);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
