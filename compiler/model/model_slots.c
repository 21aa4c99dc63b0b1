// Slots of a model: see model_slots.h. A value lives from the layer that writes it first to the one
// that reads it last; it gets the first buffer that no living value has. In training all live on:
//
//     x -> a -> b -> y        a: buffer 0, b: buffer 1
//     x -> fw -> v \          v: buffer 0, w: buffer 1, sum: buffer 2
//     x -> bw -> w -> sum -> y
#include "model/model_slots.h"

typedef struct {
    int first, last; ///< steps of its life
    int slot;
    int64_t width;
} Value;

/// The step in which layer `index` runs: that of the layer before where it runs beside it.
static int step_of(const Model *model, int index)
{
    return index - model->layers[index].beside;
}

static void note_write(Value *value, int step, int64_t width)
{
    if (value->width == 0)
        value->first = value->last = step;
    value->width = width;
}

static void note_read(Value *values, const View *view, int step)
{
    if (view->slot >= 0)
        values[view->slot].last = step;
}

static int free_slot(const Value *values, int value_count, int step)
{
    for (int slot = 0;; slot++) {
        bool taken = false;
        for (int i = 0; i < value_count; i++)
            taken |= values[i].slot == slot && values[i].last >= step;
        if (!taken)
            return slot;
    }
}

static void rewrite(const Value *values, View *view)
{
    if (view->slot >= 0)
        view->slot = values[view->slot].slot;
}

void model_place_slots(Arena *arena, Model *model, int value_count, int last, int last_backward)
{
    Value *values = ARENA_ARRAY(arena, Value, value_count + 1);
    for (int i = 0; i < value_count; i++)
        values[i].slot = SLOT_NONE;
    for (int i = 0; i < model->layer_count; i++) {
        const Layer *layer = &model->layers[i];
        note_read(values, &layer->in, step_of(model, i));
        note_read(values, &layer->in2, step_of(model, i));
        note_write(&values[layer->out.slot], step_of(model, i), layer->out.width);
    }
    values[last].slot = SLOT_Y;
    if (last_backward >= 0)
        values[last_backward].slot = SLOT_Y_BACKWARD;
    model->slot_widths = ARENA_ARRAY(arena, int64_t, value_count + 1);
    model->slot_count = 0;
    for (int i = 0; i < model->layer_count; i++) {
        Value *value = &values[model->layers[i].out.slot];
        if (value->slot != SLOT_NONE)
            continue;
        value->slot =
            model->trains ? model->slot_count : free_slot(values, value_count, value->first);
        if (value->slot >= model->slot_count)
            model->slot_count = value->slot + 1;
        if (value->width > model->slot_widths[value->slot])
            model->slot_widths[value->slot] = value->width;
    }
    for (int i = 0; i < model->layer_count; i++) {
        rewrite(values, &model->layers[i].in);
        rewrite(values, &model->layers[i].in2);
        rewrite(values, &model->layers[i].out);
    }
}
