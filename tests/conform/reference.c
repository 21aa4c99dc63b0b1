// The cells one by one. A step works on one row: `pre` holds W*x + b for all gates, `rec` takes
// R*(a state or a computed vector), and the row's states are replaced at the end.
//
//     PyTorch: LSTM, GRU (reset after), RNN. Keras: GRU with reset_after=False. Gers & Schmidhuber
//     2000: peepholes, the output gate sees the new cell state. Sak 2014: projection (lstmp).
//     Greff 2017: coupled gates (cifg). Li 2018: indrnn. Zhou 2016: mgu. Beck 2024: slstm.
#include "conform/reference.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const ReferenceFacts reference_cells[] = {
    {"rnn", 1, 1, 0, 0, 1, {"h"}},
    {"lstm", 4, 4, 0, 0, 2, {"h", "c"}},
    {"gru", 3, 3, 1, 0, 1, {"h"}},
    {"gru_before", 3, 3, 0, 0, 1, {"h"}},
    {"peephole_lstm", 4, 4, 0, 3, 2, {"h", "c"}},
    {"lstmp", 4, 4, 0, 0, 2, {"h", "c"}},
    {"cifg_lstm", 3, 3, 0, 0, 2, {"h", "c"}},
    {"indrnn", 1, 0, 0, 1, 1, {"h"}},
    {"mgu", 2, 2, 0, 0, 1, {"h"}},
    {"slstm", 4, 4, 0, 0, 4, {"h", "c", "n", "m"}},
    {NULL, 0, 0, 0, 0, 0, {NULL}},
};

/// One row at one step.
typedef struct {
    const ReferenceCell *cell;
    int64_t H;
    double *pre, *rec, *vector; ///< [G*H], [G*H], [H]
    double *h, *c, *n, *m;      ///< the row's states, NULL where the cell has none
} Step;

const ReferenceFacts *reference_facts(const char *cell)
{
    for (const ReferenceFacts *facts = reference_cells; facts->name; facts++)
        if (strcmp(facts->name, cell) == 0)
            return facts;
    return NULL;
}

int64_t reference_outputs(const ReferenceCell *cell)
{
    return cell->projection ? cell->projection : cell->units;
}

int64_t reference_state_size(const ReferenceCell *cell, int index)
{
    return index == 0 ? reference_outputs(cell) : cell->units;
}

double reference_state_start(const ReferenceCell *cell, int index)
{
    return cell->facts->states[index][0] == 'm' ? -INFINITY : 0.0;
}

/// out[r] = sum over c of matrix[r, c] * vector[c].
static void multiply(const float *matrix, int64_t rows, int64_t columns, const double *vector,
                     double *out)
{
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0.0;
        for (int64_t c = 0; c < columns; c++)
            sum += (double)matrix[r * columns + c] * vector[c];
        out[r] = sum;
    }
}

static double activate(const Step *step, double x)
{
    return reference_activation(&step->cell->activation, x);
}

static double gate(const Step *step, double x)
{
    return reference_activation(&step->cell->recurrent_activation, x);
}

static double activate_output(const Step *step, double x)
{
    return reference_activation(&step->cell->output_activation, x);
}

static double log_logistic(double x)
{
    return x >= 0.0 ? -log1p(exp(-x)) : x - log1p(exp(x));
}

static void step_rnn(Step *step)
{
    multiply(step->cell->R, step->H, step->H, step->h, step->rec);
    for (int64_t u = 0; u < step->H; u++)
        step->h[u] = activate(step, step->pre[u] + step->rec[u]);
}

/// Gates i f g o.
static void step_lstm(Step *step)
{
    const int64_t H = step->H;
    const double *pre = step->pre, *rec = step->rec;
    multiply(step->cell->R, 4 * H, H, step->h, step->rec);
    for (int64_t u = 0; u < H; u++) {
        const double i = gate(step, pre[u] + rec[u]);
        const double f = gate(step, pre[H + u] + rec[H + u]);
        const double g = activate(step, pre[2 * H + u] + rec[2 * H + u]);
        const double o = gate(step, pre[3 * H + u] + rec[3 * H + u]);
        step->c[u] = f * step->c[u] + i * g;
        step->h[u] = o * activate_output(step, step->c[u]);
    }
}

/// Gates r z n; n = act(W.n x + b.n + r (R.n h + rb.n)), h' = (1 - z) n + z h.
static void step_gru(Step *step)
{
    const int64_t H = step->H;
    const double *pre = step->pre, *rec = step->rec;
    multiply(step->cell->R, 3 * H, H, step->h, step->rec);
    for (int64_t u = 0; u < H; u++) {
        const double own = step->cell->rb ? (double)step->cell->rb[u] : 0.0;
        const double r = gate(step, pre[u] + rec[u]);
        const double z = gate(step, pre[H + u] + rec[H + u]);
        const double n = activate(step, pre[2 * H + u] + r * (rec[2 * H + u] + own));
        step->h[u] = (1.0 - z) * n + z * step->h[u];
    }
}

/// The same with n = act(W.n x + b.n + R.n (r h)).
static void step_gru_before(Step *step)
{
    const int64_t H = step->H;
    const double *pre = step->pre;
    double *rec = step->rec;
    multiply(step->cell->R, 2 * H, H, step->h, rec);
    for (int64_t u = 0; u < H; u++)
        step->vector[u] = gate(step, pre[u] + rec[u]) * step->h[u];
    multiply(step->cell->R + 2 * H * H, H, H, step->vector, rec + 2 * H);
    for (int64_t u = 0; u < H; u++) {
        const double z = gate(step, pre[H + u] + rec[H + u]);
        const double n = activate(step, pre[2 * H + u] + rec[2 * H + u]);
        step->h[u] = (1.0 - z) * n + z * step->h[u];
    }
}

/// Gates i f g o, peepholes i f o; i and f see the old cell state, o the new one.
static void step_peephole_lstm(Step *step)
{
    const int64_t H = step->H;
    const double *pre = step->pre, *rec = step->rec;
    const float *p = step->cell->p;
    multiply(step->cell->R, 4 * H, H, step->h, step->rec);
    for (int64_t u = 0; u < H; u++) {
        const double old = step->c[u];
        const double i = gate(step, pre[u] + rec[u] + (double)p[u] * old);
        const double f = gate(step, pre[H + u] + rec[H + u] + (double)p[H + u] * old);
        const double g = activate(step, pre[2 * H + u] + rec[2 * H + u]);
        const double c = f * old + i * g;
        const double o = gate(step, pre[3 * H + u] + rec[3 * H + u] + (double)p[2 * H + u] * c);
        step->c[u] = c;
        step->h[u] = o * activate_output(step, c);
    }
}

/// lstm whose output is projected: h' = P (o act(c')), and R takes the projected h.
static void step_lstmp(Step *step)
{
    const int64_t H = step->H, O = reference_outputs(step->cell);
    const double *pre = step->pre, *rec = step->rec;
    multiply(step->cell->R, 4 * H, O, step->h, step->rec);
    for (int64_t u = 0; u < H; u++) {
        const double i = gate(step, pre[u] + rec[u]);
        const double f = gate(step, pre[H + u] + rec[H + u]);
        const double g = activate(step, pre[2 * H + u] + rec[2 * H + u]);
        const double o = gate(step, pre[3 * H + u] + rec[3 * H + u]);
        step->c[u] = f * step->c[u] + i * g;
        step->vector[u] = o * activate_output(step, step->c[u]);
    }
    multiply(step->cell->P, O, H, step->vector, step->h);
}

/// Gates i g o; f = 1 - i.
static void step_cifg_lstm(Step *step)
{
    const int64_t H = step->H;
    const double *pre = step->pre, *rec = step->rec;
    multiply(step->cell->R, 3 * H, H, step->h, step->rec);
    for (int64_t u = 0; u < H; u++) {
        const double i = gate(step, pre[u] + rec[u]);
        const double g = activate(step, pre[H + u] + rec[H + u]);
        const double o = gate(step, pre[2 * H + u] + rec[2 * H + u]);
        step->c[u] = (1.0 - i) * step->c[u] + i * g;
        step->h[u] = o * activate_output(step, step->c[u]);
    }
}

static void step_indrnn(Step *step)
{
    for (int64_t u = 0; u < step->H; u++)
        step->h[u] = activate(step, step->pre[u] + (double)step->cell->p[u] * step->h[u]);
}

/// Gates f n; n = act(W.n x + R.n (f h) + b.n), h' = (1 - f) h + f n.
static void step_mgu(Step *step)
{
    const int64_t H = step->H;
    double *pre = step->pre, *rec = step->rec;
    multiply(step->cell->R, H, H, step->h, rec);
    for (int64_t u = 0; u < H; u++) {
        pre[u] = gate(step, pre[u] + rec[u]);
        step->vector[u] = pre[u] * step->h[u];
    }
    multiply(step->cell->R + H * H, H, H, step->vector, rec + H);
    for (int64_t u = 0; u < H; u++) {
        const double f = pre[u], n = activate(step, pre[H + u] + rec[H + u]);
        step->h[u] = (1.0 - f) * step->h[u] + f * n;
    }
}

/// Gates z o i f; the exponential gates are kept in range by the running maximum m.
static void step_slstm(Step *step)
{
    const int64_t H = step->H;
    const double *pre = step->pre, *rec = step->rec;
    multiply(step->cell->R, 4 * H, H, step->h, step->rec);
    for (int64_t u = 0; u < H; u++) {
        const double z = activate(step, pre[u] + rec[u]);
        const double o = gate(step, pre[H + u] + rec[H + u]);
        const double i = pre[2 * H + u] + rec[2 * H + u];
        const double f = log_logistic(pre[3 * H + u] + rec[3 * H + u]);
        const double m = fmax(f + step->m[u], i);
        const double input = exp(i - m), forget = exp(f + step->m[u] - m);
        step->c[u] = forget * step->c[u] + input * z;
        step->n[u] = forget * step->n[u] + input;
        step->m[u] = m;
        step->h[u] = o * step->c[u] / step->n[u];
    }
}

/// In the order of reference_cells.
static void (*const steps[])(Step *) = {
    step_rnn,   step_lstm,      step_gru,    step_gru_before, step_peephole_lstm,
    step_lstmp, step_cifg_lstm, step_indrnn, step_mgu,        step_slstm,
};

static double *zeros(int64_t count)
{
    double *values = calloc((size_t)count + 1, sizeof *values);
    assert(values);
    return values;
}

void reference_cell_run(const ReferenceCell *cell, int64_t batch, int64_t timesteps,
                        const double *x, double *const states[REFERENCE_STATES_MAX], double *y)
{
    const int64_t H = cell->units, O = reference_outputs(cell), gates = cell->facts->gates;
    void (*const run)(Step *) = steps[cell->facts - reference_cells];
    Step step = {.cell = cell, .H = H};
    step.pre = zeros(gates * H);
    step.rec = zeros(gates * H);
    step.vector = zeros(H);
    for (int64_t row = 0; row < batch; row++) {
        double **const of_row[] = {&step.h, &step.c, &step.n, &step.m};
        for (int k = 0; k < cell->facts->state_count; k++)
            *of_row[k] = states[k] + row * reference_state_size(cell, k);
        for (int64_t t = 0; t < timesteps; t++) {
            const int64_t at = row * timesteps + t;
            multiply(cell->W, gates * H, cell->inputs, x + at * cell->inputs, step.pre);
            for (int64_t g = 0; cell->b && g < gates * H; g++)
                step.pre[g] += (double)cell->b[g];
            run(&step);
            memcpy(y + at * O, step.h, (size_t)O * sizeof *y);
        }
    }
    free(step.pre);
    free(step.rec);
    free(step.vector);
}

void reference_dense(const float *W, const float *b, const ReferenceActivation *activation,
                     int64_t rows, int64_t inputs, int64_t outputs, const double *x, double *y)
{
    for (int64_t row = 0; row < rows; row++) {
        multiply(W, outputs, inputs, x + row * inputs, y + row * outputs);
        for (int64_t o = 0; o < outputs; o++) {
            double *value = &y[row * outputs + o];
            *value = reference_activation(activation, *value + (b ? (double)b[o] : 0.0));
        }
    }
}

void reference_embedding(const float *E, int64_t width, int64_t rows, const int32_t *tokens,
                         double *y)
{
    for (int64_t row = 0; row < rows; row++)
        for (int64_t k = 0; k < width; k++)
            y[row * width + k] = (double)E[tokens[row] * width + k];
}
