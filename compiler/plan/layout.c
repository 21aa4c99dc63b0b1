// WorkLayout: see layout.h.
#include "plan/layout.h"

static bool has_number(const WorkLayout *layout, const struct LayoutNumber *number)
{
    for (int i = 0; i < layout->count; i++)
        if (text_equal(layout->numbers[i].name, number->name))
            return layout->numbers[i].value == number->value;
    return false;
}

bool layout_has(const WorkLayout *layout, const WorkLayout *asked)
{
    for (int i = 0; i < asked->count; i++)
        if (!has_number(layout, &asked->numbers[i]))
            return false;
    return true;
}

void layout_list_add(LayoutList *list, const WorkLayout *layout, double us)
{
    int at = list->count;
    while (at > 0 && us < list->us[at - 1])
        at--;
    if (at == LAYOUTS_MAX)
        return;
    list->count += list->count < LAYOUTS_MAX;
    for (int i = list->count - 1; i > at; i--) {
        list->items[i] = list->items[i - 1];
        list->us[i] = list->us[i - 1];
    }
    list->items[at] = *layout;
    list->us[at] = us;
}

void layout_print(const WorkLayout *layout, Text *out)
{
    text_add(out, "{");
    for (int i = 0; i < layout->count; i++)
        text_addf(out, "%s\"%s\": %d", i ? ", " : "", layout->numbers[i].name,
                  layout->numbers[i].value);
    text_add(out, "}");
}
