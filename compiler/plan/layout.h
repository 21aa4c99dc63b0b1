// WorkLayout: the numbers by which a variant spreads its work (CTAs, warps, rows, ...), by name, as
// a plan file has them and the search for the cheapest one tries them.
#ifndef RNNC_PLAN_LAYOUT_H
#define RNNC_PLAN_LAYOUT_H

#include "base/text.h"

enum { LAYOUT_NUMBERS_MAX = 4, LAYOUTS_MAX = 8 };

/// Names are literals or in an arena that outlives the layout. No number: the variant has none to
/// choose, or none is asked for.
typedef struct {
    struct LayoutNumber {
        const char *name;
        int value;
    } numbers[LAYOUT_NUMBERS_MAX];
    int count;
} WorkLayout;

/// The cheapest few that a search has met, cheapest first.
typedef struct {
    WorkLayout items[LAYOUTS_MAX];
    double us[LAYOUTS_MAX];
    int count;
} LayoutList;

/// Whether `layout` has every number that `asked` names, whatever their order.
bool layout_has(const WorkLayout *layout, const WorkLayout *asked);

/// Puts it in its place. Of layouts that cost the same the first stays in front.
void layout_list_add(LayoutList *list, const WorkLayout *layout, double us);

/// {"ctas": 8, "rows": 4}
void layout_print(const WorkLayout *layout, Text *out);

#endif
