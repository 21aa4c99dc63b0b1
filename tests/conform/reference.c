// The cells one by one. A step works on one row: `pre` holds W*x + b for all gates, `rec` takes
// R*(a state or a computed vector), and the row's states are replaced at the end.
//
//     PyTorch: LSTM, GRU (reset after), RNN. Keras: GRU with reset_after=False. Gers & Schmidhuber
//     2000: peepholes, the output gate sees the new cell state. Sak 2014: projection (lstmp).
//     Greff 2017: coupled gates (cifg). Li 2018: indrnn. Zhou 2016: mgu. Beck 2024: slstm.
//     Ba 2016: layer_norm_lstm. Krueger 2017: zoneout. ONNX: clip, input_forget.
#include "conform/reference.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const ReferenceFacts reference_cells[] = {
    {"rnn", 1, 1, 1, 0, 0, 1, {"h"}},
    {"lstm", 4, 4, 4, 0, 0, 2, {"h", "c"}},
    {"gru", 3, 3, 3, 1, 0, 1, {"h"}},
    {"gru_before", 3, 3, 3, 0, 0, 1, {"h"}},
    {"peephole_lstm", 4, 4, 4, 0, 3, 2, {"h", "c"}},
    {"lstmp", 4, 4, 4, 0, 0, 2, {"h", "c"}},
    {"cifg_lstm", 3, 3, 3, 0, 0, 2, {"h", "c"}},
    {"indrnn", 1, 1, 0, 0, 1, 1, {"h"}},
    {"mgu", 2, 2, 2, 0, 0, 1, {"h"}},
    {"slstm", 4, 4, 4, 0, 0, 4, {"h", "c", "n", "m"}},
    {"layer_norm_lstm", 4, 5, 4, 0, 9, 2, {"h", "c"}},
    {NULL, 0, 0, 0, 0, 0, 0, {NULL}},
};

/// One row at one step.
typedef struct {
    const ReferenceCell *cell;
    int64_t H;
    double *pre, *rec, *vector; ///< [G*H], [G*H], [H]
    double *h, *c, *n, *m;      ///< the row's states, NULL where the cell has none
    const double *scale;        ///< [O], of what R multiplies; NULL: 1
    const ReferenceSequence *sequence;
    int64_t row, time;
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

/// rec[g*H + u] for gates `first` to `first + count` of R times `operand` [O], head by head.
static void recur(Step *step, int first, int count, const double *operand)
{
    const int64_t H = step->H, heads = step->cell->heads > 1 ? step->cell->heads : 1;
    const int64_t columns = reference_outputs(step->cell) / heads;
    for (int64_t r = first * H; r < (first + count) * H; r++) {
        const int64_t from = r % H / (H / heads) * columns;
        double sum = 0.0;
        for (int64_t c = 0; c < columns; c++)
            sum += (double)step->cell->R[r * columns + c] * operand[from + c] *
                   (step->scale ? step->scale[from + c] : 1.0);
        step->rec[r] = sum;
    }
}

static double apply(const Step *step, const ReferenceActivation *activation, double x)
{
    const double clip = step->cell->clip;
    const double low = clip > 0.0 && x < -clip ? -clip : x;
    return reference_activation(activation, clip > 0.0 && x > clip ? clip : low);
}

static double activate(const Step *step, double x)
{
    return apply(step, &step->cell->activation, x);
}

static double gate(const Step *step, double x)
{
    return apply(step, &step->cell->recurrent_activation, x);
}

static double activate_output(const Step *step, double x)
{
    return apply(step, &step->cell->output_activation, x);
}

/// The forget gate, from its pre-activation or from the input gate.
static double forget_gate(const Step *step, double i, double x)
{
    return step->cell->input_forget ? 1.0 - i : gate(step, x);
}

static double log_logistic(double x)
{
    return x >= 0.0 ? -log1p(exp(-x)) : x - log1p(exp(x));
}

static void step_rnn(Step *step)
{
    recur(step, 0, 1, step->h);
    for (int64_t u = 0; u < step->H; u++)
        step->h[u] = activate(step, step->pre[u] + step->rec[u]);
}

/// Gates i f g o.
static void step_lstm(Step *step)
{
    const int64_t H = step->H;
    const double *pre = step->pre, *rec = step->rec;
    recur(step, 0, 4, step->h);
    for (int64_t u = 0; u < H; u++) {
        const double i = gate(step, pre[u] + rec[u]);
        const double f = forget_gate(step, i, pre[H + u] + rec[H + u]);
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
    recur(step, 0, 3, step->h);
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
    const double *pre = step->pre, *rec = step->rec;
    recur(step, 0, 2, step->h);
    for (int64_t u = 0; u < H; u++)
        step->vector[u] = gate(step, pre[u] + rec[u]) * step->h[u];
    recur(step, 2, 1, step->vector);
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
    recur(step, 0, 4, step->h);
    for (int64_t u = 0; u < H; u++) {
        const double old = step->c[u];
        const double i = gate(step, pre[u] + rec[u] + (double)p[u] * old);
        const double f = forget_gate(step, i, pre[H + u] + rec[H + u] + (double)p[H + u] * old);
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
    recur(step, 0, 4, step->h);
    for (int64_t u = 0; u < H; u++) {
        const double i = gate(step, pre[u] + rec[u]);
        const double f = forget_gate(step, i, pre[H + u] + rec[H + u]);
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
    recur(step, 0, 3, step->h);
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
    double *pre = step->pre;
    const double *rec = step->rec;
    recur(step, 0, 1, step->h);
    for (int64_t u = 0; u < H; u++) {
        pre[u] = gate(step, pre[u] + rec[u]);
        step->vector[u] = pre[u] * step->h[u];
    }
    recur(step, 1, 1, step->vector);
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
    recur(step, 0, 4, step->h);
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

/// (v - mean) / sqrt(variance + 1e-5), the variance biased.
static void normalise(double *v, int64_t count)
{
    double mean = 0.0, variance = 0.0;
    for (int64_t k = 0; k < count; k++)
        mean += v[k] / (double)count;
    for (int64_t k = 0; k < count; k++)
        variance += (v[k] - mean) * (v[k] - mean) / (double)count;
    for (int64_t k = 0; k < count; k++)
        v[k] = (v[k] - mean) / sqrt(variance + 1e-5);
}

/// lstm with W*x, R*h (each over all four gates) and c' normalised. Gains p: wi ri wf rf wg rg wo
/// ro c; biases i f g o c.
static void step_layer_norm_lstm(Step *step)
{
    const int64_t H = step->H;
    const float *p = step->cell->p, *b = step->cell->b;
    double *pre = step->pre, *rec = step->rec;
    recur(step, 0, 4, step->h);
    normalise(pre, 4 * H);
    normalise(rec, 4 * H);
    for (int64_t u = 0; u < H; u++) {
        for (int64_t g = 0; g < 4; g++)
            pre[g * H + u] = (double)p[2 * g * H + u] * pre[g * H + u] +
                             (double)p[(2 * g + 1) * H + u] * rec[g * H + u] +
                             (b ? (double)b[g * H + u] : 0.0);
        const double i = gate(step, pre[u]), f = forget_gate(step, i, pre[H + u]);
        step->c[u] = f * step->c[u] + i * activate(step, pre[2 * H + u]);
        step->vector[u] = step->c[u];
    }
    normalise(step->vector, H);
    for (int64_t u = 0; u < H; u++) {
        const double c = (double)p[8 * H + u] * step->vector[u] + (b ? (double)b[4 * H + u] : 0.0);
        step->h[u] = gate(step, pre[3 * H + u]) * activate_output(step, c);
    }
}

/// In the order of reference_cells.
static void (*const steps[])(Step *) = {
    step_rnn,       step_lstm,   step_gru, step_gru_before, step_peephole_lstm,   step_lstmp,
    step_cifg_lstm, step_indrnn, step_mgu, step_slstm,      step_layer_norm_lstm,
};

static double *zeros(int64_t count)
{
    double *values = calloc((size_t)count + 1, sizeof *values);
    assert(values);
    return values;
}

/// s' = rate * s + (1 - rate) * new; in training s or new, by a draw.
static double zoned_out(const Step *step, int state, int64_t unit, double old, double new)
{
    const double rate = step->cell->zoneout[state];
    if (!step->sequence->zones_out)
        return rate * old + (1.0 - rate) * new;
    const ReferenceDraw draw = {.unit = (uint32_t)unit,
                                .row = (uint32_t)step->row,
                                .layer = (uint32_t)step->sequence->layer,
                                .time = (uint32_t)step->time,
                                .recurrent = true,
                                .zoneout = (uint32_t)state + 1};
    return reference_dropout(step->sequence->seed, &draw, rate) > 0.0 ? new : old;
}

/// One step of one row, zoneout included.
static void take_step(Step *step, const double *x)
{
    const ReferenceCell *cell = step->cell;
    const int64_t H = step->H, gates = cell->facts->gates;
    double *const states[] = {step->h, step->c, step->n, step->m};
    double *old[REFERENCE_STATES_MAX];
    for (int k = 0; k < cell->facts->state_count; k++) {
        old[k] = zeros(reference_state_size(cell, k));
        memcpy(old[k], states[k], (size_t)reference_state_size(cell, k) * sizeof(double));
    }
    multiply(cell->W, gates * H, cell->inputs, x, step->pre);
    for (int64_t g = 0; cell->b && cell->facts->biases == gates && g < gates * H; g++)
        step->pre[g] += (double)cell->b[g];
    steps[cell->facts - reference_cells](step);
    for (int k = 0; k < cell->facts->state_count; k++) {
        const double rate = cell->zoneout[k];
        for (int64_t u = 0; rate > 0.0 && u < reference_state_size(cell, k); u++)
            states[k][u] = zoned_out(step, k, u, old[k][u], states[k][u]);
        free(old[k]);
    }
}

/// All steps of one row in processing order. `x` [T, I] and `y` [T, O] or [O] are the row's.
static void run_row(Step *step, const ReferenceSequence *sequence, int64_t row, int64_t timesteps,
                    const double *x, double *y)
{
    const int64_t O = reference_outputs(step->cell);
    const int64_t count = sequence->lengths ? sequence->lengths[row] : timesteps;
    double *output = zeros(O); // of the last step, 0 before the first
    memset(y, 0, (size_t)((sequence->last ? 1 : timesteps) * O) * sizeof *y);
    for (int64_t s = 0; s < count; s++) {
        const int64_t time = sequence->reversed ? count - 1 - s : s;
        const int64_t position = sequence->go_backwards ? s : time;
        const bool masked = sequence->mask && !sequence->mask[row * timesteps + time];
        double *out = sequence->last ? y : y + position * O;
        step->time = time;
        if (!masked) {
            take_step(step, x + time * step->cell->inputs);
            memcpy(output, step->h, (size_t)O * sizeof *output);
        }
        memcpy(out, output, (size_t)O * sizeof *output);
        if (masked && sequence->zero_output_for_mask)
            memset(out, 0, (size_t)O * sizeof *out);
    }
    free(output);
}

void reference_cell_run(const ReferenceCell *cell, const ReferenceSequence *sequence, int64_t batch,
                        int64_t timesteps, const double *x,
                        double *const states[REFERENCE_STATES_MAX], double *y)
{
    static const ReferenceSequence plain = {0};
    const int64_t H = cell->units, O = reference_outputs(cell);
    const ReferenceSequence *order = sequence ? sequence : &plain;
    Step step = {.cell = cell, .H = H, .sequence = order};
    step.pre = zeros(cell->facts->gates * H);
    step.rec = zeros(cell->facts->gates * H);
    step.vector = zeros(H);
    for (int64_t row = 0; row < batch; row++) {
        step.row = row;
        double **const of_row[] = {&step.h, &step.c, &step.n, &step.m};
        for (int k = 0; k < cell->facts->state_count; k++)
            *of_row[k] = states[k] + row * reference_state_size(cell, k);
        step.scale = order->recurrent_scale ? order->recurrent_scale + row * O : NULL;
        run_row(&step, order, row, timesteps, x + row * timesteps * cell->inputs,
                y + row * (order->last ? 1 : timesteps) * O);
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
