// What a layer can be asked to do, one network for each: directions and merges, masks of the
// model's own, heads, clips, zoneouts, states, layouts, dropout at inference. Sizes that no tile
// divides.
#include <string.h>

#include "conform/cases.h"

#define RELU                                                                                       \
    {                                                                                              \
        {                                                                                          \
            "relu", 0, 0                                                                           \
        }                                                                                          \
    }

/// `backward` without a cell: as forward.
typedef struct {
    const char *name, *precision; ///< precision NULL: float32
    NetworkCell cell, backward;
    bool last, no_bias, time_major;
} Option;

static const Option options[] = {
    {.name = "reverse-lstm", .cell = {.cell = "lstm", .units = 20, .direction = NETWORK_REVERSE}},
    {.name = "reverse-gru-last",
     .cell = {.cell = "gru", .units = 11, .direction = NETWORK_REVERSE},
     .last = true},
    {.name = "backwards-gru",
     .cell = {.cell = "gru",
              .units = 33,
              .direction = NETWORK_GO_BACKWARDS,
              .zero_output_for_mask = 1}},
    {.name = "backwards-lstm-last",
     .cell = {.cell = "lstm", .units = 9, .direction = NETWORK_GO_BACKWARDS},
     .last = true},
    {.name = "zero-rnn", .cell = {.cell = "rnn", .units = 6, .zero_output_for_mask = 1}},
    {.name = "zero-mgu-last",
     .cell = {.cell = "mgu", .units = 6, .zero_output_for_mask = 1},
     .last = true},
    {.name = "concat-lstm",
     .cell = {.cell = "lstm", .units = 21, .direction = NETWORK_BIDIRECTIONAL}},
    {.name = "concat-lstm-gru",
     .cell = {.cell = "lstm", .units = 12, .direction = NETWORK_BIDIRECTIONAL, .activations = RELU},
     .backward = {.cell = "gru", .units = 7}},
    {.name = "concat-gru-last",
     .cell = {.cell = "gru", .units = 16, .direction = NETWORK_BIDIRECTIONAL},
     .last = true},
    {.name = "concat-lstm-half",
     .precision = "bfloat16",
     .cell = {.cell = "lstm", .units = 40, .direction = NETWORK_BIDIRECTIONAL}},
    {.name = "sum-rnn",
     .cell = {.cell = "rnn",
              .units = 13,
              .direction = NETWORK_BIDIRECTIONAL,
              .merge = NETWORK_SUM,
              .zero_output_for_mask = -1}},
    {.name = "mul-gru-last",
     .cell = {.cell = "gru", .units = 8, .direction = NETWORK_BIDIRECTIONAL, .merge = NETWORK_MUL},
     .last = true},
    {.name = "ave-lstmp",
     .cell = {.cell = "lstmp",
              .units = 14,
              .projection = 5,
              .direction = NETWORK_BIDIRECTIONAL,
              .merge = NETWORK_AVE}},
    {.name = "none-slstm",
     .cell =
         {.cell = "slstm", .units = 6, .direction = NETWORK_BIDIRECTIONAL, .merge = NETWORK_NONE}},
    {.name = "none-cifg-last",
     .cell = {.cell = "cifg_lstm",
              .units = 9,
              .direction = NETWORK_BIDIRECTIONAL,
              .merge = NETWORK_NONE},
     .backward = {.cell = "peephole_lstm", .units = 4},
     .last = true},
    {.name = "heads-lstm", .cell = {.cell = "lstm", .units = 24, .heads = 3}},
    {.name = "heads-gru-half",
     .precision = "float16",
     .cell = {.cell = "gru", .units = 40, .heads = 5}},
    {.name = "heads-gru_before",
     .cell = {.cell = "gru_before", .units = 16, .heads = 4},
     .no_bias = true},
    {.name = "heads-lstmp", .cell = {.cell = "lstmp", .units = 12, .projection = 6, .heads = 2}},
    {.name = "heads-slstm", .cell = {.cell = "slstm", .units = 64, .heads = 4}, .last = true},
    {.name = "clip-lstm", .cell = {.cell = "lstm", .units = 10, .clip = 0.4}},
    {.name = "clip-gru", .cell = {.cell = "gru", .units = 10, .clip = 0.3}},
    {.name = "forget-lstm", .cell = {.cell = "lstm", .units = 17, .input_forget = true}},
    {.name = "forget-peephole",
     .cell = {.cell = "peephole_lstm", .units = 15, .input_forget = true, .clip = 0.7}},
    {.name = "zoneout-lstm", .cell = {.cell = "lstm", .units = 19, .zoneout = {0.1, 0.25}}},
    {.name = "zoneout-gru", .cell = {.cell = "gru", .units = 5, .zoneout = {0.3}}},
    {.name = "zoneout-norm",
     .cell = {.cell = "layer_norm_lstm",
              .units = 18,
              .zoneout = {0.0, 0.2},
              .clip = 1.5,
              .direction = NETWORK_BIDIRECTIONAL}},
    {.name = "stateful-gru_before", .cell = {.cell = "gru_before", .units = 12, .stateful = true}},
    {.name = "time-lstm", .cell = {.cell = "lstm", .units = 22}, .time_major = true},
    {.name = "time-gru-both",
     .precision = "tf32",
     .cell = {.cell = "gru", .units = 12, .direction = NETWORK_BIDIRECTIONAL},
     .time_major = true},
    {.name = "time-last", .cell = {.cell = "rnn", .units = 7}, .time_major = true, .last = true},
};

static const ReferenceActivation defaults[3];

static void add_option(Arena *arena, Cases *cases, const Option *option)
{
    const char *precision = option->precision ? option->precision : "float32";
    Case *of = case_add(arena, cases, option->name, "options", precision, 5);
    of->network.sequences = !option->last;
    of->network.bias = !option->no_bias;
    of->network.time_major = option->time_major;
    of->network.batch = option->cell.stateful ? 5 : 0;
    network_add_recurrent(arena, &of->network, &option->cell,
                          option->backward.cell ? &option->backward : NULL);
    network_draw(arena, &of->network);
}

/// Models that mask steps by themselves.
static void add_masking(Arena *arena, Cases *cases)
{
    Network *masked = &case_add(arena, cases, "masking", "options", "float32", 3)->network;
    network_add_masking(arena, masked, 0.25);
    network_add_cell(arena, masked, "gru", 14, 0, defaults);
    network_add_recurrent(
        arena, masked,
        &(NetworkCell){.cell = "lstm", .units = 6, .direction = NETWORK_BIDIRECTIONAL}, NULL);
    network_draw(arena, masked);

    Network *padded = &case_add(arena, cases, "mask-zero", "options", "float32", 9)->network;
    padded->sequences = false;
    network_add_embedding(arena, padded, 4, true);
    network_add_recurrent(
        arena, padded,
        &(NetworkCell){.cell = "lstm", .units = 10, .direction = NETWORK_GO_BACKWARDS}, NULL);
    network_add_dense(arena, padded, 3, (ReferenceActivation){"softsign", 0, 0});
    network_add_cell(arena, padded, "rnn", 5, 0, defaults);
    network_draw(arena, padded);
}

/// Monte-Carlo dropout: of inputs, of states, between layers.
static void add_dropping(Arena *arena, Cases *cases)
{
    Network *drops = &case_add(arena, cases, "drops", "options", "float32", 6)->network;
    drops->drops = true;
    network_add_recurrent(
        arena, drops,
        &(NetworkCell){.cell = "lstm", .units = 18, .dropout = 0.2, .recurrent_dropout = 0.4},
        NULL);
    network_add_dropout(arena, drops, 0.5);
    network_add_recurrent(arena, drops,
                          &(NetworkCell){.cell = "gru_before",
                                         .units = 9,
                                         .dropout = 0.3,
                                         .recurrent_dropout = 0.25,
                                         .direction = NETWORK_BIDIRECTIONAL,
                                         .merge = NETWORK_SUM},
                          NULL);
    network_draw(arena, drops);

    Network *heads = &case_add(arena, cases, "drops-heads", "options", "bfloat16", 6)->network;
    heads->drops = true;
    heads->sequences = false;
    network_add_recurrent(arena, heads,
                          &(NetworkCell){.cell = "gru",
                                         .units = 12,
                                         .heads = 2,
                                         .recurrent_dropout = 0.5,
                                         .direction = NETWORK_REVERSE},
                          NULL);
    network_add_dropout(arena, heads, 0.25);
    network_add_dense(arena, heads, 7, (ReferenceActivation){"linear", 0, 0});
    network_draw(arena, heads);

    Network *projected = &case_add(arena, cases, "drops-lstmp", "options", "float32", 5)->network;
    projected->drops = true;
    network_add_recurrent(
        arena, projected,
        &(NetworkCell){.cell = "lstmp", .units = 20, .projection = 5, .recurrent_dropout = 0.5},
        NULL);
    network_draw(arena, projected);
}

/// Directions one after another, and layers without weights between them.
static void add_stack(Arena *arena, Cases *cases)
{
    Network *stack = &case_add(arena, cases, "stack-both", "options", "float32", 4)->network;
    const NetworkCell both = {.cell = "gru", .units = 10, .direction = NETWORK_BIDIRECTIONAL};
    const NetworkCell back = {.cell = "lstm", .units = 8, .direction = NETWORK_GO_BACKWARDS};
    stack->time_major = true;
    network_add_recurrent(arena, stack, &both, NULL);
    network_add_activation(arena, stack, (ReferenceActivation){"elu", 1.0, 0});
    network_add_recurrent(arena, stack, &back, NULL);
    network_add_dropout(arena, stack, 0.5);
    network_add_recurrent(arena, stack, &both, NULL);
    network_add_dense(arena, stack, 3, (ReferenceActivation){"tanh", 0, 0});
    network_draw(arena, stack);
}

void cases_add_options(Arena *arena, Cases *cases)
{
    for (size_t k = 0; k < sizeof options / sizeof *options; k++)
        add_option(arena, cases, &options[k]);
    add_masking(arena, cases);
    add_dropping(arena, cases);
    add_stack(arena, cases);
}
