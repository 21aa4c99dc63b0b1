// The runtime on the CPU: what it says of modules and tensors that do not fit, and what a run
// promises: values, independence of rows, carried state, rebound weights, sessions on threads.
#include <math.h>
#include <pthread.h>

#include "runtime_fixture.h"

enum { I = 5, H = 19, B = 31, T = 23 };

static void compile_all(void)
{
    fixture_open_folder();
    fixture_compile("plain", "rnnc: 1\nname: plain\n"
                             "input: {features: 5, batch: any, timesteps: any}\nlayers:\n"
                             "  - {cell: lstm, units: 19, return_sequences: true, name: l0}\n"
                             "weights: {seed: 3}\n");
    fixture_compile("kept", "rnnc: 1\nname: kept\n"
                            "input: {features: 5, batch: 2, timesteps: any}\nlayers:\n"
                            "  - {cell: gru_before, units: 19, return_sequences: true, "
                            "stateful: true, name: a}\n"
                            "  - {cell: lstm, units: 8, stateful: true, name: b}\n"
                            "  - {dense: {units: 3, activation: tanh}, name: c}\n"
                            "weights: {seed: 4}\n");
    fixture_compile("tokens", "rnnc: 1\nname: tokens\n"
                              "input: {tokens: 7, batch: 1, timesteps: 4}\nlayers:\n"
                              "  - {embedding: 6, name: e}\n  - {cell: rnn, units: 3, name: r}\n"
                              "weights: {seed: 5}\n");
}

// Opening.

START_TEST(missing_file_is_not_found)
{
    rnnc_module *module = (rnnc_module *)folder;
    ck_assert_int_eq(rnnc_module_open("/nowhere/model.so", &module), RNNC_NOT_FOUND);
    ck_assert_ptr_null(module);
    ck_assert_str_eq(rnnc_last_error(), "/nowhere/model.so: No such file or directory");
}
END_TEST

START_TEST(text_is_no_module)
{
    rnnc_module *module;
    fixture_write("text.so", "not a library");
    ck_assert_int_eq(rnnc_module_open(fixture_path("text.so"), &module), RNNC_BAD_MODULE);
    ck_assert_ptr_nonnull(strstr(rnnc_last_error(), "text.so: cannot be loaded: "));
}
END_TEST

/// dlopen alone would end the process.
START_TEST(truncated_module_is_no_module)
{
    static char bytes[1 << 20];
    FILE *file = fopen(fixture_path("plain.so"), "rb");
    size_t count = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    ck_assert(count > 8192 && count < sizeof bytes);
    const size_t kept[] = {0, 63, 64, 4096, count / 2, count - 1};
    file = fopen(fixture_path("cut.so"), "wb");
    fwrite(bytes, 1, kept[_i], file);
    fclose(file);
    rnnc_module *module;
    ck_assert_int_eq(rnnc_module_open(fixture_path("cut.so"), &module), RNNC_BAD_MODULE);
    ck_assert_ptr_nonnull(strstr(rnnc_last_error(), "or its end is missing"));
}
END_TEST

START_TEST(folder_is_no_module)
{
    rnnc_module *module;
    ck_assert_int_eq(rnnc_module_open(folder, &module), RNNC_BAD_MODULE);
    ck_assert_ptr_nonnull(strstr(rnnc_last_error(), "it is no file"));
}
END_TEST

static void compile_library(const char *name, const char *source)
{
    char command[512];
    fixture_write("library.c", source);
    snprintf(command, sizeof command, "cc -shared -fPIC -I%s/runtime/include -o %s/%s %s/library.c",
             RNNC_SOURCE_DIR, folder, name, folder);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(tables_are_checked)
{
    static const struct {
        const char *fields, *message;
    } cases[] = {
        {".magic = 1", "magic is 0x00000001, expected 0x434e4e52"},
        {".magic = RNNC_MODULE_MAGIC, .abi_major = 9, .abi_minor = 4", "ABI 9.4, this runtime"},
        {".magic = RNNC_MODULE_MAGIC, .abi_major = RNNC_ABI_MAJOR, .struct_bytes = 24",
         "table has 24 bytes"},
    };
    char source[512];
    snprintf(source, sizeof source,
             "#include \"rnnc/module.h\"\nstatic const rnnc_module_desc desc = {%s};\n"
             "const rnnc_module_desc *rnnc_module_query(uint32_t abi, const void *host)\n"
             "{ return &desc; }\n",
             cases[_i].fields);
    compile_library("wrong.so", source);
    rnnc_module *module;
    ck_assert_int_eq(rnnc_module_open(fixture_path("wrong.so"), &module), RNNC_BAD_MODULE);
    ck_assert_msg(strstr(rnnc_last_error(), cases[_i].message) != NULL, "%s", rnnc_last_error());
}
END_TEST

START_TEST(library_without_query_is_no_module)
{
    compile_library("other.so", "int other;\n");
    rnnc_module *module;
    ck_assert_int_eq(rnnc_module_open(fixture_path("other.so"), &module), RNNC_BAD_MODULE);
    ck_assert_ptr_nonnull(strstr(rnnc_last_error(), "no symbol rnnc_module_query"));
}
END_TEST

// Binding.

static float memory[B * T * H];

START_TEST(bind_says_what_does_not_fit)
{
    int64_t shape[] = {2, 3, 5}, strides[] = {15, 6, 2};
    const DLTensor good = {.data = memory,
                           .device = {kDLCPU, 0},
                           .ndim = 3,
                           .dtype = {kDLFloat, 32, 1},
                           .shape = shape};
    DLTensor tensor[8];
    for (int i = 0; i < 8; i++)
        tensor[i] = good;
    tensor[0].dtype.bits = 64;
    tensor[1].ndim = 2;
    tensor[2].shape = (int64_t[]){2, 3, 6};
    tensor[3].shape = (int64_t[]){5, 3, 5};
    tensor[4].shape = (int64_t[]){2, 0, 5};
    tensor[5].strides = strides;
    tensor[6].device = (DLDevice){kDLCUDA, 1};
    tensor[7].data = NULL;
    static const char *const messages[] = {
        "x: dtype is float64, expected float32",
        "x: has 2 dimensions, expected 3: [B, T, 5]",
        "x: dimension 2 is 6, expected 5",
        "x: dimension 0 (batch) is 5, expected 1 to 4, the session's max_batch",
        "x: dimension 1 (timesteps) is 0, expected 1 to 9, the session's max_timesteps",
        "x: the stride of dimension 2 is 2, expected 1: features must be contiguous; rows and "
        "steps may have any positive stride",
        "x: lies on DLPack device type 2, number 1; the session runs on cpu",
        "x: data is NULL",
    };
    rnnc_module *module = fixture_module("plain.so");
    rnnc_session *session = fixture_session(module, 4, 9);
    ck_assert_int_eq(rnnc_bind(session, "x", &good), RNNC_OK);
    ck_assert_int_eq(rnnc_bind(session, "x", &tensor[_i]), RNNC_INVALID_ARGUMENT);
    ck_assert_str_eq(rnnc_session_error(session), messages[_i]);
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

START_TEST(names_and_missing_bindings)
{
    rnnc_module *module = fixture_module("plain.so");
    rnnc_session *session = fixture_session(module, 4, 9);
    ck_assert_int_eq(rnnc_bind(session, "z", NULL), RNNC_INVALID_ARGUMENT);
    ck_assert_str_eq(rnnc_session_error(session),
                     "no tensor 'z' in module 'plain'; it has x, y, lengths, mask, "
                     "l0/h, l0/c and its weights");
    ck_assert_int_eq(rnnc_run(session), RNNC_NOT_READY);
    ck_assert_str_eq(rnnc_session_error(session), "x is not bound");
    ck_assert_int_eq(fixture_bind(session, "x", memory, 2, 3, I), RNNC_OK);
    ck_assert_int_eq(rnnc_run(session), RNNC_NOT_READY);
    ck_assert_str_eq(rnnc_session_error(session), "y is not bound");
    ck_assert_int_eq(fixture_bind(session, "y", memory, 2, 4, H), RNNC_OK);
    ck_assert_int_eq(rnnc_run(session), RNNC_INVALID_ARGUMENT);
    ck_assert_str_eq(rnnc_session_error(session), "y: dimension 1 is 4, expected 3 as bound to x");
    ck_assert_int_eq(rnnc_state_set(session, "l0/c", memory, 7), RNNC_INVALID_ARGUMENT);
    ck_assert_str_eq(rnnc_session_error(session),
                     "l0/c: 7 values given, expected 38: batch 2 times 19");
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

START_TEST(null_is_refused_everywhere)
{
    rnnc_module *module = fixture_module("plain.so"), *none;
    rnnc_session *session = fixture_session(module, 4, 9), *no_session;
    void *block;
    const rnnc_status statuses[] = {
        rnnc_module_open(NULL, &none),
        rnnc_module_open("x.so", NULL),
        rnnc_session_create(NULL, NULL, &no_session),
        rnnc_session_create(module, NULL, NULL),
        rnnc_bind(NULL, "x", NULL),
        rnnc_bind(session, NULL, NULL),
        rnnc_run(NULL),
        rnnc_synchronize(NULL),
        rnnc_state_get(NULL, "l0/h", memory, 1),
        rnnc_state_get(session, NULL, memory, 1),
        rnnc_state_get(session, "l0/h", NULL, 4 * H),
        rnnc_state_set(session, "l0/h", NULL, 4 * H),
        rnnc_state_set(session, NULL, memory, 1),
        rnnc_state_reset(NULL),
        rnnc_set_seed(NULL, 1),
        rnnc_module_streaming(module, NULL),
        rnnc_device_alloc(NULL, 4, &block),
        rnnc_device_alloc(session, 4, NULL),
        rnnc_device_write(session, NULL, memory, 4),
        rnnc_device_read(session, memory, NULL, 4),
    };
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
        ck_assert_msg(statuses[i] == RNNC_INVALID_ARGUMENT, "call %zu: %d", i, (int)statuses[i]);
    ck_assert_ptr_null(rnnc_module_tensor(NULL, 0));
    ck_assert_ptr_null(rnnc_module_tensor(module, SIZE_MAX));
    ck_assert_ptr_null(rnnc_module_name(NULL));
    ck_assert_ptr_null(rnnc_session_layer(session, SIZE_MAX));
    ck_assert_ptr_null(rnnc_session_variant(session, "none", NULL));
    ck_assert_ptr_null(rnnc_session_device(NULL));
    rnnc_device_free(session, NULL);
    rnnc_session_destroy(NULL);
    rnnc_module_close(NULL);
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

START_TEST(sizes_that_no_tensor_has)
{
    rnnc_module *module = fixture_module("plain.so");
    rnnc_session *session = fixture_session(module, 4, 9);
    int64_t shape[] = {2, 3, 5};
    const int32_t dimensions[] = {0, -1, 4, INT32_MAX, INT32_MIN};
    DLTensor tensor = {
        .data = memory, .device = {kDLCPU, 0}, .dtype = {kDLFloat, 32, 1}, .shape = shape};
    for (int i = 0; i < 5; i++) {
        tensor.ndim = dimensions[i];
        ck_assert_int_eq(rnnc_bind(session, "x", &tensor), RNNC_INVALID_ARGUMENT);
    }
    tensor.ndim = 3;
    const int64_t sizes[] = {0, -1, -2, INT64_MAX, INT64_MIN};
    for (int i = 0; i < 15; i++) {
        memcpy(shape, (int64_t[]){2, 3, 5}, sizeof shape);
        shape[i / 5] = sizes[i % 5];
        ck_assert_int_eq(rnnc_bind(session, "x", &tensor), RNNC_INVALID_ARGUMENT);
    }
    tensor.shape = NULL;
    ck_assert_int_eq(rnnc_bind(session, "x", &tensor), RNNC_INVALID_ARGUMENT);
    rnnc_session_destroy(session);
    const rnnc_session_options wrong[] = {
        {.device = "cpu", .max_batch = -1},
        {.device = "cpu", .max_timesteps = -1},
        {.device = "cpu", .max_batch = INT64_MAX, .max_timesteps = INT64_MAX},
        {.device = "cpu", .max_batch = INT64_MAX / 4},
    };
    for (int i = 0; i < 4; i++) {
        ck_assert_int_ne(rnnc_session_create(module, &wrong[i], &session), RNNC_OK);
        ck_assert_ptr_null(session);
    }
    rnnc_module_close(module);
}
END_TEST

START_TEST(devices_that_are_not_there)
{
    rnnc_module *module = fixture_module("plain.so");
    rnnc_session *session;
    rnnc_session_options options = {.device = "tpu"};
    ck_assert_int_eq(rnnc_session_create(module, &options, &session), RNNC_INVALID_ARGUMENT);
    ck_assert_ptr_null(session);
    ck_assert_str_eq(rnnc_last_error(), "device is 'tpu', expected 'cpu', 'cuda' or 'cuda:N'");
    options = (rnnc_session_options){.device = "cpu", .variant = "stepwise"};
    ck_assert_int_eq(rnnc_session_create(module, &options, &session), RNNC_UNAVAILABLE);
    ck_assert_str_eq(rnnc_last_error(),
                     "variant 'stepwise' does not run on the CPU, only 'cpu' does");
    rnnc_module_close(module);
}
END_TEST

START_TEST(token_outside_of_the_table)
{
    rnnc_module *module = fixture_module("tokens.so");
    rnnc_session *session = fixture_session(module, 0, 0);
    int32_t tokens[] = {0, 6, 7, 1};
    int64_t shape[] = {1, 4};
    DLTensor x = {
        .data = tokens, .device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLInt, 32, 1}, .shape = shape};
    ck_assert_int_eq(rnnc_bind(session, "x", &x), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "y", memory, 1, 3, 0), RNNC_OK);
    ck_assert_int_eq(rnnc_run(session), RNNC_INVALID_ARGUMENT);
    ck_assert_str_eq(rnnc_session_error(session), "token 7 of row 0, step 2 is outside 0 to 6");
    tokens[2] = 2;
    fixture_run(session);
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

// Running.

static float W[4 * H * I], R[4 * H * H], b[4 * H];

/// The equations of the LSTM in float64, for one row from zero states; gates i f g o.
static void reference(const float *x, double y[T][H])
{
    double h[H] = {0}, c[H] = {0}, gates[4][H];
    for (int t = 0; t < T; t++) {
        for (int n = 0; n < 4 * H; n++) {
            double sum = (double)b[n];
            for (int k = 0; k < I; k++)
                sum += (double)W[n * I + k] * (double)x[t * I + k];
            for (int k = 0; k < H; k++)
                sum += (double)R[n * H + k] * h[k];
            gates[n / H][n % H] = n / H == 2 ? tanh(sum) : 1 / (1 + exp(-sum));
        }
        for (int n = 0; n < H; n++) {
            c[n] = gates[1][n] * c[n] + gates[0][n] * gates[2][n];
            y[t][n] = h[n] = gates[3][n] * tanh(c[n]);
        }
    }
}

static void bind_weights(rnnc_session *session)
{
    fixture_fill(W, 4 * H * I, 1);
    fixture_fill(R, 4 * H * H, 2);
    fixture_fill(b, 4 * H, 3);
    ck_assert_int_eq(fixture_bind(session, "l0/W", W, 4 * H, I, 0), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "l0/R", R, 4 * H, H, 0), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "l0/b", b, 4 * H, 0, 0), RNNC_OK);
}

static float x[B * T * I], y[B * T * H];

static void bind_ends(rnnc_session *session, float *from, float *to, int64_t batch)
{
    ck_assert_int_eq(fixture_bind(session, "x", from, batch, T, I), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "y", to, batch, T, H), RNNC_OK);
}

/// Every level of code that this machine runs, with rebound weights, against the equations.
START_TEST(run_gives_the_equations)
{
    static const char *const levels[] = {"cpu", "cpu:baseline", "cpu:x86-64-v3", "cpu:x86-64-v4"};
    rnnc_module *module = fixture_module("plain.so");
    rnnc_session_options options = {
        .device = "cpu", .max_batch = B, .max_timesteps = T, .variant = levels[_i]};
    rnnc_session *session;
    if (rnnc_session_create(module, &options, &session) != RNNC_OK) {
        ck_assert_int_gt(_i, 0);
        ck_assert_ptr_nonnull(strstr(rnnc_last_error(), "that this machine runs"));
        rnnc_module_close(module);
        return;
    }
    bind_weights(session);
    fixture_fill(x, B * T * I, 4);
    bind_ends(session, x, y, B);
    fixture_run(session);
    for (int row = 0; row < B; row++) {
        double wanted[T][H];
        reference(x + row * T * I, wanted);
        for (int i = 0; i < T * H; i++)
            ck_assert_double_eq_tol((double)y[row * T * H + i], wanted[i / H][i % H], 2e-6);
    }
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

START_TEST(rows_do_not_depend_on_the_batch)
{
    rnnc_module *module = fixture_module("plain.so");
    rnnc_session *session = fixture_session(module, B, T);
    static float single[T * H];
    fixture_fill(x, B * T * I, 5);
    bind_ends(session, x, y, B);
    fixture_run(session);
    for (int row = 0; row < B; row++) {
        bind_ends(session, x + row * T * I, single, 1);
        fixture_run(session);
        ck_assert_mem_eq(single, y + row * T * H, sizeof single);
    }
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

/// Row `row` of a batch, and the same row alone, in sessions of their own.
static void check_size(int64_t batch, int64_t timesteps, int64_t row)
{
    rnnc_module *module = fixture_module("plain.so");
    rnnc_session *session = fixture_session(module, batch, timesteps);
    rnnc_session *single = fixture_session(module, 1, timesteps);
    const size_t inputs = (size_t)(timesteps * I), outputs = (size_t)(timesteps * H);
    float *from = malloc((size_t)batch * inputs * sizeof *from);
    float *to = malloc((size_t)batch * outputs * sizeof *to);
    float *alone = malloc(outputs * sizeof *alone);
    fixture_fill(from, (size_t)batch * inputs, 11);
    ck_assert_int_eq(fixture_bind(session, "x", from, batch, timesteps, I), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "y", to, batch, timesteps, H), RNNC_OK);
    ck_assert_int_eq(fixture_bind(single, "x", from + (size_t)row * inputs, 1, timesteps, I),
                     RNNC_OK);
    ck_assert_int_eq(fixture_bind(single, "y", alone, 1, timesteps, H), RNNC_OK);
    fixture_run(session);
    fixture_run(single);
    ck_assert_mem_eq(to + (size_t)row * outputs, alone, outputs * sizeof *alone);
    ck_assert_float_ne(alone[outputs - 1], 0);
    rnnc_session_destroy(session);
    rnnc_session_destroy(single);
    rnnc_module_close(module);
    free(from);
    free(to);
    free(alone);
}

/// One module serves every size; beyond 65535 rows and 65535 steps too.
START_TEST(any_batch_and_any_number_of_steps)
{
    static const int64_t sizes[][2] = {{1, 1}, {70000, 1}, {1, 70000}, {6464, 3}, {65537, 2}};
    check_size(sizes[_i][0], sizes[_i][1], sizes[_i][0] - 1);
}
END_TEST

START_TEST(a_stateful_model_has_its_batch)
{
    rnnc_module *module = fixture_module("kept.so");
    rnnc_session *session = fixture_session(module, 2, 4);
    ck_assert_int_eq(fixture_bind(session, "x", memory, 3, 4, I), RNNC_INVALID_ARGUMENT);
    ck_assert_str_eq(rnnc_session_error(session),
                     "x: dimension 0 is 3, expected 2: layer 'a' is stateful, and the model is "
                     "compiled for that batch");
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

START_TEST(stateful_layers_carry_their_state)
{
    enum { STEPS = 20, PART = 5, LAST = 3 };
    rnnc_module *module = fixture_module("kept.so");
    rnnc_session *session = fixture_session(module, 2, STEPS);
    static float input[2 * STEPS * I], part[2 * PART * I];
    float whole[2 * LAST], outputs[2 * LAST], h[2][2 * H];
    fixture_fill(input, 2 * STEPS * I, 6);
    ck_assert_int_eq(fixture_bind(session, "y", whole, 2, LAST, 0), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "x", input, 2, STEPS, I), RNNC_OK);
    fixture_run(session);
    ck_assert_int_eq(rnnc_state_get(session, "a/h", h[0], 2 * H), RNNC_OK);
    ck_assert_int_eq(rnnc_state_reset(session), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "y", outputs, 2, LAST, 0), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "x", part, 2, PART, I), RNNC_OK);
    for (int start = 0; start < STEPS; start += PART) {
        for (int row = 0; row < 2; row++)
            memcpy(part + row * PART * I, input + (row * STEPS + start) * I,
                   sizeof(float) * PART * I);
        fixture_run(session);
    }
    ck_assert_int_eq(rnnc_state_get(session, "a/h", h[1], 2 * H), RNNC_OK);
    ck_assert_mem_eq(outputs, whole, sizeof whole);
    ck_assert_mem_eq(h[0], h[1], sizeof h[0]);
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

/// Half of the steps, then the other half from the state that the first left: bound, and set.
START_TEST(states_can_be_bound_and_set)
{
    enum { HALF = 11, REST = T - HALF };
    rnnc_module *module = fixture_module("plain.so");
    rnnc_session *session = fixture_session(module, 1, T);
    static float half[T * H], start[2][H], twice[2][REST * H];
    float h[H] = {0}, c[H] = {0};
    fixture_fill(x, T * I, 7);
    bind_ends(session, x, y, 1);
    fixture_run(session);
    ck_assert_int_eq(fixture_bind(session, "l0/h", h, 1, H, 0), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "l0/c", c, 1, H, 0), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "x", x, 1, HALF, I), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "y", half, 1, HALF, H), RNNC_OK);
    fixture_run(session);
    memcpy(start[0], h, sizeof h);
    memcpy(start[1], c, sizeof c);
    ck_assert_mem_eq(h, y + (HALF - 1) * H, sizeof h);
    ck_assert_int_eq(fixture_bind(session, "x", x + HALF * I, 1, REST, I), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "y", twice[0], 1, REST, H), RNNC_OK);
    fixture_run(session);
    ck_assert_int_eq(rnnc_bind(session, "l0/h", NULL), RNNC_OK);
    ck_assert_int_eq(rnnc_bind(session, "l0/c", NULL), RNNC_OK);
    ck_assert_int_eq(rnnc_state_set(session, "l0/h", start[0], H), RNNC_OK);
    ck_assert_int_eq(rnnc_state_set(session, "l0/c", start[1], H), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "y", twice[1], 1, REST, H), RNNC_OK);
    fixture_run(session);
    for (int i = 0; i < 2; i++)
        ck_assert_mem_eq(twice[i], y + HALF * H, sizeof twice[i]);
    // The state set holds for one run of a layer that is not stateful.
    bind_ends(session, x, half, 1);
    fixture_run(session);
    ck_assert_mem_eq(half, y, sizeof half);
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

/// Before a run a bound state may have other rows than x; its own count is what may be touched.
START_TEST(a_bound_state_has_its_own_rows)
{
    rnnc_module *module = fixture_module("plain.so");
    rnnc_session *session = fixture_session(module, 4, T);
    float *h = malloc(2 * H * sizeof *h), copy[4 * H];
    fixture_fill(h, 2 * H, 3);
    bind_ends(session, x, y, 4);
    ck_assert_int_eq(fixture_bind(session, "l0/h", h, 2, H, 0), RNNC_OK);
    ck_assert_int_eq(rnnc_state_get(session, "l0/h", copy, 4 * H), RNNC_INVALID_ARGUMENT);
    ck_assert_int_eq(rnnc_state_set(session, "l0/h", copy, 4 * H), RNNC_INVALID_ARGUMENT);
    ck_assert_int_eq(rnnc_state_get(session, "l0/h", copy, 2 * H), RNNC_OK);
    ck_assert_mem_eq(copy, h, 2 * H * sizeof *h);
    ck_assert_int_eq(rnnc_state_reset(session), RNNC_OK);
    for (int i = 0; i < 2 * H; i++)
        ck_assert(h[i] == 0);
    ck_assert_int_eq(rnnc_run(session), RNNC_INVALID_ARGUMENT);
    free(h);
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

START_TEST(unbound_weights_are_the_module_s_again)
{
    rnnc_module *module = fixture_module("plain.so");
    rnnc_session *session = fixture_session(module, 1, T);
    static float own[T * H], other[T * H], again[T * H];
    fixture_fill(x, T * I, 8);
    bind_ends(session, x, own, 1);
    fixture_run(session);
    bind_weights(session);
    bind_ends(session, x, other, 1);
    fixture_run(session);
    ck_assert_mem_ne(own, other, sizeof own);
    ck_assert_int_eq(rnnc_bind(session, "l0/W", NULL), RNNC_OK);
    ck_assert_int_eq(rnnc_bind(session, "l0/R", NULL), RNNC_OK);
    ck_assert_int_eq(rnnc_bind(session, "l0/b", NULL), RNNC_OK);
    bind_ends(session, x, again, 1);
    fixture_run(session);
    ck_assert_mem_eq(own, again, sizeof own);
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

typedef struct {
    rnnc_session *session;
    float x[T * I], y[T * H];
    rnnc_status status;
} Work;

static void *run_often(void *argument)
{
    Work *work = argument;
    for (int i = 0; i < 200 && work->status == RNNC_OK; i++)
        work->status = rnnc_run(work->session);
    return NULL;
}

START_TEST(sessions_run_on_threads)
{
    rnnc_module *module = fixture_module("plain.so");
    static Work works[2];
    pthread_t threads[2];
    static float alone[2][T * H];
    for (int i = 0; i < 2; i++) {
        works[i].session = fixture_session(module, 1, T);
        fixture_fill(works[i].x, T * I, (unsigned)(9 + i));
        bind_ends(works[i].session, works[i].x, alone[i], 1);
        fixture_run(works[i].session);
        bind_ends(works[i].session, works[i].x, works[i].y, 1);
    }
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run_often, &works[i]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_int_eq(works[i].status, RNNC_OK);
        ck_assert_mem_eq(works[i].y, alone[i], sizeof alone[i]);
        rnnc_session_destroy(works[i].session);
    }
    rnnc_module_close(module);
}
END_TEST

/// A mask value that is no finite number, next to steps that are not masked.
START_TEST(infinity_masks_a_step)
{
    fixture_compile("infinite", "rnnc: 1\nname: m\ninput: {features: 2, batch: 1, timesteps: 3}\n"
                                "layers:\n  - {masking: -.inf}\n"
                                "  - {cell: rnn, units: 2, return_sequences: true}\n"
                                "weights: {seed: 1}\n");
    float from[] = {-INFINITY, -INFINITY, 1, 2, -INFINITY, -INFINITY}, to[6];
    rnnc_module *module = fixture_module("infinite.so");
    rnnc_session *session = fixture_session(module, 1, 3);
    ck_assert_int_eq(fixture_bind(session, "x", from, 1, 3, 2), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "y", to, 1, 3, 2), RNNC_OK);
    fixture_run(session);
    ck_assert(to[0] == 0 && to[1] == 0);
    ck_assert(to[2] != 0 && fabsf(to[2]) < 1);
    ck_assert_mem_eq(&to[4], &to[2], 2 * sizeof *to);
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("runtime");
    TCase *tests = tcase_create("cpu");
    tcase_add_unchecked_fixture(tests, compile_all, fixture_remove_folder);
    tcase_add_test(tests, missing_file_is_not_found);
    tcase_add_test(tests, text_is_no_module);
    tcase_add_loop_test(tests, truncated_module_is_no_module, 0, 6);
    tcase_add_test(tests, folder_is_no_module);
    tcase_add_loop_test(tests, tables_are_checked, 0, 3);
    tcase_add_test(tests, library_without_query_is_no_module);
    tcase_add_loop_test(tests, bind_says_what_does_not_fit, 0, 8);
    tcase_add_test(tests, names_and_missing_bindings);
    tcase_add_test(tests, null_is_refused_everywhere);
    tcase_add_test(tests, sizes_that_no_tensor_has);
    tcase_add_test(tests, devices_that_are_not_there);
    tcase_add_test(tests, token_outside_of_the_table);
    tcase_add_loop_test(tests, run_gives_the_equations, 0, 4);
    tcase_add_test(tests, rows_do_not_depend_on_the_batch);
    tcase_add_loop_test(tests, any_batch_and_any_number_of_steps, 0, 5);
    tcase_add_test(tests, a_stateful_model_has_its_batch);
    tcase_add_test(tests, stateful_layers_carry_their_state);
    tcase_add_test(tests, states_can_be_bound_and_set);
    tcase_add_test(tests, a_bound_state_has_its_own_rows);
    tcase_add_test(tests, unbound_weights_are_the_module_s_again);
    tcase_add_test(tests, sessions_run_on_threads);
    tcase_add_test(tests, infinity_masks_a_step);
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
