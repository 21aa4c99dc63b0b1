// The spec's reader: what is read into which field, and where each fault is seen.
#include "unit/spec_fixture.h"

START_TEST(a_full_spec_is_read)
{
    Read read = read_text("rnnc: 1\n"
                          "name: full\n"
                          "input: {features: 8, batch: 2, timesteps: any}\n"
                          "layers:\n"
                          "  - cell: gru\n"
                          "    units: 16\n"
                          "    activation: {affine: [0.5, -2]}\n"
                          "    recurrent_activation: {expr: \"x > 0 ? x : 0.05*x\"}\n"
                          "    use_bias: false\n"
                          "    return_sequences: true\n"
                          "    return_state: true\n"
                          "    stateful: true\n"
                          "    reset_after: false\n"
                          "    layers: 3\n"
                          "    dropout: 0.25\n"
                          "    recurrent_dropout: 0.5\n"
                          "    name: enc\n"
                          "  - {dropout: 0.2}\n"
                          "  - {dense: {units: 4, activation: relu, use_bias: false}}\n"
                          "  - {activation: Tanh}\n"
                          "compile: {precision: bfloat16, variant: cpu, unroll: 4, cudnn: never, "
                          "targets: [sm_90, cpu]}\n"
                          "weights: {file: w.safetensors, convention: pytorch, prefix: net.}\n");
    assert_silent(&read);
    const Spec *spec = read.spec;
    ck_assert_ptr_nonnull(spec);
    ck_assert_str_eq(spec->name, "full");
    ck_assert_int_eq(spec->features.value, 8);
    ck_assert_int_eq(spec->tokens.value, 0);
    ck_assert(spec->batch.value == 2 && !spec->batch.any);
    ck_assert(spec->timesteps.any && spec->timesteps.value == 0);
    ck_assert_int_eq(spec->layer_count, 4);
    const SpecLayer *gru = &spec->layers[0];
    ck_assert_int_eq(gru->kind, SPEC_CELL);
    ck_assert_str_eq(gru->cell.text, "gru");
    ck_assert_int_eq(gru->units.value, 16);
    ck_assert_str_eq(gru->activation.name, "affine");
    ck_assert_int_eq(gru->activation.parameter_count, 2);
    ck_assert(gru->activation.parameters[0] == 0.5 && gru->activation.parameters[1] == -2);
    ck_assert_str_eq(gru->recurrent_activation.expression, "x > 0 ? x : 0.05*x");
    ck_assert(!gru->use_bias.value && gru->return_sequences.value && gru->return_state.value);
    ck_assert(gru->stateful.value && !gru->reset_after.value);
    ck_assert_int_eq(gru->layers.value, 3);
    ck_assert(gru->dropout.value == 0.25 && gru->recurrent_dropout.value == 0.5);
    ck_assert_str_eq(gru->name.text, "enc");
    ck_assert_int_eq(spec->layers[1].kind, SPEC_DROPOUT);
    ck_assert(spec->layers[1].dropout.value == 0.2);
    ck_assert_int_eq(spec->layers[2].kind, SPEC_DENSE);
    ck_assert_int_eq(spec->layers[2].units.value, 4);
    ck_assert(!spec->layers[2].use_bias.value);
    ck_assert_str_eq(spec->layers[2].name.text, "l2");
    ck_assert_int_eq(spec->layers[3].kind, SPEC_ACTIVATION);
    ck_assert_str_eq(spec->layers[3].activation.name, "Tanh");
    ck_assert_int_eq(spec->precision, PRECISION_BFLOAT16);
    ck_assert_str_eq(spec->variant.text, "cpu");
    ck_assert(!spec->unroll.is_auto && spec->unroll.factor == 4);
    ck_assert_int_eq(spec->cudnn, CUDNN_NEVER);
    ck_assert_int_eq(spec->target_count, 2);
    ck_assert_str_eq(spec->targets[0].text, "sm_90");
    ck_assert_str_eq(spec->weights_file.text, "w.safetensors");
    ck_assert_int_eq(spec->convention, CONVENTION_PYTORCH);
    ck_assert_str_eq(spec->weights_prefix.text, "net.");
    arena_destroy(read.arena);
}
END_TEST

START_TEST(defaults_are_keras_ones)
{
    Read read = read_layers("  - {cell: lstm, units: 4}\n  - {dense: 2}\n", "");
    assert_silent(&read);
    const SpecLayer *lstm = &read.spec->layers[0], *dense = &read.spec->layers[1];
    ck_assert_str_eq(lstm->activation.name, "tanh");
    ck_assert_ptr_null(lstm->activation.span.source);
    ck_assert_str_eq(lstm->recurrent_activation.name, "sigmoid");
    ck_assert_ptr_null(lstm->output_activation.name);
    ck_assert(lstm->use_bias.value && lstm->reset_after.value);
    ck_assert(!lstm->return_sequences.value && !lstm->return_state.value && !lstm->stateful.value);
    ck_assert_ptr_null(lstm->use_bias.span.source);
    ck_assert_int_eq(lstm->layers.value, 1);
    ck_assert_int_eq(lstm->projection.value, 0);
    ck_assert_str_eq(dense->activation.name, "linear");
    ck_assert(dense->use_bias.value);
    ck_assert(read.spec->batch.any && read.spec->timesteps.any);
    ck_assert_int_eq(read.spec->precision, PRECISION_FLOAT32);
    ck_assert(read.spec->unroll.is_auto);
    ck_assert_int_eq(read.spec->cudnn, CUDNN_AUTO);
    ck_assert_str_eq(read.spec->variant.text, "auto");
    ck_assert_int_eq(read.spec->target_count, 0);
    ck_assert_int_eq(read.spec->seed.value, 1);
    ck_assert_int_eq((int)strncmp(read.spec->name, "rnnc_spec_", 10), 0);
    arena_destroy(read.arena);
}
END_TEST

START_TEST(spans_are_of_scalars_and_in_bytes)
{
    Read read = read_text("\xEF\xBB\xBFrnnc: 1\r\n"
                          "input: {features: 8}\r\n"
                          "weights: {seed: 1}\r\n"
                          "layers:\r\n"
                          "  - {name: ok, cell: \"\xC3\xA9.cell\", units: 12, activation: "
                          "{leaky_relu: 0.05}}\r\n"
                          "  - cell: lstm\r\n"
                          "    activation:\r\n"
                          "      relu6\r\n"
                          "    units: 4\r\n");
    assert_silent(&read);
    const SpecLayer *layer = &read.spec->layers[0];
    ck_assert_int_eq(layer->span.line, 5);
    ck_assert_int_eq(layer->span.column, 6);
    ck_assert_int_eq(layer->cell.span.column, 22);
    ck_assert_int_eq(layer->cell.span.length, 9);
    ck_assert_int_eq(layer->units.span.column, 40);
    ck_assert_int_eq(layer->units.span.length, 2);
    ck_assert_int_eq(layer->activation.span.column, 44);
    ck_assert_int_eq(layer->activation.span.length, 30);
    ck_assert_int_eq(layer->activation.value_span.column, 56);
    ck_assert_int_eq(layer->activation.value_span.length, 18);
    ck_assert_int_eq(read.spec->layers[1].activation.value_span.line, 8);
    ck_assert_int_eq(read.spec->layers[1].units.span.line, 9);
    arena_destroy(read.arena);
}
END_TEST

/// A layer list (over 8 features) and what has to be said of it.
static const struct {
    const char *layers, *rest, *says;
} faults[] = {
    {"  - {cell: lstm, hiden: 8, units: 4}\n", "", ":5:18: error: unknown key 'hiden' in layer 0"},
    {"  - {cell: lstm, unist: 4}\n", "", "help: did you mean 'units'?"},
    {"  - {cell: lstm, hidden_size: 4}\n", "", "help: did you mean 'units'?"},
    {"  - {cell: lstm}\n", "", ":5:6: error: key 'units' is missing in layer 0 [E0202]"},
    {"  - {cell: lstm, units: 0}\n", "", ":5:25: error: 'units' in layer 0 is 0: out of range"},
    {"  - {cell: lstm, units: -1}\n", "", "is -1: out of range [E0203]"},
    {"  - {cell: lstm, units: 1099511627776}\n", "", "is 1099511627776: out of range [E0203]"},
    {"  - {dense: 99999999999999999999999}\n", "", ":5:13: error: 'dense' in layer 0 is 9999"},
    {"  - {dense: .nan}\n", "", "takes a whole number, not '.nan' [E0201]"},
    {"  - {dense: 8.0}\n", "", "takes a whole number, not '8.0' [E0201]"},
    {"  - {dense: 010}\n", "", "takes a whole number, not '010' [E0201]"},
    {"  - {dense: \"8\"}\n", "", "takes a whole number, not the text \"8\" [E0201]"},
    {"  - {dense: [8]}\n", "", "takes a whole number, not a list [E0201]"},
    {"  - {dense: }\n", "", ":5:6: error: 'dense' in layer 0 takes a whole number, not nothing"},
    {"  - {dropout: 1}\n", "", ":5:15: error: 'dropout' in layer 0 is 1: out of range [E0203]"},
    {"  - {dropout: -0.1}\n", "", "is -0.1: out of range [E0203]"},
    {"  - {dropout: .nan}\n", "", "is .nan: out of range [E0203]"},
    {"  - {dropout: high}\n", "", "takes a number, not 'high' [E0201]"},
    {"  - {cell: lstm, units: 4, use_bias: yes}\n", "", "takes true or false, not 'yes' [E0201]"},
    {"  - {cell: lstm, units: 4, layers: 1001}\n", "", "a whole number from 1 to 1000"},
    {"  - {cell: lstm, units: 4, units: 5}\n", "", ":5:28: error: key 'units' is given twice"},
    {"  - {cell: lstm, units: 4, dense: 5}\n", "", "'cell' and 'dense' in layer 0"},
    {"  - {dense: 4, activation: relu}\n", "", "help: or put the key inside: `dense: {units"},
    {"  - {units: 4}\n", "", ":5:6: error: nothing in layer 0 says what kind of layer it is"},
    {"  - {dnse: 4}\n", "", "help: did you mean 'dense'?"},
    {"  - dense\n", "", ":5:5: error: layer 0 is a mapping, not 'dense' [E0201]"},
    {"  - {dense: 4, units: 4}\n", "", "key 'units' has no meaning in layer 0 [E0209]"},
    {"  - {dense: 4, name: a}\n  - {dense: 4, name: a}\n", "", ":6:22: error: two layers have"},
    {"  - {dense: 4, name: l1}\n  - {dense: 4}\n", "", ":5:22: error: two layers have the name"},
    {"  - {dense: 4, name: a/b}\n", "", "'a/b' cannot be a name [E0213]"},
    {"  - {activation: [tanh]}\n", "", "'activation' in layer 0 cannot be a list [E0215]"},
    {"  - {activation: {affine: [1, .inf]}}\n", "", ":5:31: error: a parameter of an activation"},
    {"  - {activation: {affine: [1, 2, 3, 4, 5]}}\n", "", "[E0215]"},
    {"  - {activation: {a: 1, b: 2}}\n", "", "cannot be a mapping [E0215]"},
    {"  - {activation: null}\n", "", "cannot be nothing [E0215]"},
    {"  - {dense: 4}\n", "compile: {precision: float61}\n", "did you mean 'float16'?"},
    {"  - {dense: 4}\n", "compile: {cudnn: maybe}\n", "'cudnn' cannot be 'maybe' [E0207]"},
    {"  - {dense: 4}\n", "compile: {targets: [cpu, gpu]}\n", "'gpu' is not a target [E0214]"},
    {"  - {dense: 4}\n", "compile: {targets: [cpu, cpu]}\n", "target 'cpu' is named twice"},
    {"  - {dense: 4}\n", "compile: {targets: cpu}\n", "write `targets: [cpu, sm_90]`"},
    {"  - {dense: 4}\n", "compile: {unroll: true}\n", ":6:19: error: `unroll: true` needs a fixed"},
    {"  - {cell: gru, units: 4, clip: 0}\n", "", ":5:33: error: 'clip' in layer 0 is 0: out of"},
    {"  - {cell: gru, units: 4, clip: .inf}\n", "", "is .inf: out of range [E0203]"},
    {"  - {cell: gru, units: 4, clip: x}\n", "",
     "'clip' in layer 0 takes a number, not 'x' [E0201]"},
    {"  - {cell: gru, units: 4, heads: 0}\n", "", "'heads' in layer 0 is 0: out of range"},
    {"  - {cell: gru, units: 4, zoneout: 1.1}\n", "", ":5:36: error: 'zoneout' in layer 0 is 1.1"},
    {"  - {cell: gru, units: 4, zoneout: {h: -0.1}}\n", "",
     ":5:40: error: 'zoneout: h' in layer 0"},
    {"  - {cell: gru, units: 4, zoneout: [0.1]}\n", "", "a number, or one for each state, not a"},
    {"  - {cell: gru, units: 4, zoneout: {}}\n", "", "a number, or one for each state, not a"},
    {"  - {masking: .nan}\n", "", "'masking' in layer 0 is .nan: out of range"},
    {"  - {masking: 1e39}\n", "", "'masking' in layer 0 is 1e39: out of range"},
    {"  - {masking: }\n", "", "'masking' in layer 0 takes a number, not nothing"},
    {"  - {cell: gru, units: 4, direction: backward}\n", "", "'direction' cannot be 'backward'"},
    {"  - {cell: gru, units: 4, stateful: true}\n", "", ":5:37: error: `stateful: true` needs a"},
    {"  - {cell: gru, units: 4, go_backwards: true, direction: reverse}\n", "",
     ":5:58: error: `direction: reverse` and `go_backwards: true` exclude each other [E0217]"},
    {"  - {bidirectional: 4}\n", "", ":5:21: error: 'bidirectional' takes a mapping, not '4'"},
    {"  - {bidirectional: {merge: sum}}\n", "",
     "key 'layer' is missing in `bidirectional` in layer"},
    {"  - {bidirectional: {layer: gru}}\n", "",
     ":5:29: error: 'layer' takes a cell layer, not 'gru'"},
    {"  - {bidirectional: {layer: {cell: gru}}}\n", "", "missing in `layer` in `bidirectional` in"},
    {"  - {bidirectional: {merge: add, layer: {cell: gru, units: 4}}}\n", "",
     "'merge' cannot be 'add' [E0207]"},
    {"  - {bidirectional: {layer: {cell: gru, units: 4}}, merge: sum}\n", "",
     "help: 'merge' is a key of `bidirectional`"},
    {"  - {bidirectional: {layer: {cell: gru, units: 4, name: a}}}\n", "",
     ":5:51: error: key 'name' has no meaning in `layer` in `bidirectional` in layer 0 [E0209]"},
    {"  - {bidirectional: {layer: {cell: gru, units: 4, go_backwards: true}}}\n", "",
     ":5:65: error: `go_backwards: true` has no meaning within `bidirectional` [E0217]"},
    {"  - {bidirectional: {layer: {cell: gru, units: 4}, backward: {cell: gru, units: 4, "
     "direction: "
     "reverse}}}\n",
     "", ":5:95: error: `direction: reverse` has no meaning within `bidirectional` [E0217]"},
    {"  - {bidirectional: {layer: {cell: gru, units: 4, return_sequences: true}, backward: {cell: "
     "gru, units: 4}}}\n",
     "", ":5:87: error: 'return_sequences' of `layer` and `backward` differ [E0218]"},
    {"  - {bidirectional: {layer: {cell: gru, units: 4, layers: 2}, backward: {cell: gru, units: "
     "4}}}\n",
     "", "'layers' of `layer` and `backward` differ [E0218]"},
    {"  - {bidirectional: {merge: none, layer: {cell: gru, units: 4, layers: 2}}}\n", "",
     ":5:29: error: `merge: none` leaves nothing for the next layer of the stack [E0218]"},
    {"  - {dense: 4}\n", "compile: {unroll: some}\n", "takes true, false, auto or a whole number"},
    {"  - {dense: 4}\n", "compile: fast\n", ":6:10: error: 'compile' takes a mapping, not 'fast'"},
};

START_TEST(faults_are_seen_at_their_place)
{
    Read read = read_layers(faults[_i].layers, faults[_i].rest);
    ck_assert_ptr_null(read.spec);
    assert_says(&read, faults[_i].says);
    ck_assert_uint_eq(diags_error_count(read.diags), 1);
    ck_assert_int_eq(diags_exit_code(read.diags), 1);
    arena_destroy(read.arena);
}
END_TEST

START_TEST(mode_is_read)
{
    Read read = read_layers("  - {dense: 4}\n", "compile: {mode: training}\n");
    assert_silent(&read);
    ck_assert_int_eq(read.spec->mode, MODE_TRAINING);
    arena_destroy(read.arena);
    read = read_layers("  - {dense: 4}\n", "compile: {mode: inference}\n");
    assert_silent(&read);
    ck_assert_int_eq(read.spec->mode, MODE_INFERENCE);
    arena_destroy(read.arena);
}
END_TEST

START_TEST(sequence_keys_are_read)
{
    Read read = read_text("rnnc: 1\n"
                          "input: {tokens: 9, batch: 2, layout: time_major}\n"
                          "layers:\n"
                          "  - {embedding: {units: 4, mask_zero: true}}\n"
                          "  - {masking: -1.5}\n"
                          "  - {cell: lstm, units: 4, direction: reverse, clip: 3.5, heads: 2, "
                          "input_forget: true, zoneout: {h: 0.1, c: 1}, "
                          "zero_output_for_mask: true, return_sequences: true}\n"
                          "  - {cell: gru, units: 4, go_backwards: true, zoneout: 0.25, "
                          "return_sequences: true}\n"
                          "compile: {dropout_at_inference: true}\n"
                          "weights: {file: w, convention: keras}\n");
    assert_silent(&read);
    const Spec *spec = read.spec;
    ck_assert_ptr_nonnull(spec);
    ck_assert_int_eq(spec->layout, LAYOUT_TIME_MAJOR);
    ck_assert(spec->dropout_at_inference.value);
    ck_assert_int_eq(spec->convention, CONVENTION_KERAS);
    ck_assert(spec->layers[0].mask_zero.value);
    ck_assert_int_eq(spec->layers[1].kind, SPEC_MASKING);
    ck_assert(spec->layers[1].mask_value.value == -1.5);
    const SpecLayer *lstm = &spec->layers[2], *gru = &spec->layers[3];
    ck_assert_int_eq(lstm->direction, DIRECTION_REVERSE);
    ck_assert_int_eq(lstm->direction_span.line, 6);
    ck_assert(lstm->clip.value == 3.5 && lstm->input_forget.value);
    ck_assert(lstm->zero_output_for_mask.value && !lstm->go_backwards.value);
    ck_assert_int_eq(lstm->heads.value, 2);
    ck_assert_int_eq(lstm->zoneout_count, 2);
    ck_assert_str_eq(lstm->zoneouts[1].state, "c");
    ck_assert(lstm->zoneouts[0].rate == 0.1 && lstm->zoneouts[1].rate == 1);
    ck_assert_int_eq(lstm->zoneouts[1].span.column, 107);
    ck_assert(gru->go_backwards.value && gru->direction == DIRECTION_FORWARD);
    ck_assert_int_eq(gru->heads.value, 1);
    ck_assert(gru->clip.value == 0);
    ck_assert_int_eq(gru->zoneout_count, 1);
    ck_assert_ptr_null(gru->zoneouts[0].state);
    ck_assert(gru->zoneouts[0].rate == 0.25);
    arena_destroy(read.arena);
}
END_TEST

START_TEST(both_directions_are_read)
{
    Read read = read_layers("  - bidirectional:\n"
                            "      merge: none\n"
                            "      layer: {cell: lstm, units: 4}\n"
                            "      backward: {cell: gru, units: 5, use_bias: false}\n"
                            "    name: enc\n"
                            "  - {bidirectional: {layer: {cell: rnn, units: 3}}}\n",
                            "");
    assert_silent(&read);
    const SpecLayer *both = &read.spec->layers[0], *like = &read.spec->layers[1];
    ck_assert_int_eq(both->kind, SPEC_BIDIRECTIONAL);
    ck_assert_int_eq(both->merge, MERGE_NONE);
    ck_assert_str_eq(both->forward->cell.text, "lstm");
    ck_assert_str_eq(both->backward->cell.text, "gru");
    ck_assert(both->forward->use_bias.value && !both->backward->use_bias.value);
    ck_assert_str_eq(both->forward->name.text, "enc");
    ck_assert_str_eq(both->backward->name.text, "enc");
    ck_assert_int_eq(like->merge, MERGE_CONCAT);
    ck_assert_int_eq(like->forward->units.value, 3);
    ck_assert_int_eq(like->forward->layers.value, 1);
    ck_assert_ptr_null(like->backward);
    ck_assert_str_eq(like->forward->name.text, "l1");
    arena_destroy(read.arena);
}
END_TEST

/// Whole files and what has to be said of them.
static const struct {
    const char *text, *says;
} files[] = {
    {"", "error: file is empty [E0109]"},
    {"# nothing\n", "error: file is empty [E0109]"},
    {"- a\n", ":1:1: error: a spec is a mapping, not a list [E0201]"},
    {"rnnc: 1\ninput:\n\tfeatures: 8\n", ":3:1: error: found character"},
    {"rnnc: [1\n", "[E0101]"},
    {"rnnc: 1\n---\nrnnc: 1\n", ":3:1: error: a second document"},
    {"rnnc: &a 1\n", ":1:7: error: a spec has no anchors and aliases [E0103]"},
    {"rnnc: *a\n", ":1:7: error: a spec has no anchors and aliases [E0103]"},
    {"rnnc: !!int 1\n", "[E0107]"},
    {"[1]: 1\n", ":1:1: error: a key is a word"},
    {"rnnc: 1\nname: caf\xE9\n", "[E0105]"},
    {"rnnc: 1\nname: \"a*/b\"\ninput: {features: 1}\nlayers: [{dense: 1}]\n", ":2:7: error: "},
    {"rnnc: 2\ninput: {features: 1}\nlayers: [{dense: 1}]\n", ":1:7: error: schema version 2"},
    {"rnnc: 1\ninput: {}\nlayers: [{dense: 1}]\n", "neither 'features' nor 'tokens' [E0202]"},
    {"rnnc: 1\ninput: {features: 1, tokens: 2}\nlayers: [{dense: 1}]\n", ":2:22: error: 'tokens'"},
    {"rnnc: 1\ninput: {features: 1}\nlayers: []\n", ":3:9: error: 'layers' takes at least one"},
    {"input: {features: 1}\nlayers: [{dense: 1}]\n", "key 'rnnc' is missing at the top level"},
    {"rnnc: 1\ninput: {features: 1}\nlayers: [{dense: 1}]\nweights: {file: a}\n",
     ":4:11: error: the weights file has no 'convention' [E0202]"},
    {"rnnc: 1\ninput: {features: 1}\nlayers: [{dense: 1}]\nweights: {seed: 1, prefix: a}\n",
     ":4:20: error: 'prefix' has no effect without 'file' [E0211]"},
    {"rnnc: 1\ninput: {features: 1}\nlayers: [{dense: 1}]\n"
     "weights: {file: a, convention: pytorch, seed: 1}\n",
     ":4:41: error: 'seed' has no effect beside 'file' [E0211]"},
};

START_TEST(files_that_are_no_spec)
{
    Read read = read_text(files[_i].text);
    ck_assert_ptr_null(read.spec);
    assert_says(&read, files[_i].says);
    arena_destroy(read.arena);
}
END_TEST

START_TEST(deep_nesting_ends_early)
{
    static char text[20000];
    memset(text, '[', sizeof text);
    Read read = read_bytes(text, sizeof text);
    ck_assert_ptr_null(read.spec);
    assert_says(&read, ":1:33: error: nested more than 32 deep [E0106]");
    arena_destroy(read.arena);
}
END_TEST

START_TEST(faults_are_collected)
{
    Read read = read_layers("  - {cell: lstm, units: 0, dropout: 2}\n  - {dense: -1}\n",
                            "compile: {unroll: x, cudnn: y}\n");
    ck_assert_uint_eq(diags_error_count(read.diags), 5);
    arena_destroy(read.arena);
}
END_TEST

START_TEST(missing_weights_are_noted)
{
    Read read = read_text("rnnc: 1\ninput: {features: 1}\nlayers: [{dense: 1}]\n");
    ck_assert_ptr_nonnull(read.spec);
    assert_says(&read, "note: no `weights`: they are drawn from seed 0 [N0201]");
    arena_destroy(read.arena);
}
END_TEST

START_TEST(the_reference_page_has_every_key)
{
    static const char *const names[] = {"go_backwards", "precision", "timesteps", "mask_zero",
                                        "merge",        "prefix",    "expr"};
    Arena *arena = arena_create();
    Text page = {.arena = arena};
    spec_print_reference(&page);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        ck_assert_msg(strstr(text_string(&page), names[i]), "no %s", names[i]);
    ck_assert_ptr_nonnull(strstr(text_string(&page), "| `units` | whole number from 1 | needed |"));
    arena_destroy(arena);
}
END_TEST

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

int main(void)
{
    Suite *suite = suite_create("spec");
    TCase *tests = tcase_create("spec");
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, a_full_spec_is_read);
    tcase_add_test(tests, defaults_are_keras_ones);
    tcase_add_test(tests, spans_are_of_scalars_and_in_bytes);
    tcase_add_loop_test(tests, faults_are_seen_at_their_place, 0, COUNT(faults));
    tcase_add_test(tests, mode_is_read);
    tcase_add_test(tests, sequence_keys_are_read);
    tcase_add_test(tests, both_directions_are_read);
    tcase_add_loop_test(tests, files_that_are_no_spec, 0, COUNT(files));
    tcase_add_test(tests, deep_nesting_ends_early);
    tcase_add_test(tests, faults_are_collected);
    tcase_add_test(tests, missing_weights_are_noted);
    tcase_add_test(tests, the_reference_page_has_every_key);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
