// npy and npz: headers written by hand as NumPy writes them, each refusal's words, conversions, and
// archives as numpy.savez_compressed makes them (bytes from Python's zipfile).
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "import/npz.h"
#include "unit/diags_fixture.h"

/// A version `major`.0 file of this header and data.
static bool parse(int major, const char *header, const void *data, size_t data_bytes, NpyArray *out)
{
    size_t length = strlen(header), length_bytes = major == 1 ? 2 : 4;
    size_t start_bytes = 8 + length_bytes;
    unsigned char *bytes = arena_alloc(arena, start_bytes + length + data_bytes);
    memcpy(bytes, "\x93NUMPY", 6);
    bytes[6] = (unsigned char)major;
    for (size_t i = 0; i < length_bytes; i++)
        bytes[8 + i] = (unsigned char)(length >> (8 * i));
    memcpy(bytes + start_bytes, header, length);
    if (data_bytes)
        memcpy(bytes + start_bytes + length, data, data_bytes);
    return npy_parse(arena, diags, "a.npy", (Span){0}, bytes, start_bytes + length + data_bytes,
                     out);
}

START_TEST(versions_1_to_3_are_read)
{
    static const float values[] = {1, -2, 0.5f, 4, 5, 6};
    NpyArray array;
    ck_assert(parse(_i, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }     \n",
                    values, sizeof values, &array));
    ck_assert_int_eq(array.type, NPY_FLOAT32);
    ck_assert_int_eq(array.dim_count, 2);
    ck_assert_int_eq(array.dims[1], 3);
    float out[6];
    npy_to_float(&array, out);
    ck_assert_mem_eq(out, values, sizeof values);
}
END_TEST

START_TEST(other_forms_of_the_header_are_read)
{
    static const unsigned char data[4] = {1, 2, 3, 4};
    NpyArray array;
    ck_assert(
        parse(1, "{\"shape\":(4L,),\"descr\":\"|u1\",\"fortran_order\":False}", data, 4, &array));
    ck_assert_int_eq(array.dim_count, 1);
    ck_assert(parse(1, "{'descr': '<i4', 'fortran_order': False, 'shape': ()}", data, 4, &array));
    ck_assert_int_eq(array.dim_count, 0);
    ck_assert_int_eq(array.elems, 1);
    ck_assert(
        parse(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 0)}", data, 0, &array));
    ck_assert_int_eq(array.elems, 0);
}
END_TEST

START_TEST(every_type_is_converted)
{
    /* float16 1.5 and -infinity; float64 -0.25; int32 -3; int64 2^31; uint8 255 */
    static const unsigned char half[] = {0x00, 0x3e, 0x00, 0xfc};
    static const double wide[] = {-0.25};
    static const int32_t whole[] = {-3};
    static const int64_t big[] = {7, 2147483648};
    static const unsigned char byte[] = {255};
    NpyArray array;
    float out[2];
    int32_t integers[2];
    int64_t bad = 0;
    ck_assert(parse(1, "{'descr': '<f2', 'fortran_order': False, 'shape': (2,)}", half, 4, &array));
    npy_to_float(&array, out);
    ck_assert(out[0] == 1.5f && isinf(out[1]) && out[1] < 0);
    ck_assert(!npy_to_int32(&array, integers, &bad));
    ck_assert_int_eq(bad, -1);
    ck_assert(parse(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", wide, 8, &array));
    npy_to_float(&array, out);
    ck_assert(out[0] == -0.25f);
    ck_assert(
        parse(1, "{'descr': '<i4', 'fortran_order': False, 'shape': (1,)}", whole, 4, &array));
    npy_to_float(&array, out);
    ck_assert(out[0] == -3.0f && npy_to_int32(&array, integers, &bad) && integers[0] == -3);
    ck_assert(parse(1, "{'descr': '<i8', 'fortran_order': False, 'shape': (2,)}", big, 16, &array));
    ck_assert(!npy_to_int32(&array, integers, &bad));
    ck_assert_int_eq(bad, 1);
    ck_assert(parse(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (1,)}", byte, 1, &array));
    ck_assert(npy_to_int32(&array, integers, &bad) && integers[0] == 255);
}
END_TEST

#define SHAPED(shape) "{'descr': '<f4', 'fortran_order': False, 'shape': " shape ", }"

static const struct {
    const char *header;
    size_t data_bytes;
    const char *code, *words;
} broken[] = {
    {"{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1)}", 4, "E0421", "Fortran order"},
    {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", 4, "E0421", "big-endian"},
    {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", 8, "E0421", "type '<c8'"},
    {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", 8, "E0421", "type '|O'"},
    {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", 4, "E0421", "structured"},
    {SHAPED("(2,)"), 4, "E0420", "shape [2] of float32 needs 8 bytes, but 4 follow"},
    {SHAPED("(1,)"), 5, "E0420", "needs 4 bytes, but 5 follow"},
    {SHAPED("(4294967296, 4294967296)"), 4, "E0420", "too large"},
    {SHAPED("(9223372036854775807, 1)"), 4, "E0420", "too large"},
    {SHAPED("(99999999999999999999,)"), 4, "E0420", "malformed"},
    {SHAPED("(-1,)"), 4, "E0420", "malformed"},
    {SHAPED("(1)"), 4, "E0420", "malformed"},
    {SHAPED("(1 1)"), 4, "E0420", "malformed"},
    {SHAPED("(1, 1, 1, 1, 1, 1, 1, 1, 1)"), 4, "E0420", "more than 8 dimensions"},
    {"{'descr': '<f4', 'shape': (1,)}", 4, "E0420", "malformed"},
    {"{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", 4, "E0420", "malformed"},
    {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", 4, "E0420",
     "malformed"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}", 4, "E0420", "malformed"},
    {"{'descr': '<f4", 0, "E0420", "malformed"},
    {"", 0, "E0420", "malformed"},
};

START_TEST(each_fault_is_named)
{
    static const char zeros[16];
    NpyArray array;
    ck_assert(!parse(1, broken[_i].header, zeros, broken[_i].data_bytes, &array));
    ck_assert_uint_eq(diags_error_count(diags), 1);
    ck_assert(printed_has(broken[_i].words));
    ck_assert(printed_has(broken[_i].code));
}
END_TEST

START_TEST(prefixes_cut_short_are_named)
{
    static const unsigned char good[] = "\x93NUMPY\x01\x00\xff\xff{'descr'";
    static const unsigned char version[] = "\x93NUMPY\x04\x00\x01\x00{";
    NpyArray array;
    for (size_t size_bytes = 0; size_bytes < sizeof good; size_bytes++)
        ck_assert(!npy_parse(arena, diags, "a.npy", (Span){0}, good, size_bytes, &array));
    ck_assert_uint_eq(diags_error_count(diags), sizeof good);
    ck_assert(printed_has("the header is cut short"));
    ck_assert(!npy_parse(arena, diags_create(arena), "a.npy", (Span){0}, version, 11, &array));
}
END_TEST

START_TEST(written_header_is_numpys)
{
    static const float values[] = {1, 2, 3};
    const NpyArray array = {NPY_FLOAT32, 1, {3}, 3, (const unsigned char *)values};
    static const char header[] = "\x93NUMPY\x01\x00\x76\x00"
                                 "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
    Text text = {.arena = arena};
    npy_print(&array, &text);
    ck_assert_uint_eq(text.length, 128 + sizeof values);
    ck_assert_mem_eq(text.data, header, sizeof header - 1);
    ck_assert_int_eq(text.data[127], '\n');
    ck_assert_mem_eq(text.data + 128, values, sizeof values);
    NpyArray back;
    ck_assert(npy_parse(arena, diags, "a", (Span){0}, (const unsigned char *)text.data, text.length,
                        &back));
    ck_assert_int_eq(back.dims[0], 3);
}
END_TEST

/// {"enc/h": float32 [[1.5, -2]], "n": int32 -7}, deflated, local headers in zip64 form.
static const unsigned char compressed[] = {
    0x50, 0x4b, 0x03, 0x04, 0x2d, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x21, 0x00, 0xfd, 0xcf,
    0xa5, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x09, 0x00, 0x14, 0x00, 0x65, 0x6e,
    0x63, 0x2f, 0x68, 0x2e, 0x6e, 0x70, 0x79, 0x01, 0x00, 0x10, 0x00, 0x88, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x4d, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x9b, 0xec, 0x17, 0xea, 0x1b,
    0x10, 0xc9, 0xc8, 0x50, 0xc6, 0x50, 0xad, 0x9e, 0x92, 0x5a, 0x9c, 0x5c, 0xa4, 0x6e, 0xa5, 0xa0,
    0x6e, 0x93, 0x66, 0xa2, 0xae, 0xa3, 0xa0, 0x9e, 0x96, 0x5f, 0x54, 0x52, 0x94, 0x98, 0x17, 0x9f,
    0x5f, 0x94, 0x92, 0x0a, 0x12, 0x77, 0x4b, 0xcc, 0x29, 0x4e, 0x05, 0x8a, 0x17, 0x67, 0x24, 0x16,
    0xa4, 0x02, 0xf9, 0x1a, 0x86, 0x3a, 0x0a, 0x46, 0x9a, 0x3a, 0x0a, 0xb5, 0x0a, 0x64, 0x03, 0x2e,
    0x06, 0x86, 0x03, 0xf6, 0x0c, 0x40, 0x02, 0x00, 0x50, 0x4b, 0x03, 0x04, 0x2d, 0x00, 0x00, 0x00,
    0x08, 0x00, 0x00, 0x00, 0x21, 0x00, 0x8a, 0x6a, 0xb6, 0xd2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0x05, 0x00, 0x14, 0x00, 0x6e, 0x2e, 0x6e, 0x70, 0x79, 0x01, 0x00, 0x10, 0x00, 0x84,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x47, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x9b,
    0xec, 0x17, 0xea, 0x1b, 0x10, 0xc9, 0xc8, 0x50, 0xc6, 0x50, 0xad, 0x9e, 0x92, 0x5a, 0x9c, 0x5c,
    0xa4, 0x6e, 0xa5, 0xa0, 0x6e, 0x93, 0x69, 0xa2, 0xae, 0xa3, 0xa0, 0x9e, 0x96, 0x5f, 0x54, 0x52,
    0x94, 0x98, 0x17, 0x9f, 0x5f, 0x94, 0x92, 0x0a, 0x12, 0x77, 0x4b, 0xcc, 0x29, 0x4e, 0x05, 0x8a,
    0x17, 0x67, 0x24, 0x16, 0xa4, 0x02, 0xf9, 0x1a, 0x9a, 0x3a, 0x0a, 0xb5, 0x0a, 0x14, 0x01, 0xae,
    0x9f, 0xff, 0xff, 0xff, 0x07, 0x00, 0x50, 0x4b, 0x01, 0x02, 0x2d, 0x03, 0x2d, 0x00, 0x00, 0x00,
    0x08, 0x00, 0x00, 0x00, 0x21, 0x00, 0xfd, 0xcf, 0xa5, 0x08, 0x4d, 0x00, 0x00, 0x00, 0x88, 0x00,
    0x00, 0x00, 0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, 0x01,
    0x00, 0x00, 0x00, 0x00, 0x65, 0x6e, 0x63, 0x2f, 0x68, 0x2e, 0x6e, 0x70, 0x79, 0x50, 0x4b, 0x01,
    0x02, 0x2d, 0x03, 0x2d, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x21, 0x00, 0x8a, 0x6a, 0xb6,
    0xd2, 0x47, 0x00, 0x00, 0x00, 0x84, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x80, 0x01, 0x88, 0x00, 0x00, 0x00, 0x6e, 0x2e, 0x6e, 0x70, 0x79,
    0x50, 0x4b, 0x05, 0x06, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x02, 0x00, 0x6a, 0x00, 0x00, 0x00,
    0x06, 0x01, 0x00, 0x00, 0x00, 0x00};

START_TEST(deflated_archives_are_read)
{
    const Npz *archive = npz_parse(arena, diags, "s.npz", (Span){0}, compressed, sizeof compressed);
    ck_assert_ptr_nonnull(archive);
    ck_assert_int_eq(archive->count, 2);
    const NpyArray *h = npz_find(archive, "enc/h");
    ck_assert_ptr_nonnull(h);
    ck_assert_int_eq(h->dims[1], 2);
    float out[2];
    npy_to_float(h, out);
    ck_assert(out[0] == 1.5f && out[1] == -2.0f);
    int32_t n = 0;
    int64_t bad = 0;
    ck_assert(npy_to_int32(npz_find(archive, "n"), &n, &bad) && n == -7);
    ck_assert_ptr_null(npz_find(archive, "enc/c"));
}
END_TEST

/// One byte of the archive changed: directory at 262, end record at 368.
static const struct {
    size_t at;
    unsigned char value;
    const char *code, *words;
} damage[] = {
    {0, 0, "E0430", "lies outside"},           {80, 0x55, "E0430", "is damaged"},
    {262, 0, "E0430", "directory is damaged"}, {262 + 8, 1, "E0431", "encrypted"},
    {262 + 10, 12, "E0431", "method 12"},      {262 + 16, 0, "E0430", "checksum"},
    {262 + 24, 0x89, "E0430", "is damaged"},   {262 + 27, 0x7f, "E0430", "cannot be"},
    {262 + 28, 0xff, "E0430", "cut short"},    {262 + 44, 0x70, "E0430", "lies outside"},
    {368, 0, "E0430", "not a zip file"},       {368 + 4, 1, "E0431", "several files"},
    {368 + 8, 3, "E0431", "several files"},    {368 + 12, 0, "E0430", "does not lie"},
    {368 + 16, 0, "E0430", "does not lie"},    {368 + 20, 1, "E0430", "not a zip file"},
};

START_TEST(each_damage_is_named)
{
    unsigned char bytes[sizeof compressed];
    memcpy(bytes, compressed, sizeof bytes);
    bytes[damage[_i].at] = damage[_i].value;
    ck_assert_ptr_null(npz_parse(arena, diags, "s.npz", (Span){0}, bytes, sizeof bytes));
    ck_assert(printed_has(damage[_i].words));
    ck_assert(printed_has(damage[_i].code));
}
END_TEST

START_TEST(written_archives_read_back)
{
    static const float values[] = {1, 2};
    static const int32_t whole = 5;
    const NpzMember members[] = {
        {"a/h", {NPY_FLOAT32, 2, {1, 2}, 2, (const unsigned char *)values}},
        {"k", {NPY_INT32, 0, {0}, 1, (const unsigned char *)&whole}}};
    char path[] = "/tmp/rnnc_npz_XXXXXX";
    close(mkstemp(path));
    ck_assert(npz_write(arena, diags, path, members, 2));
    const Npz *archive = npz_open(arena, diags, path, (Span){0});
    unlink(path);
    ck_assert_ptr_nonnull(archive);
    ck_assert_mem_eq(npz_find(archive, "a/h")->data, values, sizeof values);
    ck_assert_mem_eq(npz_find(archive, "k")->data, &whole, sizeof whole);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("npy");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_add_loop_test(tests, versions_1_to_3_are_read, 1, 4);
    tcase_add_test(tests, other_forms_of_the_header_are_read);
    tcase_add_test(tests, every_type_is_converted);
    tcase_add_loop_test(tests, each_fault_is_named, 0, sizeof broken / sizeof broken[0]);
    tcase_add_test(tests, prefixes_cut_short_are_named);
    tcase_add_test(tests, written_header_is_numpys);
    tcase_add_test(tests, deflated_archives_are_read);
    tcase_add_loop_test(tests, each_damage_is_named, 0, sizeof damage / sizeof damage[0]);
    tcase_add_test(tests, written_archives_read_back);
    Suite *suite = suite_create("npy");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
