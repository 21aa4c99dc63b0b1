// Imported models: the text of the spec, and that what is written is taken by the compiler's own
// front end, weights and all.
#include <check.h>
#include <sys/stat.h>
#include <unistd.h>

#include "import/imported.h"
#include "model/model.h"
#include "unit/diags_fixture.h"

static const float ones[64] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                               1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

static Imported *make(void)
{
    Imported *model = imported_create(arena, "/tmp/x/net.pt", "a PyTorch state_dict");
    imported_input(model, "features", "3", "from weight_ih_l0");
    ImportedLayer *layer = imported_add(model, "cell", "rnn", "enc");
    imported_note(layer, "RNN\nof two units");
    imported_set(layer, "units", "2", NULL);
    imported_weight(layer, "W", 2, 3, ones);
    imported_weight(layer, "R", 2, 2, ones);
    imported_weight(layer, "b", 2, 1, ones + 31);
    return model;
}

START_TEST(text_of_the_spec)
{
    ck_assert_str_eq(imported_spec(arena, make(), "w.safetensors"),
                     "# From net.pt, a PyTorch state_dict.\n"
                     "rnnc: 1\n"
                     "input:\n"
                     "  features: 3 # from weight_ih_l0\n"
                     "layers:\n"
                     "  # RNN\n"
                     "  # of two units\n"
                     "  - cell: rnn\n"
                     "    name: enc\n"
                     "    units: 2\n"
                     "weights: {file: w.safetensors, convention: canonical}\n");
}
END_TEST

START_TEST(what_is_written_is_a_model)
{
    char folder[] = "/tmp/rnnc-imported-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(folder));
    const char *into = arena_format(arena, "%s/new", folder);
    const char *spec = arena_format(arena, "%s/model.yaml", into);
    const char *weights = arena_format(arena, "%s/model.safetensors", into);
    ck_assert(imported_write(arena, diags, make(), into));
    ck_assert(imported_write(arena, diags, make(), into)); // over what is there
    const Spec *read = spec_read(arena, diags, spec);
    const Model *model = read ? model_build(arena, diags, read) : NULL;
    diags_print(diags, stderr, false);
    ck_assert_ptr_nonnull(model);
    ck_assert_int_eq(model->layers[0].units, 2);
    ck_assert_float_eq(model->layers[0].weights[WEIGHT_b].data[1], ones[32]);
    unlink(spec);
    unlink(weights);
    rmdir(into);
    rmdir(folder);
}
END_TEST

START_TEST(folder_that_cannot_be_made)
{
    ck_assert(!imported_write(arena, diags, make(), "/tmp/no/such/folder"));
    ck_assert(printed_has("cannot make the folder '/tmp/no/such/folder': No such file"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("imported");
    TCase *tests = tcase_create("imported");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_add_test(tests, text_of_the_spec);
    tcase_add_test(tests, what_is_written_is_a_model);
    tcase_add_test(tests, folder_that_cannot_be_made);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
