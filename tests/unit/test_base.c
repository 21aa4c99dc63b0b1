// Base: arenas, texts, suggestions, diagnostics as printed, and files that are written whole or
// not at all.
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/sha256.h"
#include "base/text.h"

static Arena *arena;

static void set_up(void)
{
    arena = arena_create();
}

static void tear_down(void)
{
    arena_destroy(arena);
}

START_TEST(arena_memory_is_zeroed_aligned_and_disjoint)
{
    unsigned char *last = NULL;
    for (size_t size = 1; size < 300000; size = size * 3 + 1) {
        unsigned char *memory = arena_alloc(arena, size);
        ck_assert_uint_eq((size_t)memory % 64, 0);
        for (size_t i = 0; i < size; i++)
            ck_assert_uint_eq(memory[i], 0);
        memset(memory, 0xAB, size);
        ck_assert_ptr_ne(memory, last);
        last = memory;
    }
}
END_TEST

START_TEST(push_keeps_all_elements)
{
    int *items = NULL, count = 0;
    for (int i = 0; i < 1000; i++)
        ARENA_PUSH(arena, items, count, i);
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(items[i], i);
}
END_TEST

START_TEST(text_grows_and_formats)
{
    Text text = {.arena = arena};
    ck_assert_str_eq(text_string(&text), "");
    for (int i = 0; i < 500; i++)
        text_addf(&text, "%d,", i % 10);
    ck_assert_uint_eq(text.length, 1000);
    ck_assert_str_eq(text_string(&text) + 994, "7,8,9,");
    ck_assert_str_eq(text_json_escape(arena, "a\"b\\c\n"), "a\\\"b\\\\c\\u000a");
}
END_TEST

START_TEST(nearest_name_forgives_slips_only)
{
    static const char *const names[] = {"units", "activation", "hidden"};
    ck_assert_str_eq(text_nearest("hiden", names, 3), "hidden");
    ck_assert_str_eq(text_nearest("untis", names, 3), "units");
    ck_assert_str_eq(text_nearest("actvation", names, 3), "activation");
    ck_assert_ptr_null(text_nearest("weather", names, 3));
    ck_assert_ptr_null(text_nearest("units", names, 0));
}
END_TEST

/// What the printer writes for `diags`.
static const char *printed(const Diags *diags, bool json)
{
    char *bytes = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&bytes, &length);
    if (json)
        diags_print_json(diags, out);
    else
        diags_print(diags, out, false);
    fclose(out);
    char *copy = arena_copy(arena, bytes, length);
    free(bytes);
    return copy;
}

static const Source source = {"model.yaml", "rnnc: 1\n\tname: x\n", 17};

START_TEST(diagnostic_has_place_line_caret_and_help)
{
    Diags *diags = diags_create(arena);
    Diag *diag = diag_add(diags, DIAG_E0001, (Span){&source, 2, 2, 4}, "no '%s' here", "name");
    diag_help(diag, "remove it");
    ck_assert_str_eq(printed(diags, false), "model.yaml:2:2: error: no 'name' here [E0001]\n"
                                            "    2 | \tname: x\n"
                                            "      | \t^~~~\n"
                                            "help: remove it\n");
    ck_assert_int_eq(diags_exit_code(diags), 1);
    const char *json = printed(diags, true);
    ck_assert_ptr_nonnull(strstr(json, "\"code\": \"E0001\""));
    ck_assert_ptr_nonnull(strstr(json, "\"line\": 2"));
}
END_TEST

START_TEST(spans_outside_the_text_print_no_line)
{
    Diags *diags = diags_create(arena);
    diag_add(diags, DIAG_E0001, (Span){&source, 40, 9, 3}, "far away");
    ck_assert_str_eq(printed(diags, false), "model.yaml:40:9: error: far away [E0001]\n");
    diags = diags_create(arena);
    diag_add(diags, DIAG_E0001, (Span){&source, 1, 5, 900}, "long");
    ck_assert_str_eq(printed(diags, false), "model.yaml:1:5: error: long [E0001]\n"
                                            "    1 | rnnc: 1\n"
                                            "      |     ^~~\n");
}
END_TEST

START_TEST(twenty_errors_are_shown_and_the_rest_counted)
{
    Diags *diags = diags_create(arena);
    for (int i = 30; i > 0; i--)
        diag_add(diags, DIAG_E0001, (Span){&source, 1, i, 1}, "fault");
    const char *text = printed(diags, false);
    ck_assert_ptr_nonnull(strstr(text, "rnnc: 10 more errors are not shown\n"));
    ck_assert_uint_eq(diags_error_count(diags), 30);
    ck_assert_ptr_eq(strstr(text, "model.yaml:1:11:"), text); // sorted by place
}
END_TEST

START_TEST(environment_faults_exit_with_3)
{
    Diags *diags = diags_create(arena);
    ck_assert_int_eq(diags_exit_code(diags), 0);
    ck_assert(!file_write(arena, diags, "/nonexistent/folder/file", "x", 1));
    ck_assert_int_eq(diags_exit_code(diags), 3);
}
END_TEST

START_TEST(codes_are_found_by_name)
{
    ck_assert_int_eq(diag_find("e0001"), DIAG_E0001);
    ck_assert_int_eq(diag_find("E9999"), DIAG_COUNT);
    for (int code = 0; code < DIAG_COUNT; code++)
        ck_assert_uint_gt(strlen(diag_explanation((DiagCode)code)), 40);
}
END_TEST

START_TEST(files_are_written_whole_and_read_back)
{
    char folder[] = "/tmp/rnnc-base-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(folder));
    const char *path = arena_format(arena, "%s/out", folder);
    Diags *diags = diags_create(arena);
    ck_assert(file_write(arena, diags, path, "first", 5));
    ck_assert(file_write(arena, diags, path, "second", 6));
    const Source *read = file_read(arena, diags, path, (Span){0});
    ck_assert_str_eq(read->text, "second");
    const unsigned char *data;
    size_t size_bytes;
    ck_assert(file_map(diags, path, (Span){0}, &data, &size_bytes));
    ck_assert_uint_eq(size_bytes, 6);
    ck_assert_ptr_null(file_read(arena, diags, folder, (Span){0})); // a folder is no file
    unlink(path);
    ck_assert_int_eq(rmdir(folder), 0); // no temporary file was left
}
END_TEST

START_TEST(pipes_are_neither_waited_for_nor_replaced)
{
    Diags *diags = diags_create(arena);
    char path[] = "/tmp/test_base.XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(path));
    const char *pipe = arena_format(arena, "%s/pipe", path);
    ck_assert_int_eq(mkfifo(pipe, 0600), 0);
    ck_assert_ptr_null(file_read(arena, diags, pipe, (Span){0}));
    ck_assert(!file_write(arena, diags, pipe, "x", 1));
    struct stat facts;
    ck_assert_int_eq(stat(pipe, &facts), 0);
    ck_assert(S_ISFIFO(facts.st_mode));
    ck_assert_int_eq(unlink(pipe), 0);
    ck_assert_int_eq(rmdir(path), 0);
}
END_TEST

START_TEST(a_link_stays_and_its_file_is_replaced)
{
    Diags *diags = diags_create(arena);
    char path[] = "/tmp/test_base.XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(path));
    const char *name = arena_format(arena, "%s/file", path);
    const char *link = arena_format(arena, "%s/link", path);
    ck_assert(file_write(arena, diags, name, "old", 3));
    ck_assert_int_eq(symlink("file", link), 0);
    ck_assert(file_write(arena, diags, link, "new", 3));
    ck_assert_str_eq(file_read(arena, diags, name, (Span){0})->text, "new");
    struct stat facts;
    ck_assert_int_eq(lstat(link, &facts), 0);
    ck_assert(S_ISLNK(facts.st_mode));
    ck_assert_int_eq(unlink(link), 0);
    ck_assert_int_eq(unlink(name), 0);
    ck_assert_int_eq(rmdir(path), 0);
}
END_TEST

START_TEST(names_resolve_beside_the_spec)
{
    ck_assert_str_eq(file_beside(arena, "a/b.yaml", "c.cell"), "a/c.cell");
    ck_assert_str_eq(file_beside(arena, "b.yaml", "c.cell"), "c.cell");
    ck_assert_str_eq(file_beside(arena, "a/b.yaml", "/c.cell"), "/c.cell");
}
END_TEST

START_TEST(sha256_of_abc)
{
    // FIPS 180-2, appendix B.1
    ck_assert_str_eq(sha256_hex(arena, "abc", 3),
                     "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base");
    TCase *tests = tcase_create("base");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, arena_memory_is_zeroed_aligned_and_disjoint);
    tcase_add_test(tests, push_keeps_all_elements);
    tcase_add_test(tests, text_grows_and_formats);
    tcase_add_test(tests, nearest_name_forgives_slips_only);
    tcase_add_test(tests, diagnostic_has_place_line_caret_and_help);
    tcase_add_test(tests, spans_outside_the_text_print_no_line);
    tcase_add_test(tests, twenty_errors_are_shown_and_the_rest_counted);
    tcase_add_test(tests, environment_faults_exit_with_3);
    tcase_add_test(tests, codes_are_found_by_name);
    tcase_add_test(tests, files_are_written_whole_and_read_back);
    tcase_add_test(tests, pipes_are_neither_waited_for_nor_replaced);
    tcase_add_test(tests, a_link_stays_and_its_file_is_replaced);
    tcase_add_test(tests, names_resolve_beside_the_spec);
    tcase_add_test(tests, sha256_of_abc);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
