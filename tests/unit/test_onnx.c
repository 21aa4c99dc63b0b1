// ONNX files: tensors in every way that a file stores them, external data that has to stay inside
// the model's folder, and what the encoding's limits refuse.
#include <check.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "import/onnx_read.h"
#include "import/onnx_tensor.h"
#include "unit/diags_fixture.h"

static bool parse(const char *bytes, size_t size_bytes, OnnxTensor *out)
{
    return onnx_tensor_parse(arena, diags, "t.pb", (const unsigned char *)bytes, size_bytes, out);
}

#define PARSE(text, out) parse(text, sizeof(text) - 1, out)

START_TEST(raw_data)
{
    OnnxTensor t;
    ck_assert(PARSE("\x08\x02\x08\x01\x10\x01\x42\x01w\x4a\x08\0\0\x80\x3f\0\0\x20\xc1", &t));
    ck_assert_str_eq(t.name, "w");
    ck_assert_int_eq(t.dim_count, 2);
    ck_assert_int_eq(t.dims[0], 2);
    ck_assert_float_eq(t.floats[0], 1);
    ck_assert_float_eq(t.floats[1], -10);
}
END_TEST

START_TEST(typed_fields)
{
    OnnxTensor t;
    ck_assert(PARSE("\x08\x01\x10\x01\x22\x04\0\0\0\x3f", &t)); // float_data, packed
    ck_assert_float_eq(t.floats[0], 0.5f);
    ck_assert(PARSE("\x08\x01\x10\x01\x25\0\0\0\x3f", &t)); // not packed
    ck_assert_float_eq(t.floats[0], 0.5f);
    ck_assert(PARSE("\x08\x01\x10\x0b\x52\x08\0\0\0\0\0\0\xd0\x3f", &t)); // double_data
    ck_assert_float_eq(t.floats[0], 0.25f);
    ck_assert(PARSE("\x08\x01\x10\x0a\x2a\x03\x80\x88\x03", &t)); // float16 0xc400 in int32_data
    ck_assert_float_eq(t.floats[0], -4);
    ck_assert(PARSE("\x08\x02\x10\x07\x3a\x0b\x03\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", &t));
    ck_assert_int_eq(t.integers[0], 3);
    ck_assert_int_eq(t.integers[1], -2);
    ck_assert(PARSE("\x08\x01\x10\x03\x4a\x01\xff", &t)); // int8 in raw_data
    ck_assert_int_eq(t.integers[0], -1);
    ck_assert(PARSE("\x08\x01\x10\x02\x4a\x01\xff", &t)); // uint8
    ck_assert_int_eq(t.integers[0], 255);
}
END_TEST

START_TEST(elements_that_do_not_fit)
{
    OnnxTensor t;
    ck_assert(!PARSE("\x08\x02\x10\x01\x4a\x04\0\0\0\0", &t));
    ck_assert(printed_has("4 bytes of data, but its shape has 2 elements"));
    ck_assert(!PARSE("\x08\x03\x10\x01", &t));
    ck_assert(printed_has("0 elements of type float32"));
    ck_assert(!PARSE("\x08\x01\x10\x08\x4a\x01x", &t));
    ck_assert(printed_has("elements of type 8 are not read"));
    ck_assert(!PARSE("\x08\xff\xff\xff\xff\xff\xff\xff\xff\x3f\x08\0\x10\x01", &t));
    ck_assert(printed_has("or all are too large"));
}
END_TEST

START_TEST(encoding_that_is_no_message)
{
    OnnxTensor t;
    ck_assert(!PARSE("\x08", &t));
    ck_assert(printed_has("a number is cut short"));
    ck_assert(!PARSE("\x4a\x7f", &t));
    ck_assert(printed_has("a field is longer than what holds it"));
    ck_assert(!PARSE("\x0b", &t));
    ck_assert(printed_has("unknown wire type"));
}
END_TEST

/// graph -> node -> attribute -> graph -> ..., `levels` deep, from the inside out.
START_TEST(nesting_is_bounded)
{
    static const unsigned char tags[] = {0x32, 0x2a, 0x0a}; // g, attribute, node
    enum { LEVELS = 61 };
    unsigned char bytes[4 * LEVELS];
    size_t start = sizeof bytes;
    for (int i = 0; i < LEVELS; i++) {
        const size_t inner = sizeof bytes - start;
        if (inner > 127)
            bytes[--start] = (unsigned char)(inner >> 7);
        bytes[--start] = (unsigned char)(inner > 127 ? (inner & 127) | 128 : inner);
        bytes[--start] = i == LEVELS - 1 ? 0x3a : tags[i % 3];
    }
    ck_assert_ptr_null(
        onnx_read_bytes(arena, diags, "deep.onnx", bytes + start, sizeof bytes - start));
    ck_assert(printed_has("nested more than 32 deep"));
}
END_TEST

/// A tensor of one float in the external file `location`.
static bool read_external(const char *folder, const char *location)
{
    char bytes[256];
    const size_t length = strlen(location);
    const int size =
        snprintf(bytes, sizeof bytes, "\x08\x01\x10\x01\x70\x01\x6a%c\x0a\x08location\x12%c%s",
                 (char)(12 + length), (char)length, location);
    const char *path = arena_format(arena, "%s/in/model.onnx", folder);
    OnnxTensor t;
    return onnx_tensor_parse(arena, diags, path, (unsigned char *)bytes, (size_t)size, &t) &&
           t.floats[0] == 2;
}

START_TEST(external_data_stays_inside)
{
    char folder[] = "/tmp/rnnc-onnx-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(mkdir(arena_format(arena, "%s/in", folder), 0777), 0);
    ck_assert_int_eq(mkdir(arena_format(arena, "%s/inside", folder), 0777), 0);
    const char *const files[] = {"in/w", "out", "inside/w"};
    for (int i = 0; i < 3; i++)
        ck_assert(file_write(arena, diags, arena_format(arena, "%s/%s", folder, files[i]),
                             &(float){2}, sizeof(float)));
    const char *link = arena_format(arena, "%s/in/link", folder);
    ck_assert_int_eq(symlink("../out", link), 0);
    ck_assert_int_eq(symlink("w", arena_format(arena, "%s/in/near", folder)), 0);
    ck_assert(read_external(folder, "w"));
    ck_assert(read_external(folder, "near"));
    ck_assert(!read_external(folder, "../out"));
    ck_assert(!read_external(folder, "x/../../out"));
    ck_assert(!read_external(folder, "../inside/w"));
    ck_assert(!read_external(folder, arena_format(arena, "%s/in/w", folder)));
    ck_assert(!read_external(folder, "link"));
    ck_assert(printed_has("'link', which is not inside the model's folder"));
    ck_assert(!read_external(folder, "gone"));
    ck_assert(printed_has("No such file"));
    const char *const made[] = {"in/w",    "out", "inside/w", "in/link",
                                "in/near", "in",  "inside",   ""};
    for (int i = 0; i < 8; i++)
        remove(arena_format(arena, "%s/%s", folder, made[i]));
}
END_TEST

#define MODELS RNNC_SOURCE_DIR "/tests/oracles/onnx_models/"

/// Y [T, D, B, H] of the file is y [T, B, D*H], and Y_h [D, B, H] a state for each direction.
START_TEST(case_in_the_names_of_the_module)
{
    static const char *const names[] = {"y", "rnn/fw/h", "rnn/bw/h"};
    const char *folder = MODELS "rnn_bidirectional/test_data_set_0";
    OnnxTensor Y, last;
    OnnxCase found;
    ck_assert(onnx_case_read(arena, diags, MODELS "rnn_bidirectional/model.onnx", folder, &found));
    ck_assert(onnx_tensor_open(arena, diags, arena_format(arena, "%s/output_0.pb", folder), &Y));
    ck_assert(onnx_tensor_open(arena, diags, arena_format(arena, "%s/output_1.pb", folder), &last));
    ck_assert_int_eq(found.output_count, 3);
    for (int i = 0; i < 3; i++)
        ck_assert_str_eq(found.outputs[i].name, names[i]);
    const NpyArray *y = &found.outputs[0].array, *backward = &found.outputs[2].array;
    const int64_t T = Y.dims[0], B = Y.dims[2], H = Y.dims[3];
    ck_assert_int_eq(y->dims[0], T);
    ck_assert_int_eq(y->dims[2], 2 * H);
    for (int64_t t = 0; t < T; t++)
        for (int64_t b = 0; b < B; b++) // unit 1 of the backward direction
            ck_assert_double_eq(npy_element(y, (t * B + b) * 2 * H + H + 1),
                                (double)Y.floats[((t * 2 + 1) * B + b) * H + 1]);
    ck_assert_double_eq(npy_element(backward, H), (double)last.floats[(B + 1) * H]);
}
END_TEST

START_TEST(case_of_another_model)
{
    OnnxCase found;
    ck_assert(!onnx_case_read(arena, diags, MODELS "rnn_bidirectional/model.onnx",
                              MODELS "rnn_forward/test_data_set_0", &found));
    ck_assert(printed_has("elements, is not of the shape that"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("onnx");
    TCase *tests = tcase_create("onnx");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_add_test(tests, raw_data);
    tcase_add_test(tests, typed_fields);
    tcase_add_test(tests, elements_that_do_not_fit);
    tcase_add_test(tests, encoding_that_is_no_message);
    tcase_add_test(tests, nesting_is_bounded);
    tcase_add_test(tests, external_data_stays_inside);
    tcase_add_test(tests, case_in_the_names_of_the_module);
    tcase_add_test(tests, case_of_another_model);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
