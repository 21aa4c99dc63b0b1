// Safetensors: each rule of the format broken once, values of each float dtype against bit patterns
// written by hand, and a file written and read back.
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "import/safetensors.h"
#include "unit/diags_fixture.h"

/// A file with this header and `data_bytes` of the given data.
static const Safetensors *parse(const char *header, const void *data, size_t data_bytes)
{
    size_t length = strlen(header);
    unsigned char *bytes = arena_alloc(arena, 8 + length + data_bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)length >> (8 * i));
    memcpy(bytes + 8, header, length);
    if (data_bytes)
        memcpy(bytes + 8 + length, data, data_bytes);
    return safetensors_parse(arena, diags, "w.safetensors", (Span){0}, bytes,
                             8 + length + data_bytes);
}

static char *printed(void)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    diags_print(diags, out, false);
    fclose(out);
    return text;
}

START_TEST(reads_two_tensors_in_file_order)
{
    static const float values[] = {1.5f, -2, 3, 4};
    const Safetensors *file =
        parse("{\"__metadata__\":{\"format\":\"pt\"},"
              "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[12,16]},"
              "\"a\":{\"dtype\":\"F32\",\"shape\":[3,1],\"data_offsets\":[0,12]}}   ",
              values, sizeof values);
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(file->count, 2);
    ck_assert_str_eq(file->tensors[0].name, "a");
    ck_assert_int_eq(file->tensors[0].dim_count, 2);
    ck_assert_int_eq(file->tensors[0].dims[0], 3);
    float out[3];
    ck_assert(safetensors_to_float(&file->tensors[0], out));
    ck_assert(out[0] == 1.5f && out[1] == -2.0f && out[2] == 3.0f);
    ck_assert_ptr_null(safetensors_find(file, "c"));
}
END_TEST

START_TEST(scalars_and_empty_tensors_are_allowed)
{
    static const float value = 7;
    const Safetensors *file =
        parse("{\"e\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[0,0]},"
              "\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}",
              &value, sizeof value);
    ck_assert_ptr_nonnull(file);
    float out = 0;
    ck_assert(safetensors_to_float(safetensors_find(file, "s"), &out));
    ck_assert(out == 7.0f);
}
END_TEST

START_TEST(half_and_double_are_widened)
{
    /* float16 1.0, -2.0, smallest subnormal, infinity; bfloat16 1.0, -0.5; float64 0.25 */
    static const unsigned char data[] = {0x00, 0x3c, 0x00, 0xc0, 0x01, 0x00, 0x00, 0x7c,
                                         0x80, 0x3f, 0x00, 0xbf, 0,    0,    0,    0,
                                         0,    0,    0xd0, 0x3f, 1,    0};
    const Safetensors *file =
        parse("{\"h\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[0,8]},"
              "\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[8,12]},"
              "\"d\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[12,20]},"
              "\"i\":{\"dtype\":\"I16\",\"shape\":[1],\"data_offsets\":[20,22]}}",
              data, sizeof data);
    ck_assert_ptr_nonnull(file);
    float out[4];
    ck_assert(safetensors_to_float(safetensors_find(file, "h"), out));
    ck_assert(out[0] == 1.0f && out[1] == -2.0f && out[2] == 0x1p-24f && isinf(out[3]));
    ck_assert(safetensors_to_float(safetensors_find(file, "b"), out));
    ck_assert(out[0] == 1.0f && out[1] == -0.5f);
    ck_assert(safetensors_to_float(safetensors_find(file, "d"), out));
    ck_assert(out[0] == 0.25f);
    ck_assert(!safetensors_to_float(safetensors_find(file, "i"), out));
}
END_TEST

#define A(shape, offsets)                                                                          \
    "{\"a\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define TWO(first, second)                                                                         \
    "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":" first "},"                         \
    "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":" second "}}"

/// Header, bytes of data, and what the diagnostic must say.
static const struct {
    const char *header;
    size_t data_bytes;
    const char *code, *words;
} broken[] = {
    {"", 0, "E0402", "does not begin with '{'"},
    {" {}", 0, "E0402", "does not begin with '{'"},
    {"[]", 0, "E0402", "does not begin with '{'"},
    {"{\"a\":", 0, "E0402", "header, byte"},
    {"{} x", 0, "E0402", "header, byte"},
    {"{\"\xff\":1}", 0, "E0402", "header, byte"},
    {"{\"a\":{},\"a\":{}}", 0, "E0402", "duplicate"},
    {"{\"__metadata__\":[]}", 0, "E0402", "not an object"},
    {"{\"__metadata__\":{\"k\":1}}", 0, "E0402", "'k' is not text"},
    {"{\"a\":3}", 0, "E0403", "not described by an object"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "E0403", "has no dtype"},
    {"{\"a\":{\"dtype\":\"F31\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "E0403",
     "unknown dtype 'F31'"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "E0403", "has no shape"},
    {A("[-1]", "[0,4]"), 4, "E0403", "no whole number"},
    {A("[1.0]", "[0,4]"), 4, "E0403", "no whole number"},
    {A("[4294967296,4294967296]", "[0,4]"), 4, "E0403", "too large"},
    {A("[4611686018427387904]", "[0,0]"), 0, "E0403", "too large"},
    {A("[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "E0403", "9 dimensions"},
    {A("[1]", "[0]"), 4, "E0403", "not [begin, end]"},
    {A("[1]", "[0,\"4\"]"), 4, "E0403", "not [begin, end]"},
    {A("[1]", "[4,0]"), 4, "E0403", "run backwards"},
    {A("[1]", "[-4,0]"), 4, "E0403", "run backwards"},
    {A("[2]", "[0,4]"), 4, "E0403", "need 8 bytes, its data_offsets give 4"},
    {A("[2]", "[0,8]"), 4, "E0404", "ends at byte 8 of the data, but the file has only 4"},
    {TWO("[0,4]", "[2,6]"), 6, "E0404", "'a' and 'b' overlap"},
    {TWO("[0,4]", "[0,4]"), 4, "E0404", "overlap"},
    {TWO("[0,4]", "[5,9]"), 9, "E0404", "a hole of 1 bytes before tensor 'b'"},
    {A("[1]", "[4,8]"), 8, "E0404", "a hole of 4 bytes before tensor 'a'"},
    {A("[1]", "[0,4]"), 7, "E0404", "3 bytes after the last tensor"},
};

START_TEST(each_rule_broken_is_named)
{
    static const char zeros[16];
    ck_assert_ptr_null(parse(broken[_i].header, zeros, broken[_i].data_bytes));
    ck_assert_uint_eq(diags_error_count(diags), 1);
    char *text = printed();
    ck_assert_msg(strstr(text, broken[_i].code) && strstr(text, broken[_i].words), "%s: got %s",
                  broken[_i].header, text);
    free(text);
}
END_TEST

static const struct {
    unsigned char bytes[12];
    size_t size_bytes;
    const char *words;
} cut[] = {
    {{0}, 0, "0 bytes are too few"},
    {{2, 0, 0, 0, 0, 0, 0}, 7, "7 bytes are too few"},
    {{3, 0, 0, 0, 0, 0, 0, 0, '{', '}'}, 10, "a header of 3 bytes is announced"},
    {{255, 255, 255, 255, 255, 255, 255, 255, '{', '}'}, 10, "at most 100000000"},
};

START_TEST(lengths_beyond_the_file_are_named)
{
    const Safetensors *file = safetensors_parse(arena, diags, "w.safetensors", (Span){0},
                                                cut[_i].bytes, cut[_i].size_bytes);
    ck_assert_ptr_null(file);
    char *text = printed();
    ck_assert_msg(strstr(text, cut[_i].words) && strstr(text, "E0401"), "got %s", text);
    free(text);
}
END_TEST

START_TEST(written_file_reads_back)
{
    static const float values[] = {1, 2, 3, 4, 5, 6};
    static const int32_t whole[] = {-7};
    static const int64_t dims[] = {2, 3}, one[] = {1};
    static const char *const metadata[] = {"format", "rnnc", NULL};
    const SafetensorsEntry entries[] = {{"enc/W", "F32", dims, 2, values},
                                        {"n", "I32", one, 1, whole}};
    char path[] = "/tmp/rnnc_test_XXXXXX";
    close(mkstemp(path));
    ck_assert(safetensors_write(arena, diags, path, entries, 2, metadata));
    const Safetensors *file = safetensors_open(arena, diags, path, (Span){0});
    unlink(path);
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(file->count, 2);
    const SafetensorsTensor *tensor = safetensors_find(file, "enc/W");
    ck_assert_int_eq(tensor->dims[1], 3);
    ck_assert_mem_eq(tensor->data, values, sizeof values);
    ck_assert_mem_eq(safetensors_find(file, "n")->data, whole, sizeof whole);
}
END_TEST

START_TEST(the_trained_model_is_read)
{
    const Safetensors *file = safetensors_open(
        arena, diags, RNNC_SOURCE_DIR "/specs/shakespeare/weights.safetensors", (Span){0});
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(file->count, 7);
    const SafetensorsTensor *tensor = safetensors_find(file, "gru.weight_hh_l0");
    ck_assert_ptr_nonnull(tensor);
    ck_assert_int_eq(tensor->dims[0], 1536);
    ck_assert_int_eq(tensor->dims[1], 512);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("safetensors");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_add_test(tests, reads_two_tensors_in_file_order);
    tcase_add_test(tests, scalars_and_empty_tensors_are_allowed);
    tcase_add_test(tests, half_and_double_are_widened);
    tcase_add_loop_test(tests, each_rule_broken_is_named, 0, sizeof broken / sizeof broken[0]);
    tcase_add_loop_test(tests, lengths_beyond_the_file_are_named, 0, sizeof cut / sizeof cut[0]);
    tcase_add_test(tests, written_file_reads_back);
    tcase_add_test(tests, the_trained_model_is_read);
    Suite *suite = suite_create("safetensors");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
