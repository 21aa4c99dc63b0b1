// Bidirectional layers, reversed ones, masks and dropout in the model: which layers they become,
// which buffers these read and write, and the tensors that a module shows of them.
#include "unit/spec_fixture.h"

#include "emit/host_tensors.h"

static const Model *must_build(Read *read)
{
    const Model *model =
        read->spec ? model_build_shapes(read->arena, read->diags, read->spec) : NULL;
    ck_assert_msg(model != NULL, "%s", diagnostics_of(read));
    return model;
}

/// What a layer reads and writes, as "name: slot@offset/width -> slot@offset/width".
static void assert_views(const Layer *layer, const char *wanted)
{
    char text[128], second[32] = "";
    if (layer->in2.slot != SLOT_NONE)
        snprintf(second, sizeof second, "+%d", layer->in2.slot);
    snprintf(text, sizeof text, "%s: %d@%d/%d%s -> %d@%d/%d", layer->name, layer->in.slot,
             (int)layer->in.offset, (int)layer->in.width, second, layer->out.slot,
             (int)layer->out.offset, (int)layer->out.width);
    ck_assert_str_eq(text, wanted);
}

START_TEST(concat_writes_parts_of_one_buffer)
{
    Read read = read_layers("  - bidirectional: {layer: {cell: lstm, units: 5, "
                            "return_sequences: true}, backward: {cell: gru, units: 3, "
                            "return_sequences: true}}\n"
                            "    name: enc\n"
                            "  - {dense: 2, name: out}\n",
                            "");
    const Model *model = must_build(&read);
    const Layer *layers = model->layers;
    ck_assert_int_eq(model->layer_count, 3);
    assert_views(&layers[0], "enc/fw: -1@0/8 -> 0@0/8");
    assert_views(&layers[1], "enc/bw: -1@0/8 -> 0@5/8");
    assert_views(&layers[2], "out: 0@0/8 -> -2@0/2");
    ck_assert(!layers[0].reversed && !layers[0].beside);
    ck_assert(layers[1].reversed && layers[1].beside && !layers[1].go_backwards);
    ck_assert_str_eq(layers[0].cell->name, "lstm");
    ck_assert_str_eq(layers[1].cell->name, "gru");
    ck_assert_str_eq(layers[1].weights[WEIGHT_W].name, "enc/bw/W");
    ck_assert_int_eq(layers[1].weights[WEIGHT_W].rows, 9);
    ck_assert_int_eq(layers[2].inputs, 8);
    ck_assert(layers[2].sequence_in && layers[2].sequence_out);
    ck_assert_int_eq(model->slot_count, 1);
    ck_assert_int_eq(model->slot_widths[0], 8);
    arena_destroy(read.arena);
}
END_TEST

START_TEST(other_merges_are_a_layer)
{
    Read read = read_layers("  - {dense: 4, name: in}\n"
                            "  - {bidirectional: {merge: ave, layer: {cell: rnn, units: 3}}, "
                            "name: enc}\n"
                            "  - {dense: 2, name: out}\n",
                            "");
    const Model *model = must_build(&read);
    const Layer *layers = model->layers;
    ck_assert_int_eq(model->layer_count, 5);
    assert_views(&layers[1], "enc/fw: 0@0/4 -> 1@0/3");
    assert_views(&layers[2], "enc/bw: 0@0/4 -> 2@0/3");
    assert_views(&layers[3], "enc: 1@0/3+2 -> 0@0/3");
    assert_views(&layers[4], "out: 0@0/3 -> -2@0/2");
    ck_assert_int_eq(layers[3].kind, LAYER_MERGE);
    ck_assert_int_eq(layers[3].merge, MERGE_AVE);
    ck_assert(!layers[3].sequence_in && !layers[4].sequence_in);
    ck_assert_int_eq(model->slot_count, 3);
    ck_assert_int_eq(model->slot_widths[0], 4);
    arena_destroy(read.arena);
}
END_TEST

START_TEST(a_stack_is_one_pair_after_the_other)
{
    Read read = read_layers("  - {bidirectional: {layer: {cell: lstm, units: 3, layers: 2}}, "
                            "name: enc}\n",
                            "");
    const Model *model = must_build(&read);
    const Layer *layers = model->layers;
    ck_assert_int_eq(model->layer_count, 4);
    assert_views(&layers[0], "enc/0/fw: -1@0/8 -> 0@0/6");
    assert_views(&layers[1], "enc/0/bw: -1@0/8 -> 0@3/6");
    assert_views(&layers[2], "enc/1/fw: 0@0/6 -> -2@0/6");
    assert_views(&layers[3], "enc/1/bw: 0@0/6 -> -2@3/6");
    ck_assert(layers[1].sequence_out && !layers[3].sequence_out);
    // Keras: 0 at masked steps where a sequence is returned
    ck_assert(layers[1].zero_output_for_mask && !layers[3].zero_output_for_mask);
    ck_assert_int_eq(layers[3].stack_index, 1);
    arena_destroy(read.arena);
}
END_TEST

START_TEST(given_keys_hold_within_both_directions)
{
    Read read = read_layers("  - {bidirectional: {layer: {cell: lstm, units: 3, return_sequences: "
                            "true, zero_output_for_mask: false}}}\n"
                            "  - {cell: gru, units: 4, go_backwards: true, zero_output_for_mask: "
                            "true, return_sequences: true}\n"
                            "  - {cell: gru, units: 4, direction: reverse}\n",
                            "");
    const Layer *layers = must_build(&read)->layers;
    ck_assert(!layers[0].zero_output_for_mask && !layers[1].zero_output_for_mask);
    ck_assert(layers[2].reversed && layers[2].go_backwards && layers[2].zero_output_for_mask);
    ck_assert(layers[3].reversed && !layers[3].go_backwards && !layers[3].beside);
    arena_destroy(read.arena);
}
END_TEST

/// Both directions run at once, so none writes what the other reads: its input's draw.
START_TEST(each_direction_draws_of_its_own)
{
    static const char layers_text[] =
        "  - {dropout: 0.1, name: first}\n"
        "  - {bidirectional: {merge: sum, layer: {cell: lstm, units: 3, dropout: 0.2, "
        "recurrent_dropout: 0.3}}, name: enc}\n"
        "  - {dropout: 0.4, name: last}\n";
    Read read = read_layers(layers_text, "compile: {dropout_at_inference: true}\n");
    const Model *model = must_build(&read);
    const Layer *layers = model->layers;
    ck_assert_int_eq(model->layer_count, 7);
    assert_views(&layers[0], "first: -1@0/8 -> 0@0/8");
    assert_views(&layers[1], "enc/fw/dropout: 0@0/8 -> 1@0/8");
    assert_views(&layers[2], "enc/bw/dropout: 0@0/8 -> 2@0/8");
    assert_views(&layers[3], "enc/fw: 1@0/8 -> 0@0/3");
    assert_views(&layers[4], "enc/bw: 2@0/8 -> 3@0/3");
    assert_views(&layers[5], "enc: 0@0/3+3 -> 1@0/3");
    assert_views(&layers[6], "last: 1@0/3 -> -2@0/3");
    ck_assert(layers[4].beside && !layers[2].beside);
    ck_assert(!layers[0].per_sequence && layers[1].per_sequence && !layers[6].per_sequence);
    ck_assert(layers[0].rate == 0.1 && layers[1].rate == 0.2 && layers[6].rate == 0.4);
    ck_assert(layers[3].recurrent_dropout == 0.3 && layers[5].recurrent_dropout == 0);
    const int draws[] = {0, 1, 2, 1, 2, 0, 3};
    for (int i = 0; i < 7; i++)
        ck_assert_int_eq(layers[i].dropout_index, draws[i]);
    arena_destroy(read.arena);
    read = read_layers(layers_text, "");
    model = must_build(&read);
    ck_assert_int_eq(model->layer_count, 3);
    ck_assert(model->layers[0].recurrent_dropout == 0);
    arena_destroy(read.arena);
}
END_TEST

START_TEST(masks_are_layers)
{
    Read read = read_text("rnnc: 1\n"
                          "input: {tokens: 11, layout: time_major}\n"
                          "weights: {seed: 7}\n"
                          "layers:\n"
                          "  - {embedding: {units: 3, mask_zero: true}, name: e}\n"
                          "  - {masking: -2, name: m}\n"
                          "  - {cell: gru, units: 4, name: r}\n");
    const Model *model = must_build(&read);
    ck_assert(model->time_major);
    ck_assert(model->layers[0].mask_zero);
    ck_assert_int_eq(model->layers[1].kind, LAYER_MASKING);
    ck_assert(model->layers[1].mask_value == -2);
    assert_views(&model->layers[0], "e: -1@0/1 -> 0@0/3");
    assert_views(&model->layers[1], "m: 0@0/3 -> 1@0/3");
    assert_silent(&read);
    arena_destroy(read.arena);
}
END_TEST

START_TEST(heads_are_fewer_columns)
{
    Read read = read_layers("  - {cell: gru_before, units: 6, heads: 3, return_sequences: true}\n"
                            "  - {cell: lstm, units: 6, projection: 4, heads: 2, "
                            "return_sequences: true}\n"
                            "  - {cell: indrnn, units: 5, heads: 3}\n",
                            "");
    const Layer *layers = must_build(&read)->layers;
    ck_assert_int_eq(layers[0].weights[WEIGHT_R].rows, 18);
    ck_assert_int_eq(layers[0].weights[WEIGHT_R].columns, 2);
    ck_assert_int_eq(layers[1].weights[WEIGHT_R].columns, 2);
    ck_assert_int_eq(layers[1].weights[WEIGHT_P].columns, 6);
    ck_assert_int_eq(layer_phase_heads(&layers[1], &layers[1].cell->phases[1]), 1);
    ck_assert_int_eq(layer_phase_columns(&layers[1], &layers[1].cell->phases[0]), 2);
    ck_assert_int_eq(layers[2].heads, 1);
    assert_says(&read, ":7:37: warning: 'heads' has no effect: the cell 'indrnn' has no matrix R");
    arena_destroy(read.arena);
}
END_TEST

static void assert_tensors(const Read *read, const Model *model, const char *wanted)
{
    const HostTensors tensors = host_tensors(read->arena, model);
    Text text = {.arena = read->arena};
    for (int i = 0; i < tensors.count && tensors.items[i].layer < 0; i++) {
        const HostTensor *tensor = &tensors.items[i];
        text_addf(&text, "%s:%d:%d", tensor->name, tensor->role, tensor->dtype);
        for (int k = 0; k < tensor->ndim; k++)
            text_addf(&text, "%c%d", k ? ',' : '[', (int)tensor->dims[k]);
        text_add(&text, "] ");
    }
    ck_assert_str_eq(text_string(&text), wanted);
}

/// Roles 0 input, 1 output, 4 mask; dtypes 0 float32, 1 int32, 2 uint8; -1 is B, -2 T.
START_TEST(modules_show_both_outputs_and_the_masks)
{
    Read read = read_layers("  - {bidirectional: {merge: none, layer: {cell: rnn, units: 3, "
                            "return_sequences: true}, backward: {cell: rnn, units: 2, "
                            "return_sequences: true}}}\n",
                            "");
    const Model *model = must_build(&read);
    assert_views(&model->layers[0], "l0/fw: -1@0/8 -> -2@0/3");
    assert_views(&model->layers[1], "l0/bw: -1@0/8 -> -3@0/2");
    ck_assert_int_eq(model->slot_count, 0);
    assert_tensors(&read, model,
                   "x:0:0[-1,-2,8] y/fw:1:0[-1,-2,3] y/bw:1:0[-1,-2,2] lengths:4:1[-1] "
                   "mask:4:2[-1,-2] ");
    arena_destroy(read.arena);
    read = read_text("rnnc: 1\ninput: {tokens: 9, batch: 4, layout: time_major}\nlayers:\n"
                     "  - {embedding: 3}\n  - {bidirectional: {layer: {cell: rnn, units: 2}}}\n");
    assert_tensors(&read, must_build(&read),
                   "x:0:1[-2,4] y:1:0[4,4] lengths:4:1[4] mask:4:2[4,-2] ");
    arena_destroy(read.arena);
    read = read_text("rnnc: 1\ninput: {features: 9, layout: time_major}\nlayers: [{dense: 3}]\n");
    assert_tensors(&read, must_build(&read), "x:0:0[-2,-1,9] y:1:0[-2,-1,3] ");
    arena_destroy(read.arena);
}
END_TEST

static const struct {
    const char *layers, *says;
} faults[] = {
    {"  - {bidirectional: {merge: sum, layer: {cell: rnn, units: 3}, backward: {cell: rnn, units: "
     "2}}}\n",
     ":5:93: error: `merge: sum` of 3 and 2 outputs [E0509]"},
    {"  - {bidirectional: {merge: mul, layer: {cell: lstm, units: 3, projection: 2}, backward: "
     "{cell: lstm, units: 3}}}\n",
     "error: `merge: mul` of 2 and 3 outputs [E0509]"},
    {"  - {bidirectional: {merge: none, layer: {cell: rnn, units: 3}}}\n  - {activation: relu}\n",
     ":5:29: error: `merge: none` must be in the last layer, and 'l1' comes after it [E0218]"},
    {"  - {bidirectional: {merge: none, layer: {cell: rnn, units: 3}}}\n  - {dropout: 0.5}\n",
     ":6:6: note: 'l1' is here"},
    {"  - {cell: gru, units: 4, name: a}\n  - {bidirectional: {layer: {cell: gru, units: 4}}}\n",
     ":6:36: error: a recurrent layer needs a sequence, and 'a' returns its last output only"},
    {"  - {bidirectional: {layer: {cell: gru, units: 4}}, name: a}\n  - {cell: rnn, units: 2}\n",
     "help: add return_sequences: true to 'a'"},
    {"  - {cell: gru, units: 4, heads: 3}\n", ":5:34: error: 3 heads do not divide the 4 units"},
    {"  - {cell: lstm, units: 4, projection: 3, heads: 2}\n",
     ":5:50: error: 2 heads do not divide the 3 values that R multiplies [E0510]"},
    {"  - {cell: gru, units: 4, name: a}\n  - {masking: 0}\n",
     ":6:6: error: masking needs a sequence, and 'a' returns its last output only [E0511]"},
    {"  - {bidirectional: {layer: {cell: gruu, units: 4}}}\n", "unknown cell 'gruu'"},
};

START_TEST(faults_are_seen_at_their_place)
{
    Read read = read_layers(faults[_i].layers, "");
    ck_assert_msg(read.spec != NULL, "%s", diagnostics_of(&read));
    ck_assert_ptr_null(model_build_shapes(read.arena, read.diags, read.spec));
    assert_says(&read, faults[_i].says);
    ck_assert_uint_eq(diags_error_count(read.diags), 1);
    arena_destroy(read.arena);
}
END_TEST

/// Appends one layer of a random kind that goes on with a sequence.
static void add_random_layer(Text *text, int index, unsigned *random)
{
    static const char *const merges[] = {"concat", "sum", "mul", "ave"};
    static const char *const drops[] = {"", ", dropout: 0.5"};
    const int units = 1 + rand_r(random) % 9, depth = 1 + rand_r(random) % 3;
    const char *drop = drops[rand_r(random) % 2];
    switch (rand_r(random) % 4) {
    case 0:
        text_addf(text, "  - {dense: %d, name: n%d}\n", units, index);
        break;
    case 1:
        text_addf(text, "  - {dropout: 0.5, name: n%d}\n", index);
        break;
    case 2:
        text_addf(text,
                  "  - {cell: rnn, units: %d, layers: %d, return_sequences: true%s, name: n%d}\n",
                  units, depth, drop, index);
        break;
    default:
        text_addf(text,
                  "  - {bidirectional: {merge: %s, layer: {cell: rnn, units: %d, layers: %d, "
                  "return_sequences: true%s}}, name: n%d}\n",
                  merges[rand_r(random) % 4], units, depth, drop, index);
    }
}

enum { SLOTS_MAX = 8 };

/// Which layer's value lies in a buffer: its name, but that of the whole where both directions
/// write one.
static const char *value_name(const Read *read, const Layer *layer)
{
    const size_t length = strlen(layer->name);
    const bool is_part = layer->out.width != layer->outputs && layer->kind == LAYER_CELL;
    return is_part ? arena_copy(read->arena, layer->name, length - 3) : layer->name;
}

/// The value that layer `index` is to read, told from names alone.
static const char *wanted_name(const Read *read, const Model *model, int index)
{
    const Layer *layer = &model->layers[index];
    const char *base = layer->name, *dropout = arena_format(read->arena, "%s/dropout", base);
    size_t length = strlen(base);
    for (int i = 0; i < index; i++)
        if (strcmp(model->layers[i].name, dropout) == 0)
            return dropout;
    if (length > 8 && strcmp(base + length - 8, "/dropout") == 0)
        length -= 8;
    if (length > 3 &&
        (strncmp(base + length - 3, "/fw", 3) == 0 || strncmp(base + length - 3, "/bw", 3) == 0))
        length -= 3;
    int first = index;
    while (first > 0 && strncmp(model->layers[first - 1].name, base, length) == 0 &&
           strchr("/", model->layers[first - 1].name[length]))
        first--;
    return first ? value_name(read, &model->layers[first - 1]) : "x";
}

static void assert_reads(const View *view, const char *const held[], const char *wanted)
{
    ck_assert_int_lt(view->slot, SLOTS_MAX);
    ck_assert_str_eq(view->slot < 0 ? "x" : held[view->slot], wanted);
}

/// Walks the layers as a session would: each finds in its buffer what it is to read, also where two
/// run at once.
START_TEST(buffers_hold_what_is_read)
{
    unsigned random = (unsigned)_i;
    Text text = {.arena = arena_create()};
    for (int i = 0, count = 1 + rand_r(&random) % 6; i < count; i++)
        add_random_layer(&text, i, &random);
    Read read = read_layers(text_string(&text), "compile: {dropout_at_inference: true}\n");
    const Model *model = must_build(&read);
    const char *held[SLOTS_MAX] = {NULL};
    for (int i = 0; i < model->layer_count; i++) {
        const Layer *layer = &model->layers[i];
        if (layer->kind == LAYER_MERGE) {
            assert_reads(&layer->in, held, arena_format(read.arena, "%s/fw", layer->name));
            assert_reads(&layer->in2, held, arena_format(read.arena, "%s/bw", layer->name));
            ck_assert_int_ne(layer->in2.slot, layer->out.slot);
        } else {
            assert_reads(&layer->in, held, wanted_name(&read, model, i));
        }
        ck_assert_int_ne(layer->in.slot, layer->out.slot);
        if (layer->beside)
            ck_assert_int_ne(layer[-1].in.slot, layer->out.slot);
        if (layer->out.slot >= 0) {
            ck_assert_int_le(layer->out.width, model->slot_widths[layer->out.slot]);
            held[layer->out.slot] = value_name(&read, layer);
        }
    }
    ck_assert_int_eq(model->layers[model->layer_count - 1].out.slot, SLOT_Y);
    arena_destroy(read.arena);
    arena_destroy(text.arena);
}
END_TEST

START_TEST(masks_that_nothing_sees_are_named)
{
    Read read = read_layers("  - {cell: gru, units: 4, return_sequences: true}\n"
                            "  - {masking: 0, name: m}\n  - {dense: 3}\n",
                            "");
    must_build(&read);
    assert_says(&read, ":6:6: warning: no recurrent layer comes after the mask of 'm' [W0502]");
    arena_destroy(read.arena);
    read = read_layers("  - {masking: 0}\n  - {cell: gru, units: 4}\n", "");
    must_build(&read);
    assert_silent(&read);
    arena_destroy(read.arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("directions");
    TCase *tests = tcase_create("directions");
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, concat_writes_parts_of_one_buffer);
    tcase_add_test(tests, other_merges_are_a_layer);
    tcase_add_test(tests, a_stack_is_one_pair_after_the_other);
    tcase_add_test(tests, given_keys_hold_within_both_directions);
    tcase_add_test(tests, each_direction_draws_of_its_own);
    tcase_add_test(tests, masks_are_layers);
    tcase_add_test(tests, heads_are_fewer_columns);
    tcase_add_test(tests, modules_show_both_outputs_and_the_masks);
    tcase_add_loop_test(tests, faults_are_seen_at_their_place, 0,
                        (int)(sizeof faults / sizeof faults[0]));
    tcase_add_loop_test(tests, buffers_hold_what_is_read, 1, 300);
    tcase_add_test(tests, masks_that_nothing_sees_are_named);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
