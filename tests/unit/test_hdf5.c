// HDF5 files as h5py writes them (tests/fuzz/make_keras_corpus.py), by values that the script put
// there; what leads outside a file, or is damaged, is refused.
#include <check.h>

#include "base/file.h"
#include "import/hdf5.h"
#include "unit/diags_fixture.h"

static Hdf5 *open_file(const char *name)
{
    const unsigned char *bytes = NULL;
    size_t size_bytes = 0;
    const char *path = arena_format(arena, RNNC_SOURCE_DIR "/tests/fuzz/corpus/hdf5/%s", name);
    ck_assert(file_map(diags, path, (Span){0}, &bytes, &size_bytes));
    return hdf5_parse(arena, diags, name, (Span){0}, bytes, size_bytes);
}

/// Quarters from 0 on, as fill_groups has them.
static void check_quarters(const float *values)
{
    diags_print(diags, stderr, false);
    ck_assert_ptr_nonnull(values);
    for (int i = 0; i < 6; i++)
        ck_assert_float_eq(values[i], (float)i / 4);
}

static const char *const both[] = {"groups.h5", "latest.h5"};

START_TEST(groups_floats_and_texts)
{
    Hdf5 *file = open_file(both[_i]);
    ck_assert_ptr_nonnull(file);
    const Hdf5Object *root = hdf5_find(file, ""), *half = hdf5_find(file, "a/b/f2");
    ck_assert(half->is_dataset && half->dim_count == 2);
    ck_assert_int_eq(half->dims[0], 2);
    ck_assert_int_eq(half->dims[1], 3);
    check_quarters(hdf5_floats(file, half));
    check_quarters(hdf5_floats(file, hdf5_find(file, "a/b/f4")));
    check_quarters(hdf5_floats(file, hdf5_find(file, "a/f8")));
    check_quarters(hdf5_bfloats(file, hdf5_find(file, "words16")));
    ck_assert_float_eq(hdf5_floats(file, hdf5_find(file, "a/scalar"))[0], 2.5f);
    ck_assert_ptr_nonnull(hdf5_floats(file, hdf5_find(file, "none")));
    ck_assert_ptr_null(hdf5_find(file, "a/c"));
    ck_assert(!hdf5_find(file, "a")->is_dataset);
    int count = 0;
    const char *const *fixed = hdf5_texts(file, root, "fixed", &count);
    ck_assert_int_eq(count, 2);
    ck_assert_str_eq(fixed[0], "ab");
    ck_assert_str_eq(fixed[1], "c");
    const char *const *names = hdf5_texts(file, root, "names", &count);
    ck_assert_int_eq(count, 3);
    ck_assert_str_eq(names[1], "");
    ck_assert_str_eq(names[2], "three");
    ck_assert_str_eq(hdf5_text(file, root, "keras_version"), "2.4.0");
    ck_assert_ptr_null(hdf5_text(file, root, "number"));
    ck_assert_ptr_null(hdf5_text(file, root, "nothing"));
    ck_assert_uint_eq(diags_error_count(diags), 0);
}
END_TEST

START_TEST(many_links_and_attributes)
{
    Hdf5 *file = open_file("many.h5");
    diags_print(diags, stderr, false);
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < 60; i++) {
        const Hdf5Object *at = hdf5_find(file, arena_format(arena, "links/number_%d", i));
        ck_assert_ptr_nonnull(at);
        ck_assert_float_eq(hdf5_floats(file, at)[0], (float)i);
        ck_assert_str_eq(hdf5_text(file, hdf5_find(file, ""), arena_format(arena, "text_%d", i)),
                         arena_format(arena, "value %d", i));
    }
}
END_TEST

START_TEST(types_that_are_no_weights)
{
    Hdf5 *file = open_file("groups.h5");
    ck_assert_ptr_null(hdf5_floats(file, hdf5_find(file, "words")));
    ck_assert_ptr_null(hdf5_floats(file, hdf5_find(file, "big")));
    ck_assert_ptr_null(hdf5_floats(file, hdf5_find(file, "a")));
    ck_assert_uint_eq(diags_error_count(diags), 3);
    ck_assert(printed_has("'/big' is no dataset of little-endian"));
}
END_TEST

static const char *const chunked[] = {"plain", "gzip", "sum"};

START_TEST(chunks_and_filters)
{
    Hdf5 *file = open_file("chunks.h5");
    const float *values = hdf5_floats(file, hdf5_find(file, chunked[_i]));
    ck_assert_ptr_nonnull(values);
    for (int i = 0; i < 35; i++)
        ck_assert_float_eq(values[i], (float)i);
}
END_TEST

static const struct {
    const char *file, *path, *words;
} refused[] = {
    {"chunks.h5", "lzf", "'/lzf' is under filter 32000"},
    {"chunks.h5", "holes", "'/holes' has chunks that were never written"},
    {"elsewhere.h5", "a", "'/a' is stored in other files"},
    {"virtual.h5", "a", "'/a' is stored in other files"},
    {"soft.h5", NULL, "'b' is a soft link"},
    {"soft_latest.h5", NULL, "'b' is a soft link"},
    {"external.h5", NULL, "'b' is an external link"},
};

START_TEST(what_is_refused)
{
    Hdf5 *file = open_file(refused[_i].file);
    ck_assert_int_eq(file != NULL, refused[_i].path != NULL);
    if (file)
        ck_assert_ptr_null(hdf5_floats(file, hdf5_find(file, refused[_i].path)));
    ck_assert(printed_has(refused[_i].words));
    ck_assert(printed_has("E0441"));
}
END_TEST

/// Every length but the whole is refused, and without a read beyond it (with a sanitizer).
START_TEST(cut_short)
{
    const unsigned char *bytes = NULL;
    size_t size_bytes = 0;
    ck_assert(file_map(diags, RNNC_SOURCE_DIR "/tests/fuzz/corpus/hdf5/weights.h5", (Span){0},
                       &bytes, &size_bytes));
    for (size_t length = 0; length < size_bytes; length += 13) {
        Diags *here = diags_create(arena);
        unsigned char *copy = malloc(length + 1);
        memcpy(copy, bytes, length);
        Hdf5 *file = hdf5_parse(arena, here, "cut.h5", (Span){0}, copy, length);
        const Hdf5Object *last = file ? hdf5_find(file, "layers/gru/cell/vars/2") : NULL;
        ck_assert(!last || !hdf5_floats(file, last) || length > size_bytes - 512);
        ck_assert_int_eq(diags_error_count(here) > 0, !last || !hdf5_floats(file, last));
        free(copy);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hdf5");
    TCase *tests = tcase_create("hdf5");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_add_loop_test(tests, groups_floats_and_texts, 0, 2);
    tcase_add_test(tests, many_links_and_attributes);
    tcase_add_test(tests, types_that_are_no_weights);
    tcase_add_loop_test(tests, chunks_and_filters, 0, 3);
    tcase_add_loop_test(tests, what_is_refused, 0, sizeof refused / sizeof *refused);
    tcase_add_test(tests, cut_short);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
