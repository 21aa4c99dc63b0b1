// The model: shapes by hand, names, and the faults that only show once layers meet.
#include "unit/spec_fixture.h"

#include <math.h>

static const Model *must_build(Read *read)
{
    const Model *model = read->spec ? model_build(read->arena, read->diags, read->spec) : NULL;
    ck_assert_msg(model != NULL, "%s", diagnostics_of(read));
    return model;
}

static void assert_weight(const Layer *layer, int kind, const char *name, int64_t rows,
                          int64_t columns)
{
    const Weight *weight = &layer->weights[kind];
    ck_assert_ptr_nonnull(weight->name);
    ck_assert_str_eq(weight->name, name);
    ck_assert_int_eq(weight->rows, rows);
    ck_assert_int_eq(weight->columns, columns);
    ck_assert_ptr_nonnull(weight->data);
    ck_assert_uint_eq((uintptr_t)weight->data % 64, 0);
}

START_TEST(a_stack_is_flattened)
{
    Read read = read_layers("  - {cell: lstm, units: 5, layers: 2, name: enc}\n"
                            "  - {dropout: 0.2}\n"
                            "  - {dense: 3}\n"
                            "  - {activation: relu}\n",
                            "");
    const Model *model = must_build(&read);
    ck_assert_int_eq(model->layer_count, 4);
    const Layer *layers = model->layers;
    ck_assert_str_eq(layers[0].name, "enc/0");
    ck_assert_str_eq(layers[1].name, "enc/1");
    ck_assert(layers[0].sequence_in && layers[0].sequence_out);
    ck_assert(layers[1].sequence_in && !layers[1].sequence_out);
    ck_assert(!layers[2].sequence_in && !layers[2].sequence_out);
    assert_weight(&layers[0], WEIGHT_W, "enc/0/W", 20, 8);
    assert_weight(&layers[0], WEIGHT_R, "enc/0/R", 20, 5);
    assert_weight(&layers[0], WEIGHT_b, "enc/0/b", 20, 1);
    ck_assert_ptr_null(layers[0].weights[WEIGHT_rb].name);
    assert_weight(&layers[1], WEIGHT_W, "enc/1/W", 20, 5);
    assert_weight(&layers[2], WEIGHT_W, "l2/W", 3, 5);
    assert_weight(&layers[2], WEIGHT_b, "l2/b", 3, 1);
    ck_assert_int_eq(layers[3].kind, LAYER_ACTIVATION);
    ck_assert_int_eq(layers[3].outputs, 3);
    ck_assert_str_eq(layers[3].activation.name, "relu");
    arena_destroy(read.arena);
}
END_TEST

START_TEST(keys_choose_relatives_of_cells)
{
    Read read =
        read_layers("  - {cell: lstm, units: 6, projection: 4, return_sequences: true}\n"
                    "  - {cell: gru, units: 5, reset_after: false, return_sequences: true}\n"
                    "  - {cell: gru, units: 3, return_sequences: true, use_bias: false}\n"
                    "  - {cell: peephole_lstm, units: 2}\n",
                    "");
    const Layer *layers = must_build(&read)->layers;
    ck_assert_str_eq(layers[0].cell->name, "lstmp");
    ck_assert_int_eq(layers[0].outputs, 4);
    assert_weight(&layers[0], WEIGHT_R, "l0/R", 24, 4);
    assert_weight(&layers[0], WEIGHT_P, "l0/P", 4, 6);
    ck_assert_int_eq(layer_domain_size(&layers[0], layers[0].cell->states[0].domain), 4);
    ck_assert_int_eq(layer_domain_size(&layers[0], layers[0].cell->states[1].domain), 6);
    ck_assert_str_eq(layers[1].cell->name, "gru_before");
    assert_weight(&layers[1], WEIGHT_W, "l1/W", 15, 4);
    ck_assert_ptr_null(layers[1].weights[WEIGHT_rb].name);
    ck_assert_str_eq(layers[2].cell->name, "gru");
    ck_assert_ptr_null(layers[2].weights[WEIGHT_b].name);
    ck_assert_ptr_null(layers[2].weights[WEIGHT_rb].name);
    assert_weight(&layers[3], WEIGHT_p, "l3/p", 6, 1);
    arena_destroy(read.arena);
}
END_TEST

START_TEST(tokens_go_through_an_embedding)
{
    Read read = read_text("rnnc: 1\n"
                          "input: {tokens: 11}\n"
                          "weights: {seed: 7}\n"
                          "layers:\n"
                          "  - {embedding: 3}\n"
                          "  - {cell: gru, units: 4, return_sequences: true}\n"
                          "  - {dense: 11}\n");
    const Model *model = must_build(&read);
    ck_assert(model->tokens);
    ck_assert_int_eq(model->features, 11);
    assert_weight(&model->layers[0], WEIGHT_E, "l0/E", 11, 3);
    assert_weight(&model->layers[1], WEIGHT_W, "l1/W", 12, 3);
    assert_weight(&model->layers[1], WEIGHT_rb, "l1/rb", 4, 1);
    ck_assert(model->layers[2].sequence_out);
    arena_destroy(read.arena);
}
END_TEST

START_TEST(drawn_weights_are_within_pytorchs_bound)
{
    Read read = read_layers("  - {cell: lstm, units: 16}\n", "");
    const Weight *R = &must_build(&read)->layers[0].weights[WEIGHT_R];
    float largest = 0, sum = 0;
    for (int64_t i = 0; i < R->rows * R->columns; i++) {
        largest = fmaxf(largest, fabsf(R->data[i]));
        sum += R->data[i];
    }
    ck_assert(largest <= 0.25F && largest > 0.24F); // 1/sqrt(16), 1024 draws
    ck_assert(fabsf(sum) < 0.25F * 32 * 4);         // 4 standard deviations and more
    arena_destroy(read.arena);
}
END_TEST

START_TEST(the_trained_model_loads)
{
    Arena *arena = arena_create();
    Diags *diags = diags_create(arena);
    const Spec *spec = spec_read(arena, diags, RNNC_SOURCE_DIR "/specs/shakespeare.yaml");
    ck_assert_ptr_nonnull(spec);
    const Model *model = model_build(arena, diags, spec);
    ck_assert_ptr_nonnull(model);
    int64_t elems = 0;
    for (int i = 0; i < model->layer_count; i++)
        for (int kind = 0; kind < WEIGHT_COUNT; kind++)
            elems += model->layers[i].weights[kind].rows * model->layers[i].weights[kind].columns;
    // 925,313 of the file, less the two of three gates whose biases are added up
    ck_assert_int_eq(elems, 925313 - 2 * 512);
    arena_destroy(arena);
}
END_TEST

static const struct {
    const char *layers, *rest, *says;
} faults[] = {
    {"  - {cell: lstm, units: 4}\n  - {cell: gru, units: 4}\n", "", ":6:12: error: "},
    {"  - {cell: lstm, units: 4}\n  - {cell: gru, units: 4}\n", "",
     "help: add return_sequences: true to 'l0'"},
    {"  - {dropout: 0.5}\n", "", "[E0502]"},
    {"  - {embedding: 4}\n", "", ":5:6: error: an embedding must be the first layer"},
    {"  - {cell: lstm, units: 4, reset_after: false}\n", "", ":5:41: error: reset_after has no"},
    {"  - {cell: rnn, units: 4, reset_after: true}\n", "", "[E0505]"},
    {"  - {cell: gru, units: 4, projection: 2}\n", "", ":5:39: error: the cell 'gru' has no proj"},
    {"  - {cell: lstmp, units: 4}\n", "", ":5:12: error: the cell 'lstmp' projects its output"},
    {"  - {cell: lstm, units: 2147483647}\n", "", ":5:25: error: 'l0/R' would have more than 2^40"},
    {"  - {cell: lstmm, units: 4}\n", "", ":5:12: error: "},
    {"  - {cell: lstm, units: 4, activation: tahn}\n", "", "did you mean 'tanh'?"},
};

START_TEST(faults_are_seen_at_their_place)
{
    Read read = read_layers(faults[_i].layers, faults[_i].rest);
    ck_assert_ptr_nonnull(read.spec);
    ck_assert_ptr_null(model_build(read.arena, read.diags, read.spec));
    assert_says(&read, faults[_i].says);
    ck_assert_uint_eq(diags_error_count(read.diags), 1);
    arena_destroy(read.arena);
}
END_TEST

START_TEST(keys_without_effect_are_named)
{
    Read read = read_layers("  - {cell: rnn, units: 4, recurrent_activation: relu, "
                            "output_activation: relu, return_sequences: true}\n"
                            "  - {cell: lstm, units: 4, activation: relu, "
                            "recurrent_activation: relu, output_activation: relu}\n",
                            "");
    must_build(&read);
    assert_says(&read, ":5:27: warning: 'recurrent_activation' has no effect: the cell 'rnn'");
    assert_says(&read, ":5:55: warning: 'output_activation' has no effect");
    ck_assert_ptr_null(strstr(diagnostics_of(&read), ":6:"));
    arena_destroy(read.arena);
}
END_TEST

START_TEST(tokens_need_an_embedding)
{
    Read read = read_text("rnnc: 1\ninput: {tokens: 9}\nlayers: [{dense: 4}]\n");
    ck_assert_ptr_null(model_build(read.arena, read.diags, read.spec));
    assert_says(&read, ":3:11: error: token input must go into an embedding first [E0503]");
    arena_destroy(read.arena);
}
END_TEST

START_TEST(outputs_of_all_steps_are_bounded)
{
    Read read = read_text("rnnc: 1\n"
                          "input: {features: 1, batch: 65536, timesteps: 65536}\n"
                          "layers: [{dense: 257}]\n");
    ck_assert_ptr_null(model_build_shapes(read.arena, read.diags, read.spec));
    assert_says(&read, "the output of 'l0' would have more than 2^40 elements [E0507]");
    arena_destroy(read.arena);
}
END_TEST

START_TEST(text_names_what_is_there)
{
    Read read = read_layers("  - {cell: lstm, units: 4, activation: {leaky_relu: 0.05}}\n", "");
    Text text = {.arena = read.arena};
    model_print(must_build(&read), &text);
    ck_assert_ptr_nonnull(strstr(text_string(&text), "layer l0: lstm 8 -> 4 (last output)\n"
                                                     "  activation leaky_relu(0.05)\n"));
    ck_assert_ptr_nonnull(strstr(text_string(&text), "  weight l0/W [16, 8]\n"));
    ck_assert_ptr_nonnull(strstr(text_string(&text), "  state l0/c [B, 4] starts at 0\n"));
    arena_destroy(read.arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("model");
    TCase *tests = tcase_create("model");
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, a_stack_is_flattened);
    tcase_add_test(tests, keys_choose_relatives_of_cells);
    tcase_add_test(tests, tokens_go_through_an_embedding);
    tcase_add_test(tests, drawn_weights_are_within_pytorchs_bound);
    tcase_add_test(tests, the_trained_model_loads);
    tcase_add_loop_test(tests, faults_are_seen_at_their_place, 0,
                        (int)(sizeof faults / sizeof faults[0]));
    tcase_add_test(tests, keys_without_effect_are_named);
    tcase_add_test(tests, tokens_need_an_embedding);
    tcase_add_test(tests, outputs_of_all_steps_are_bounded);
    tcase_add_test(tests, text_names_what_is_there);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
