// Cubin cache and the rebuild at load time: what is written is read back, what is damaged or
// missing is not taken, and a source compiles for a GPU that the module has no cubin for.
#include <check.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "../../runtime/src/cuda/cubin_cache.c"
#include "../../runtime/src/cuda/library.c"
#include "../../runtime/src/cuda/nvrtc.c"
#include "../../runtime/src/memory.c"

static char folder[] = "/tmp/rnnc-cache-XXXXXX";

static void set_up(void)
{
    strcpy(folder + strlen("/tmp/rnnc-cache-"), "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    setenv("XDG_CACHE_HOME", folder, 1);
}

static void tear_down(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(written_cubins_are_read_back)
{
    uint64_t key = rnnc_cubin_key("source", "-O3", 90, 1300);
    ck_assert_ptr_null(rnnc_cubin_cache_read(key));
    rnnc_cubin_cache_write(key, "machine code", 13);
    char *cubin = rnnc_cubin_cache_read(key);
    ck_assert_str_eq(cubin, "machine code");
    rnnc_memory_free(cubin);
}
END_TEST

START_TEST(keys_tell_sources_options_archs_and_versions_apart)
{
    uint64_t key = rnnc_cubin_key("source", "-O3", 90, 1300);
    ck_assert_uint_ne(key, rnnc_cubin_key("sourcf", "-O3", 90, 1300));
    ck_assert_uint_ne(key, rnnc_cubin_key("source", "-O2", 90, 1300));
    ck_assert_uint_ne(key, rnnc_cubin_key("source", "-O3", 80, 1300));
    ck_assert_uint_ne(key, rnnc_cubin_key("source", "-O3", 90, 1290));
    ck_assert_uint_ne(rnnc_cubin_key("ab", "c", 90, 0), rnnc_cubin_key("a", "bc", 90, 0));
}
END_TEST

START_TEST(a_damaged_file_is_not_taken)
{
    char path[PATH_BYTES];
    rnnc_cubin_cache_write(7, "machine code", 13);
    ck_assert(cache_file(7, path));
    FILE *file = fopen(path, "r+b");
    fseek(file, -3, SEEK_END);
    fputc('X', file);
    fclose(file);
    ck_assert_ptr_null(rnnc_cubin_cache_read(7));
    ck_assert_int_eq(truncate(path, 10), 0);
    ck_assert_ptr_null(rnnc_cubin_cache_read(7));
}
END_TEST

START_TEST(no_folder_is_no_fault)
{
    setenv("XDG_CACHE_HOME", "/dev/null", 1);
    rnnc_cubin_cache_write(7, "machine code", 13);
    ck_assert_ptr_null(rnnc_cubin_cache_read(7));
}
END_TEST

START_TEST(no_temporary_file_is_left)
{
    char path[PATH_BYTES];
    rnnc_cubin_cache_write(7, "machine code", 13);
    rnnc_cubin_cache_write(7, "machine code", 13);
    ck_assert(cache_folder(path));
    int count = 0;
    DIR *entries = opendir(path);
    for (struct dirent *entry; (entry = readdir(entries));)
        count += entry->d_name[0] != '.';
    closedir(entries);
    ck_assert_int_eq(count, 1);
}
END_TEST

#ifdef RNNC_CUDA
START_TEST(sources_compile_for_another_gpu_and_faults_are_told)
{
    char log[512];
    size_t bytes = 0;
    const rnnc_nvrtc *nvrtc = rnnc_nvrtc_open();
    ck_assert_ptr_nonnull(nvrtc);
    void *cubin = rnnc_nvrtc_compile(nvrtc, "extern \"C\" __global__ void f(int *a) { *a = 1; }",
                                     "--std=c++17\n--restrict", 80, &bytes, log, sizeof log);
    ck_assert_ptr_nonnull(cubin);
    ck_assert_mem_eq(cubin, "\177ELF", 4);
    rnnc_memory_free(cubin);
    ck_assert_ptr_null(rnnc_nvrtc_compile(nvrtc, "int f() { return undefined_name; }",
                                          "--std=c++17", 80, &bytes, log, sizeof log));
    ck_assert_ptr_nonnull(strstr(log, "undefined_name"));
}
END_TEST
#endif

int main(void)
{
    Suite *suite = suite_create("cubin cache");
    TCase *tests = tcase_create("cubin cache");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, written_cubins_are_read_back);
    tcase_add_test(tests, keys_tell_sources_options_archs_and_versions_apart);
    tcase_add_test(tests, a_damaged_file_is_not_taken);
    tcase_add_test(tests, no_folder_is_no_fault);
    tcase_add_test(tests, no_temporary_file_is_left);
#ifdef RNNC_CUDA
    tcase_add_test(tests, sources_compile_for_another_gpu_and_faults_are_told);
#endif
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
