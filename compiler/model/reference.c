// Reference: see reference.h. Buffers between layers are arrays of float64, one for each slot:
//
//     values[(row*steps + step)*width + feature]      rows: those of the part
//
// A cell goes through its steps as its schedule says: before the product of a phase the vector that
// it multiplies is evaluated, behind it the norms; the states follow when all phases are done.
#include "model/reference.h"

#include <math.h>
#include <string.h>

#include "cell/cell_schedule.h"

enum { LANES = 8 };

typedef struct {
    double *values;
    int64_t steps, width;
} Buffer;

typedef struct {
    Arena *arena;
    const Model *model;
    const ReferencePart *part;
    int64_t timesteps; ///< of x
    const void *x;
    Buffer *slots;
    Buffer y[2];
} Reference;

const char *reference_refusal(const Model *model)
{
    for (int i = 0; i < model->layer_count && model->spec->dropout_at_inference.value; i++) {
        const Layer *layer = &model->layers[i];
        if (layer->kind == LAYER_DROPOUT || layer->recurrent_dropout > 0)
            return "the model drops at inference";
    }
    return NULL;
}

/// Whether a step's output depends on no later step, and every output has all steps.
static bool has_prefix(const Model *model)
{
    for (int i = 0; i < model->layer_count; i++)
        if (model->layers[i].reversed || !model->layers[i].sequence_out)
            return false;
    return true;
}

static double row_operations(const Model *model)
{
    double operations = 0;
    for (int i = 0; i < model->layer_count; i++)
        for (int kind = 0; kind < WEIGHT_COUNT; kind++) {
            const Weight *weight = &model->layers[i].weights[kind];
            if (kind != WEIGHT_E)
                operations += 2.0 * (double)weight->rows * (double)weight->columns;
        }
    return operations > 0 ? operations : 1;
}

ReferencePart reference_choose(Arena *arena, const Model *model, int64_t batch, int64_t timesteps,
                               double operations)
{
    const double steps = fmax(1, operations / row_operations(model)); // of all rows
    int64_t rows = (int64_t)fmin((double)batch, fmax(1, steps / (double)timesteps));
    int64_t part = timesteps;
    if (has_prefix(model)) {
        rows = rows < 2 && batch > 1 ? 2 : rows;
        part = (int64_t)fmin((double)timesteps, fmax(1, steps / (double)rows));
    }
    ReferencePart out = {.row_count = rows, .timesteps = part};
    out.rows = ARENA_ARRAY(arena, int64_t, rows);
    for (int64_t i = 0; i < rows; i++)
        out.rows[i] = rows == 1 ? 0 : i * (batch - 1) / (rows - 1);
    return out;
}

static double dot(const float *row, const double *vector, int64_t count)
{
    double lanes[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++)
            lanes[k] += (double)row[i + k] * vector[i + k];
    for (; i < count; i++)
        sum += (double)row[i] * vector[i];
    for (int k = 0; k < LANES; k++)
        sum += lanes[k];
    return sum;
}

/// What the leaves of a cell's graph are at one row, step and unit.
typedef struct {
    const Layer *layer;
    const int *domains;
    const double *input; ///< W*x: [gates*H]
    double *products;    ///< [CELL_GATES_MAX + 1][widest]
    double *states[CELL_STATES_MAX];
    double statistics[2 * CELL_GATES_MAX];
    double *values; ///< of the nodes
    int64_t unit, widest;
} CellStep;

/// A vector's element, 0 beyond its end: a unit of H has none of P, and nothing that it computes
/// from that is read.
static double element(const float *vector, int64_t size, int gate, int64_t unit)
{
    return unit < size ? (double)vector[gate * size + unit] : 0;
}

static double leaf(const void *context, const Node *node)
{
    const CellStep *step = context;
    const Layer *layer = step->layer;
    const int64_t H = layer->units, unit = step->unit;
    switch (node->op) {
    case OP_INPUT:
        return unit < H ? step->input[node->index * H + unit] : 0;
    case OP_PRODUCT:
        return step->products[node->index * step->widest + unit];
    case OP_BIAS:
        return element(layer->weights[WEIGHT_b].data, H, node->index, unit);
    case OP_RECURRENT_BIAS:
        return element(layer->weights[WEIGHT_rb].data, H, node->index, unit);
    case OP_PARAMETER:
        return element(layer->weights[WEIGHT_p].data, H, node->index, unit);
    case OP_STATE:
        return unit < layer_domain_size(layer, layer->cell->states[node->index].domain)
                   ? step->states[node->index][unit]
                   : 0;
    case OP_STATISTIC:
        return step->statistics[node->index];
    default:
        return 0;
    }
}

static const double *evaluate(CellStep *step, int64_t unit)
{
    step->unit = unit;
    graph_evaluate(&step->layer->cell->graph, leaf, step, step->values);
    return step->values;
}

/// The vector that a phase multiplies.
static const double *operand_of(CellStep *step, const CellPhase *phase, double *room)
{
    if (phase->operand_is_state)
        return step->states[phase->operand];
    const CellCarry *carry = &step->layer->cell->carries[phase->operand];
    const int64_t size = layer_domain_size(step->layer, carry->domain);
    for (int64_t unit = 0; unit < size; unit++)
        room[unit] = evaluate(step, unit)[carry->node];
    return room;
}

static void multiply(CellStep *step, const CellPhase *phase, double *room)
{
    const Layer *layer = step->layer;
    const double *operand = operand_of(step, phase, room);
    const int64_t size = layer_domain_size(layer, phase->domain);
    const int64_t columns = layer_phase_columns(layer, phase);
    const int64_t block = size / layer_phase_heads(layer, phase);
    const bool is_projection = phase->matrix == MATRIX_P;
    const float *matrix = layer->weights[is_projection ? WEIGHT_P : WEIGHT_R].data;
    for (int r = 0; r < phase->row_count; r++) {
        const int gate = phase->rows[r];
        double *to = step->products + (is_projection ? CELL_GATES_MAX : gate) * step->widest;
        for (int64_t unit = 0; unit < size; unit++)
            to[unit] = dot(matrix + (gate * size + unit) * columns,
                           operand + unit / block * columns, columns);
    }
}

/// Mean and 1 / sqrt(variance + 1e-5) of a norm's vectors.
static void take_norm(CellStep *step, const CellPhase *phase, const CellNorm *norm)
{
    const int64_t size = layer_domain_size(step->layer, phase->domain);
    const double count = (double)(size * norm->member_count);
    double mean = 0, variance = 0;
    for (int64_t unit = 0; unit < size; unit++) {
        const double *values = evaluate(step, unit);
        for (int m = 0; m < norm->member_count; m++)
            mean += values[norm->members[m]] / count;
    }
    for (int64_t unit = 0; unit < size; unit++) {
        const double *values = evaluate(step, unit);
        for (int m = 0; m < norm->member_count; m++)
            variance += pow(values[norm->members[m]] - mean, 2) / count;
    }
    step->statistics[2 * norm->number] = mean;
    step->statistics[2 * norm->number + 1] = 1 / sqrt(variance + 1e-5);
}

/// The states after the step; `next` is room for all of them.
static void advance(CellStep *step, double *next)
{
    const Cell *cell = step->layer->cell;
    for (int64_t unit = 0; unit < step->widest; unit++) {
        const double *values = evaluate(step, unit);
        for (int s = 0; s < cell->state_count; s++)
            next[s * step->widest + unit] = values[cell->states[s].next];
    }
    for (int s = 0; s < cell->state_count; s++)
        memcpy(step->states[s], next + s * step->widest,
               sizeof(double) * (size_t)layer_domain_size(step->layer, cell->states[s].domain));
}

/// A buffer for `view`'s slot with that many steps; made when a layer first writes there.
static Buffer *buffer_of(Reference *reference, const View *view, int64_t steps)
{
    Buffer *buffer = view->slot == SLOT_Y            ? &reference->y[0]
                     : view->slot == SLOT_Y_BACKWARD ? &reference->y[1]
                                                     : &reference->slots[view->slot];
    if (!buffer->values || buffer->steps != steps || buffer->width != view->width) {
        buffer->steps = steps;
        buffer->width = view->width;
        buffer->values =
            ARENA_ARRAY(reference->arena, double, reference->part->row_count *steps * view->width);
    }
    return buffer;
}

/// x's features, or what an earlier layer left.
static const double *read(Reference *reference, const View *view, int64_t row, int64_t step,
                          double *room)
{
    if (view->slot != SLOT_X) {
        const Buffer *buffer = &reference->slots[view->slot];
        return buffer->values + (row * buffer->steps + step) * buffer->width + view->offset;
    }
    const int64_t features = reference->model->features;
    const int64_t at = reference->part->rows[row] * reference->timesteps + step;
    const float *x = (const float *)reference->x + at * features;
    for (int64_t i = 0; i < features; i++)
        room[i] = (double)x[i];
    return room;
}

static double *write_at(Buffer *buffer, const View *view, int64_t row, int64_t step)
{
    return buffer->values + (row * buffer->steps + step) * buffer->width + view->offset;
}

static CellStep start_row(Reference *reference, const Layer *layer, double *input)
{
    const Cell *cell = layer->cell;
    CellStep step = {.layer = layer, .input = input, .widest = layer->units};
    step.widest = layer->projection > layer->units ? layer->projection : layer->units;
    step.values = ARENA_ARRAY(reference->arena, double, cell->graph.count);
    step.products = ARENA_ARRAY(reference->arena, double, (CELL_GATES_MAX + 1) * step.widest);
    for (int s = 0; s < cell->state_count; s++) {
        step.states[s] = ARENA_ARRAY(reference->arena, double, step.widest);
        for (int64_t i = 0; i < step.widest; i++)
            step.states[s][i] = cell->states[s].start;
    }
    return step;
}

static void run_cell(Reference *reference, const Layer *layer)
{
    const Cell *cell = layer->cell;
    const int64_t steps = layer->sequence_in ? reference->part->timesteps : 1;
    const int64_t rows = cell->W.count * layer->units;
    Buffer *to = buffer_of(reference, &layer->out, layer->sequence_out ? steps : 1);
    double *room = ARENA_ARRAY(reference->arena, double, layer->inputs + 1);
    double *input = ARENA_ARRAY(reference->arena, double, rows + 1);
    for (int64_t row = 0; row < reference->part->row_count; row++) {
        CellStep step = start_row(reference, layer, input);
        double *next = ARENA_ARRAY(reference->arena, double, CELL_STATES_MAX *step.widest);
        double *operand = ARENA_ARRAY(reference->arena, double, step.widest);
        for (int64_t s = 0; s < steps; s++) {
            const int64_t time = layer->reversed ? steps - 1 - s : s;
            const double *x = read(reference, &layer->in, row, time, room);
            for (int64_t r = 0; r < rows; r++)
                input[r] = dot(layer->weights[WEIGHT_W].data + r * layer->inputs, x, layer->inputs);
            for (int p = 0; p < cell->phase_count; p++) {
                if (cell->phases[p].row_count > 0)
                    multiply(&step, &cell->phases[p], operand);
                for (int n = 0; n < cell->phases[p].norm_count; n++)
                    take_norm(&step, &cell->phases[p], &cell->phases[p].norms[n]);
            }
            advance(&step, next);
            const int64_t place = !layer->sequence_out ? 0 : layer->go_backwards ? s : time;
            memcpy(write_at(to, &layer->out, row, place), step.states[0],
                   sizeof(double) * (size_t)layer->outputs);
        }
    }
}

static double argument(const void *context, const Node *node)
{
    return node->op == OP_ARGUMENT ? *(const double *)context : 0;
}

/// An activation's graph, its last node the value.
typedef struct {
    Graph graph;
    int node;
    double *values;
} Function;

static Function function_of(Arena *arena, const Activation *activation)
{
    Function function = {.graph = {.arena = arena}};
    const int x = graph_add(&function.graph, (Node){.op = OP_ARGUMENT});
    function.node = activation->name ? activation_apply(&function.graph, activation, x) : x;
    function.values = ARENA_ARRAY(arena, double, function.graph.count);
    return function;
}

static double apply(const Function *function, double x)
{
    graph_evaluate(&function->graph, argument, &x, function->values);
    return function->values[function->node];
}

/// One step of one row of a layer without states.
static void run_step(const Reference *reference, const Layer *layer, const Function *function,
                     int64_t row, int64_t step, const double *x, const double *x2, double *y)
{
    const Weight *W = &layer->weights[WEIGHT_W], *b = &layer->weights[WEIGHT_b];
    for (int64_t i = 0; i < layer->outputs; i++)
        switch (layer->kind) {
        case LAYER_EMBEDDING: {
            const int32_t *tokens = reference->x;
            const int32_t token = tokens[reference->part->rows[row] * reference->timesteps + step];
            y[i] = (double)layer->weights[WEIGHT_E].data[token * layer->outputs + i];
            break;
        }
        case LAYER_DENSE:
            y[i] = apply(function, dot(W->data + i * layer->inputs, x, layer->inputs) +
                                       (b->name ? (double)b->data[i] : 0));
            break;
        case LAYER_ACTIVATION:
            y[i] = apply(function, x[i]);
            break;
        case LAYER_MERGE:
            y[i] = layer->merge == MERGE_MUL   ? x[i] * x2[i]
                   : layer->merge == MERGE_AVE ? (x[i] + x2[i]) / 2
                                               : x[i] + x2[i];
            break;
        default: // a masking layer, which no step of the input meets
            y[i] = x[i];
        }
}

static void run_stateless(Reference *reference, const Layer *layer)
{
    const int64_t steps = layer->sequence_out ? reference->part->timesteps : 1;
    const Function function = function_of(reference->arena, &layer->activation);
    double *room = ARENA_ARRAY(reference->arena, double, layer->inputs + 1);
    Buffer *to = buffer_of(reference, &layer->out, steps);
    for (int64_t row = 0; row < reference->part->row_count; row++)
        for (int64_t step = 0; step < steps; step++) {
            const double *x = layer->kind == LAYER_EMBEDDING
                                  ? NULL
                                  : read(reference, &layer->in, row, step, room);
            const double *x2 =
                layer->kind == LAYER_MERGE ? read(reference, &layer->in2, row, step, room) : NULL;
            run_step(reference, layer, &function, row, step, x, x2,
                     write_at(to, &layer->out, row, step));
        }
}

void reference_run(Arena *arena, const Model *model, const ReferencePart *part, int64_t timesteps,
                   const void *x, ReferenceOutput out[2])
{
    Reference reference = {.arena = arena,
                           .model = model,
                           .part = part,
                           .timesteps = timesteps,
                           .x = x,
                           .slots = ARENA_ARRAY(arena, Buffer, model->slot_count + 1)};
    for (int i = 0; i < model->layer_count; i++)
        if (model->layers[i].kind == LAYER_CELL)
            run_cell(&reference, &model->layers[i]);
        else
            run_stateless(&reference, &model->layers[i]);
    for (int i = 0; i < 2; i++)
        out[i] =
            (ReferenceOutput){reference.y[i].values, reference.y[i].width, reference.y[i].steps};
}
