// The session on a stand-in device: masks and lengths, strides, layouts, outputs, the batch that
// states belong to, and sizes. What counts is what the device is asked for, and what is refused in
// which words.
#include <check.h>

#include "layout.h"
#include "stand_in_device.h"

enum { B = 4, T = 5, I = 3, H = STAND_IN_UNITS };

static float x_values[64 * 64], y_values[2][64 * 64];
static uint8_t mask_values[64 * 64];
static int32_t length_values[64];

static rnnc_session *open_session(const rnnc_module_desc *desc)
{
    const struct rnnc_module module = {.desc = desc};
    const rnnc_session_options options = {.device = "cpu", .max_batch = B, .max_timesteps = T};
    rnnc_session *session = NULL;
    memset(&stand_in, 0, sizeof stand_in);
    rnnc_status status = rnnc_session_create(&module, &options, &session);
    ck_assert_msg(status == RNNC_OK, "%s", rnnc_last_error());
    return session;
}

static void close_session(rnnc_session *session)
{
    rnnc_session_destroy(session);
    ck_assert_int_eq(stand_in.blocks, 0);
    ck_assert_int_eq(stand_in.opened, 0);
}

/// A tensor on the host; sizes and strides end with a 0 (strides all 0: none).
typedef struct {
    void *data;
    DLDataType dtype;
    int64_t shape[4], strides[4];
} Given;

static const DLDataType float32 = {kDLFloat, 32, 1}, int32 = {kDLInt, 32, 1},
                        uint8 = {kDLUInt, 8, 1}, boolean = {6, 8, 1};

static rnnc_status bind(rnnc_session *session, const char *name, Given given)
{
    int32_t ndim = 0;
    while (given.shape[ndim])
        ndim++;
    const bool is_strided = given.strides[0] || given.strides[1] || given.strides[2];
    const DLTensor tensor = {.data = given.data,
                             .device = {kDLCPU, 0},
                             .ndim = ndim,
                             .dtype = given.dtype,
                             .shape = given.shape,
                             .strides = is_strided ? given.strides : NULL};
    return rnnc_bind(session, name, &tensor);
}

#define ck_bound(session, name, ...)                                                               \
    ck_assert_msg(bind(session, name, (Given){.data = __VA_ARGS__}) == RNNC_OK, "%s",              \
                  rnnc_session_error(session))

static void ck_refused(const rnnc_session *session, rnnc_status status, rnnc_status wanted,
                       const char *words)
{
    ck_assert_int_eq(status, wanted);
    ck_assert_str_eq(rnnc_session_error(session), words);
}

static void bind_stack(rnnc_session *session, int64_t batch, int64_t timesteps)
{
    ck_bound(session, "x", x_values, float32, {batch, timesteps, I});
    ck_bound(session, "y", y_values[0], float32, {batch, H});
}

// Masks and lengths.

START_TEST(masks_that_do_not_fit_are_named)
{
    const struct {
        const char *name;
        Given given;
        const char *words;
    } cases[] = {
        {"lengths",
         {length_values, {kDLInt, 64, 1}, {B}, {0}},
         "lengths: dtype is int64, expected int32"},
        {"lengths",
         {length_values, int32, {B, T}, {0}},
         "lengths: has 2 dimensions, expected 1: [B]"},
        {"lengths",
         {length_values, int32, {B + 1}, {0}},
         "lengths: dimension 0 (batch) is 5, expected 1 to 4, the session's max_batch"},
        {"lengths",
         {length_values, int32, {B}, {2}},
         "lengths: the stride of dimension 0 is 2, expected 1: only inputs, outputs and masks need "
         "not be contiguous"},
        {"mask",
         {mask_values, float32, {B, T}, {0}},
         "mask: dtype is float32, expected uint8 or bool"},
        {"mask",
         {mask_values, {kDLInt, 8, 1}, {B, T}, {0}},
         "mask: dtype is int8, expected uint8 or bool"},
        {"mask", {mask_values, boolean, {B}, {0}}, "mask: has 1 dimensions, expected 2: [B, T]"},
        {"mask",
         {mask_values, boolean, {B, T + 1}, {0}},
         "mask: dimension 1 (timesteps) is 6, expected 1 to 5, the session's max_timesteps"},
        {"lengths",
         {(char *)length_values + 2, int32, {B}, {0}},
         "lengths: data is not aligned to its elements of 4 bytes"},
        {"mask", {NULL, boolean, {B, T}, {0}}, "mask: data is NULL"},
    };
    rnnc_session *session = open_session(&stack_desc);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_refused(session, bind(session, cases[i].name, cases[i].given), RNNC_INVALID_ARGUMENT,
                   cases[i].words);
    ck_assert_int_eq(stand_in.masking_count, 0);
    close_session(session);
}
END_TEST

START_TEST(masks_have_the_rows_and_steps_of_x)
{
    rnnc_session *session = open_session(&stack_desc);
    bind_stack(session, 4, 3);
    ck_bound(session, "lengths", length_values, int32, {3});
    ck_refused(session, rnnc_run(session), RNNC_INVALID_ARGUMENT,
               "lengths: dimension 0 is 3, expected 4 as bound to x");
    ck_assert_int_eq(rnnc_bind(session, "lengths", NULL), RNNC_OK);
    ck_bound(session, "mask", mask_values, uint8, {4, 5});
    ck_refused(session, rnnc_run(session), RNNC_INVALID_ARGUMENT,
               "mask: dimension 1 is 5, expected 3 as bound to x");
    ck_assert_int_eq(stand_in.runs, 0);
    close_session(session);
}
END_TEST

START_TEST(a_run_hands_on_what_is_bound)
{
    rnnc_session *session = open_session(&stack_desc);
    bind_stack(session, 3, 4);
    ck_assert_int_eq(rnnc_run(session), RNNC_OK);
    ck_assert_ptr_null(stand_in.inputs.mask);
    ck_assert_ptr_null(stand_in.inputs.lengths);
    ck_assert_uint_eq(stand_in.inputs.seed, 0);
    ck_assert_int_eq(stand_in.inputs.batch, 3);
    ck_assert_int_eq(stand_in.inputs.timesteps, 4);
    ck_bound(session, "mask", mask_values + 7, boolean, {3, 4}, {40, 2});
    ck_assert_int_eq(rnnc_set_seed(session, UINT64_MAX), RNNC_OK);
    ck_assert_int_eq(rnnc_run(session), RNNC_OK);
    ck_assert_ptr_eq(stand_in.inputs.mask, mask_values + 7);
    ck_assert_int_eq(stand_in.inputs.mask_row_stride, 40);
    ck_assert_int_eq(stand_in.inputs.mask_step_stride, 2);
    ck_assert_uint_eq(stand_in.inputs.seed, UINT64_MAX);
    ck_assert_int_eq(rnnc_bind(session, "mask", NULL), RNNC_OK);
    ck_bound(session, "lengths", length_values, int32, {3});
    ck_assert_int_eq(rnnc_run(session), RNNC_OK);
    ck_assert_ptr_null(stand_in.inputs.mask);
    ck_assert_ptr_eq(stand_in.inputs.lengths, length_values);
    ck_assert_int_eq(rnnc_set_seed(NULL, 1), RNNC_INVALID_ARGUMENT);
    close_session(session);
}
END_TEST

START_TEST(the_device_is_told_when_the_kind_of_masking_changes)
{
    rnnc_session *session = open_session(&stack_desc);
    ck_assert_int_eq(stand_in.masking_count, 0);
    ck_bound(session, "mask", mask_values, uint8, {3, 4});
    ck_bound(session, "mask", mask_values, boolean, {2, 4});
    ck_assert_int_eq(rnnc_bind(session, "mask", NULL), RNNC_OK);
    ck_assert_int_eq(rnnc_bind(session, "mask", NULL), RNNC_OK);
    ck_bound(session, "lengths", length_values, int32, {3});
    ck_assert_int_eq(rnnc_bind(session, "mask", NULL), RNNC_OK);
    const rnnc_masking wanted[] = {RNNC_MASKING_MASK, RNNC_MASKING_NONE, RNNC_MASKING_LENGTHS};
    ck_assert_int_eq(stand_in.masking_count, 3);
    ck_assert_mem_eq(stand_in.maskings, wanted, sizeof wanted);
    close_session(session);
}
END_TEST

START_TEST(a_refused_masking_costs_nothing)
{
    rnnc_session *session = open_session(&stack_desc);
    bind_stack(session, 2, 4);
    stand_in.refuses_masking = true;
    ck_refused(session, bind(session, "mask", (Given){mask_values, uint8, {2, 4}, {0}}),
               RNNC_UNAVAILABLE, "no variant can mask");
    ck_assert_int_eq(rnnc_run(session), RNNC_OK);
    ck_assert_ptr_null(stand_in.inputs.mask);
    stand_in.refuses_masking = false;
    ck_bound(session, "mask", mask_values, uint8, {2, 4});
    ck_assert_int_eq(stand_in.masking_count, 1);
    close_session(session);
}
END_TEST

START_TEST(mask_and_lengths_exclude_each_other)
{
    rnnc_session *session = open_session(&stack_desc);
    bind_stack(session, 2, 4);
    ck_bound(session, "mask", mask_values, uint8, {2, 4});
    ck_refused(session, bind(session, "lengths", (Given){length_values, int32, {2}, {0}}),
               RNNC_INVALID_ARGUMENT,
               "lengths: mask is bound too, and a run takes one of the two: bind NULL to mask "
               "first");
    ck_assert_int_eq(rnnc_run(session), RNNC_OK);
    ck_assert_ptr_eq(stand_in.inputs.mask, mask_values);
    ck_assert_int_eq(rnnc_bind(session, "mask", NULL), RNNC_OK);
    ck_bound(session, "lengths", length_values, int32, {2});
    ck_refused(session, bind(session, "mask", (Given){mask_values, uint8, {2, 4}, {0}}),
               RNNC_INVALID_ARGUMENT,
               "mask: lengths is bound too, and a run takes one of the two: bind NULL to lengths "
               "first");
    close_session(session);
}
END_TEST

START_TEST(a_model_that_masks_takes_a_mask_and_no_lengths)
{
    rnnc_session *session = open_session(&masked_desc);
    ck_assert_int_eq(stand_in.masking_count, 1);
    ck_assert_int_eq(stand_in.maskings[0], RNNC_MASKING_MASK);
    ck_refused(session, bind(session, "lengths", (Given){length_values, int32, {2}, {0}}),
               RNNC_INVALID_ARGUMENT,
               "lengths: layer 'drop_zeros' masks steps, and a run takes either a mask or lengths: "
               "bind a mask instead, which is combined with the layer's");
    ck_bound(session, "mask", mask_values, uint8, {2, 4});
    ck_assert_int_eq(rnnc_bind(session, "mask", NULL), RNNC_OK);
    ck_assert_int_eq(stand_in.masking_count, 1);
    close_session(session);
}
END_TEST

// Strides and layouts.

/// x of the time-major module, 3 rows of 4 steps.
static void ck_strides_of_x(Given given, int64_t row_stride, int64_t step_stride)
{
    rnnc_session *session = open_session(&pair_desc);
    rnnc_status status = bind(session, "x", given);
    ck_assert_msg(status == RNNC_OK, "%s", rnnc_session_error(session));
    ck_bound(session, "y/fw", y_values[0], float32, {given.shape[0], given.shape[1], H});
    ck_bound(session, "y/bw", y_values[1], float32, {given.shape[0], given.shape[1], H});
    ck_assert_int_eq(rnnc_run(session), RNNC_OK);
    for (int i = 0; i < 2; i++) {
        const rnnc_layer_call *call = &stand_in.calls[i];
        ck_assert_ptr_eq(call->x, given.data);
        ck_assert_int_eq(call->x_row_stride, row_stride);
        ck_assert_int_eq(call->x_step_stride, step_stride);
        ck_assert_int_eq(call->batch, given.shape[1]);
        ck_assert_int_eq(call->timesteps, given.shape[0]);
    }
    close_session(session);
}

START_TEST(strides_of_x_are_taken_as_they_are)
{
    ck_strides_of_x((Given){x_values, float32, {4, 3, I}, {0}}, I, 3 * I);
    ck_strides_of_x((Given){x_values, float32, {4, 3, I}, {I, 4 * I, 1}}, 4 * I, I);
    ck_strides_of_x((Given){x_values, float32, {4, 3, I}, {50, 7, 1}}, 7, 50);
    // Windows that overlap, and one row for all.
    ck_strides_of_x((Given){x_values, float32, {4, 3, I}, {1, 10, 1}}, 10, 1);
    ck_strides_of_x((Given){x_values, float32, {4, 3, I}, {I, 0, 1}}, 0, I);
    // Strides of single rows and steps mean nothing.
    ck_strides_of_x((Given){x_values, float32, {4, 1, I}, {9, -5, 1}}, I, 9);
    ck_strides_of_x((Given){x_values, float32, {1, 3, I}, {-7, 9, 1}}, 9, 3 * I);
}
END_TEST

START_TEST(strides_of_outputs_are_taken_as_they_are)
{
    rnnc_session *session = open_session(&pair_desc);
    ck_bound(session, "x", x_values, float32, {4, 3, I});
    ck_bound(session, "y/fw", y_values[0], float32, {4, 3, H}, {H, 4 * H, 1});
    ck_bound(session, "y/bw", y_values[0] + 40, float32, {4, 3, H}, {21, 7, 1});
    ck_assert_int_eq(rnnc_run(session), RNNC_OK);
    ck_assert_int_eq(stand_in.group_count, 1);
    ck_assert_int_eq(stand_in.group_sizes[0], 2);
    ck_assert_ptr_eq(stand_in.calls[0].y, y_values[0]);
    ck_assert_int_eq(stand_in.calls[0].y_row_stride, 4 * H);
    ck_assert_int_eq(stand_in.calls[0].y_step_stride, H);
    ck_assert_ptr_eq(stand_in.calls[1].y, y_values[0] + 40);
    ck_assert_int_eq(stand_in.calls[1].y_row_stride, 7);
    ck_assert_int_eq(stand_in.calls[1].y_step_stride, 21);
    // One row, whose steps lie further apart than a contiguous row is long.
    ck_bound(session, "y/fw", y_values[0], float32, {4, 1, H}, {90, 1, 1});
    close_session(session);
}
END_TEST

START_TEST(strides_that_cannot_be_taken_are_named)
{
    const struct {
        const char *name;
        Given given;
        const char *words;
    } cases[] = {
        {"x",
         {x_values, float32, {4, 3, I}, {18, 6, 2}},
         "x: the stride of dimension 2 is 2, expected 1: features must be contiguous; rows and "
         "steps may have any positive stride"},
        {"x",
         {x_values, float32, {4, 3, I}, {-9, 3, 1}},
         "x: the stride of dimension 0 is -9, expected 1 or more: rows and steps may have any "
         "positive stride"},
        {"x",
         {x_values, float32, {4, 3, I}, {0, 3, 1}},
         "x: the stride of dimension 0 is 0, expected 1 or more: rows and steps may have any "
         "positive stride"},
        {"x",
         {x_values, float32, {4, 3, I}, {9, -3, 1}},
         "x: the stride of dimension 1 is -3, expected 0 or more: rows and steps may have any "
         "positive stride"},
        {"x",
         {x_values, float32, {4, 3, I}, {INT64_MAX / 2, 3, 1}},
         "x: the stride of dimension 0 is 4611686018427387903, which no memory holds"},
        {"x",
         {x_values, float32, {4, 3, I}, {INT64_MAX, INT64_MAX, 1}},
         "x: the stride of dimension 1 is 9223372036854775807, which no memory holds"},
        {"y/fw",
         {y_values[0], float32, {4, 3, H}, {6, 1, 1}},
         "y/fw: the stride of dimension 1 is 1, expected 2 or more: rows and steps of an output "
         "must not overlap"},
        {"y/fw",
         {y_values[0], float32, {4, 3, H}, {5, 2, 1}},
         "y/fw: the stride of dimension 0 is 5, expected 6 or more: rows and steps of an output "
         "must not overlap"},
        {"y/bw",
         {y_values[0], float32, {4, 3, H}, {2, 7, 1}},
         "y/bw: the stride of dimension 1 is 7, expected 8 or more: rows and steps of an output "
         "must not overlap"},
        {"y/fw",
         {y_values[0], float32, {4, 3, H}, {2, 0, 1}},
         "y/fw: the stride of dimension 1 is 0, expected 1 or more: rows and steps may have any "
         "positive stride"},
        {"both/bw/h",
         {x_values, float32, {3, H}, {3, 1}},
         "both/bw/h: the stride of dimension 0 is 3, expected 2: only inputs, outputs and masks "
         "need not be contiguous"},
        {"x",
         {(char *)x_values + 1, float32, {4, 3, I}, {0}},
         "x: data is not aligned to its elements of 4 bytes"},
    };
    rnnc_session *session = open_session(&pair_desc);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_refused(session, bind(session, cases[i].name, cases[i].given), RNNC_INVALID_ARGUMENT,
                   cases[i].words);
    close_session(session);
}
END_TEST

START_TEST(time_major_sizes_go_by_the_meaning_of_the_axis)
{
    rnnc_session *session = open_session(&pair_desc);
    ck_refused(session, bind(session, "x", (Given){x_values, float32, {4, 5, I}, {0}}),
               RNNC_INVALID_ARGUMENT,
               "x: dimension 1 (batch) is 5, expected 1 to 4, the session's max_batch");
    ck_bound(session, "x", x_values, float32, {5, 4, I});
    ck_bound(session, "y/bw", y_values[1], float32, {5, 4, H});
    ck_refused(session, rnnc_run(session), RNNC_NOT_READY, "y/fw is not bound");
    ck_bound(session, "y/fw", y_values[0], float32, {4, 4, H});
    ck_refused(session, rnnc_run(session), RNNC_INVALID_ARGUMENT,
               "y/fw: dimension 0 is 4, expected 5 as bound to x");
    ck_bound(session, "y/fw", y_values[0], float32, {5, 4, H});
    ck_bound(session, "mask", mask_values, uint8, {4, 5});
    ck_assert_int_eq(rnnc_bind(session, "y/bw", NULL), RNNC_OK);
    ck_refused(session, rnnc_run(session), RNNC_NOT_READY, "y/bw is not bound");
    ck_bound(session, "y/bw", y_values[1], float32, {5, 4, H});
    ck_assert_int_eq(rnnc_run(session), RNNC_OK);
    close_session(session);
}
END_TEST

START_TEST(axes_are_told)
{
    const struct rnnc_module batch_major = {.desc = &stack_desc}, time_major = {.desc = &pair_desc};
    const struct {
        const rnnc_module *module;
        size_t tensor;
        int32_t batch, time;
    } cases[] = {
        {&batch_major, 0, 0, 1},   {&batch_major, 1, 0, -1}, {&batch_major, 2, 0, -1},
        {&batch_major, 3, 0, 1},   {&batch_major, 4, 0, -1}, {&batch_major, 7, -1, -1},
        {&batch_major, 8, -1, -1}, {&time_major, 0, 1, 0},   {&time_major, 2, 1, 0},
        {&time_major, 4, 0, 1},    {&time_major, 5, 0, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int32_t batch = 9, time = 9;
        rnnc_module_tensor_axes(cases[i].module, cases[i].tensor, &batch, &time);
        ck_assert_msg(batch == cases[i].batch && time == cases[i].time, "case %zu: %d %d", i,
                      (int)batch, (int)time);
    }
    rnnc_module_tensor_axes(&batch_major, 0, NULL, NULL);
}
END_TEST

START_TEST(what_needs_the_whole_sequence_is_told)
{
    rnnc_layer_desc layers[] = {masked_layers[1], masked_layers[1]};
    const rnnc_module_desc desc = {.layer_count = 2, .layers = layers};
    const struct rnnc_module module = {.desc = &desc}, masked = {.desc = &masked_desc};
    rnnc_streaming streaming;
    ck_assert_int_eq(rnnc_module_streaming(&module, &streaming), RNNC_OK);
    ck_assert_ptr_null(streaming.whole_layer);
    ck_assert_int_eq(streaming.repeats_when_masked, 1);
    // The last cell that the mask reaches decides.
    layers[1].zero_output_for_mask = 1;
    ck_assert_int_eq(rnnc_module_streaming(&module, &streaming), RNNC_OK);
    ck_assert_int_eq(streaming.repeats_when_masked, 0);
    layers[0].sequence_out = 0;
    ck_assert_int_eq(rnnc_module_streaming(&module, &streaming), RNNC_OK);
    ck_assert_int_eq(streaming.repeats_when_masked, 1);
    layers[1].reversed = 1;
    layers[1].name = "late";
    ck_assert_int_eq(rnnc_module_streaming(&module, &streaming), RNNC_OK);
    ck_assert_str_eq(streaming.whole_layer, "late");
    ck_assert_str_eq(streaming.reason, "it takes the last step first");
    ck_assert_int_eq(rnnc_module_streaming(&masked, &streaming), RNNC_OK);
    ck_assert_str_eq(streaming.whole_layer, "drop_zeros");
    ck_assert_int_eq(rnnc_module_streaming(NULL, &streaming), RNNC_INVALID_ARGUMENT);
    ck_assert_int_eq(rnnc_module_streaming(&module, NULL), RNNC_INVALID_ARGUMENT);
}
END_TEST

START_TEST(views_are_parts_of_buffers)
{
    rnnc_session *session = open_session(&stack_desc);
    bind_stack(session, 3, 2);
    ck_bound(session, "y", y_values[0], float32, {3, H}, {11, 1});
    ck_assert_int_eq(rnnc_run(session), RNNC_OK);
    const rnnc_layer_call *calls = stand_in.calls;
    const int groups[] = {2, 1, 1};
    ck_assert_int_eq(stand_in.group_count, 3);
    ck_assert_mem_eq(stand_in.group_sizes, groups, sizeof groups);
    ck_assert_ptr_eq(calls[1].y, calls[0].y + 2);
    ck_assert_int_eq(calls[1].y_row_stride, 2 * 4);
    ck_assert_int_eq(calls[1].y_step_stride, 4);
    ck_assert_ptr_eq(calls[2].x, calls[0].y);
    ck_assert_int_eq(calls[2].x_row_stride, 2 * 4);
    ck_assert_int_eq(calls[2].y_row_stride, 2);
    ck_assert_int_eq(calls[3].timesteps, 1);
    ck_assert_ptr_eq(calls[3].y, y_values[0]);
    ck_assert_int_eq(calls[3].y_row_stride, 11);
    close_session(session);
}
END_TEST

// States.

START_TEST(a_stateful_layer_keeps_its_batch)
{
    rnnc_session *session = open_session(&stack_desc);
    float h[B * H];
    bind_stack(session, 4, 2);
    ck_assert_int_eq(rnnc_run(session), RNNC_OK);
    bind_stack(session, 3, 2);
    ck_refused(session, rnnc_run(session), RNNC_INVALID_ARGUMENT,
               "x: batch expected 4, got 3: layer 'mid' is stateful and carries the states of a "
               "batch of 4; rnnc_state_reset lets them go");
    ck_assert_int_eq(stand_in.runs, 1);
    bind_stack(session, 4, 1);
    ck_assert_int_eq(rnnc_run(session), RNNC_OK);
    ck_assert_int_eq(rnnc_state_get(session, "mid/h", h, B * H), RNNC_OK);
    ck_assert(h[B * H - 1] == 2);
    ck_assert_int_eq(rnnc_state_get(session, "enc/bw/h", h, B * H), RNNC_OK);
    ck_assert(h[B * H - 1] == 1);
    ck_assert_int_eq(rnnc_state_reset(session), RNNC_OK);
    bind_stack(session, 3, 2);
    ck_assert_int_eq(rnnc_run(session), RNNC_OK);
    ck_assert_int_eq(rnnc_state_get(session, "mid/h", h, 3 * H), RNNC_OK);
    ck_assert(h[3 * H - 1] == 1);
    // A bound state brings its own rows.
    float bound[2 * H] = {0};
    bind_stack(session, 2, 2);
    ck_bound(session, "mid/h", bound, float32, {2, H});
    ck_assert_int_eq(rnnc_run(session), RNNC_OK);
    ck_assert(bound[2 * H - 1] == 1);
    close_session(session);
}
END_TEST

START_TEST(a_state_is_set_for_the_rows_of_x)
{
    rnnc_session *session = open_session(&stack_desc);
    const float values[B * H] = {5, 5, 5, 5, 5, 5, 5, 5};
    float h[B * H];
    bind_stack(session, 4, 2);
    ck_assert_int_eq(rnnc_state_set(session, "enc/fw/h", values, B * H), RNNC_OK);
    bind_stack(session, 2, 2);
    ck_refused(session, rnnc_run(session), RNNC_INVALID_ARGUMENT,
               "enc/fw/h: set for batch 4, expected 2 as bound to x: set it again, or let it go by "
               "rnnc_state_reset");
    ck_assert_int_eq(rnnc_state_set(session, "enc/fw/h", values, 2 * H), RNNC_OK);
    ck_assert_int_eq(rnnc_run(session), RNNC_OK);
    ck_assert_int_eq(rnnc_state_get(session, "enc/fw/h", h, 2 * H), RNNC_OK);
    ck_assert(h[0] == 6);
    // Only mid is stateful: it carries 2 rows, enc none.
    ck_assert_int_eq(rnnc_run(session), RNNC_OK);
    ck_assert_int_eq(rnnc_state_get(session, "enc/fw/h", h, 2 * H), RNNC_OK);
    ck_assert(h[0] == 1);
    close_session(session);
}
END_TEST

// Sizes.

START_TEST(memory_is_what_the_steps_need)
{
    rnnc_session *session = open_session(&stack_desc);
    // Three states, then buffer 0 of sequences and buffer 1, which holds one step.
    const size_t wanted[] = {B * H * 4, B * H * 4, B * H * 4, B * T * 4 * 4, B * 2 * 4};
    ck_assert_int_eq(stand_in.allocation_count, 5);
    ck_assert_mem_eq(stand_in.allocated, wanted, sizeof wanted);
    close_session(session);
}
END_TEST

START_TEST(sizes_beyond_any_memory_are_named)
{
    const struct {
        int64_t batch, timesteps;
        rnnc_status status;
        const char *words;
    } cases[] = {
        {INT64_C(1) << 31, 1, RNNC_INVALID_ARGUMENT,
         "max_batch is 2147483648, expected 1 to 2147483647"},
        {-1, 1, RNNC_INVALID_ARGUMENT, "max_batch is -1, expected 1 to 2147483647"},
        {1, INT64_MAX, RNNC_INVALID_ARGUMENT,
         "max_timesteps is 9223372036854775807, expected 1 to 2147483647"},
        {INT32_MAX, INT32_MAX, RNNC_OUT_OF_MEMORY,
         "max_batch 2147483647 and max_timesteps 2147483647: layer 'enc/fw' has 13 values a step, "
         "which is more than any memory holds"},
    };
    const struct rnnc_module module = {.desc = &stack_desc};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const rnnc_session_options options = {
            .device = "cpu", .max_batch = cases[i].batch, .max_timesteps = cases[i].timesteps};
        rnnc_session *session;
        ck_assert_int_eq(rnnc_session_create(&module, &options, &session), cases[i].status);
        ck_assert_ptr_null(session);
        ck_assert_str_eq(rnnc_last_error(), cases[i].words);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("runtime_session");
    TCase *tests = tcase_create("session");
    tcase_add_test(tests, masks_that_do_not_fit_are_named);
    tcase_add_test(tests, masks_have_the_rows_and_steps_of_x);
    tcase_add_test(tests, a_run_hands_on_what_is_bound);
    tcase_add_test(tests, the_device_is_told_when_the_kind_of_masking_changes);
    tcase_add_test(tests, a_refused_masking_costs_nothing);
    tcase_add_test(tests, mask_and_lengths_exclude_each_other);
    tcase_add_test(tests, a_model_that_masks_takes_a_mask_and_no_lengths);
    tcase_add_test(tests, strides_of_x_are_taken_as_they_are);
    tcase_add_test(tests, strides_of_outputs_are_taken_as_they_are);
    tcase_add_test(tests, strides_that_cannot_be_taken_are_named);
    tcase_add_test(tests, time_major_sizes_go_by_the_meaning_of_the_axis);
    tcase_add_test(tests, axes_are_told);
    tcase_add_test(tests, what_needs_the_whole_sequence_is_told);
    tcase_add_test(tests, views_are_parts_of_buffers);
    tcase_add_test(tests, a_stateful_layer_keeps_its_batch);
    tcase_add_test(tests, a_state_is_set_for_the_rows_of_x);
    tcase_add_test(tests, memory_is_what_the_steps_need);
    tcase_add_test(tests, sizes_beyond_any_memory_are_named);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
