// The printed pointwise functions of a cell, compiled as double code and opened as a library.
#ifndef RNNC_TESTS_CELL_COMPILED_H
#define RNNC_TESTS_CELL_COMPILED_H

#include <dlfcn.h>

#include "unit/cell_fixture.h"

static const char compiled_prelude[] =
    "#include <math.h>\n#define rnn_f double\n#define RNN_INLINE extern\n"
    "#define RNN_INFINITY HUGE_VAL\n"
    "static double rnn_const(double c) { return c; }\n"
    "#define rnn_lt(a, b) ((a) < (b) ? 1.0 : 0.0)\n#define rnn_le(a, b) ((a) <= (b) ? 1.0 : 0.0)\n"
    "#define rnn_gt(a, b) ((a) > (b) ? 1.0 : 0.0)\n#define rnn_ge(a, b) ((a) >= (b) ? 1.0 : 0.0)\n"
    "#define rnn_select(c, a, b) ((c) != 0 ? (a) : (b))\n"
    "#define rnn_min fmin\n#define rnn_max fmax\n#define rnn_exp exp\n#define rnn_expm1 expm1\n"
    "#define rnn_log log\n#define rnn_sqrt sqrt\n#define rnn_abs fabs\n#define rnn_tanh tanh\n"
    "#define rnn_erf erf\n"
    "static double rnn_sigmoid(double x) { return 1 / (1 + exp(-x)); }\n"
    "static double rnn_log_sigmoid(double x) { return -log1p(exp(-x)); }\n"
    "void *rnn_keep[] = {(void *)rnn_const, (void *)rnn_sigmoid, (void *)rnn_log_sigmoid};\n";

/// Compiles the printed functions as double code into a library and opens it.
static inline void *compiled(Arena *arena, const Cell *cell)
{
    char folder[] = "/tmp/rnnc-cell-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(folder));
    Text text = {.arena = arena};
    text_add(&text, compiled_prelude);
    cell_print_pointwise(cell, &text);
    const char *source = arena_format(arena, "%s/cell.c", folder);
    const char *library = arena_format(arena, "%s/cell.so", folder);
    FILE *file = fopen(source, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text_string(&text), file);
    fclose(file);
    const char *command =
        arena_format(arena, "cc -O0 -w -shared -fPIC -o %s %s -lm", library, source);
    ck_assert_msg(system(command) == 0, "%s\n%s", command, text_string(&text));
    void *handle = dlopen(library, RTLD_NOW);
    ck_assert_msg(handle != NULL, "%s", dlerror());
    unlink(source);
    unlink(library);
    rmdir(folder);
    return handle;
}

typedef void PhaseFunction(const double *input, const double *product, const double *bias,
                           const double *recurrent_bias, const double *parameter,
                           const double *state, const double *carry_in, const double *statistic,
                           double *carry_out, double *state_out);
typedef void MembersFunction(const double *input, const double *product, const double *bias,
                             const double *recurrent_bias, const double *parameter,
                             const double *state, const double *carry_in, double *member);

#endif
