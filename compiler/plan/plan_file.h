// Plan file: what `rnnc tune` has measured and what is fastest, as text (JSON, which is YAML too),
// so that the same module can be built anywhere:
//
//     {
//       "rnnc_plan": 1,
//       "model": "m", "precision": "float16", "batch": 32, "timesteps": 1000,
//       "device": "NVIDIA H200", "arch": 90,
//       "layers": {
//         "l0": {
//           "cell": "lstm", "inputs": 256, "units": 256,
//           "variant": "persistent_cluster", "layout": {"ctas": 8, "rows": 4}
//         }
//       },
//       "measured": [ ... ]
//     }
//
// Everything is found by name, so that order means nothing. `measured` is a record for people and
// for fitting the cost models; it is not read back.
#ifndef RNNC_PLAN_PLAN_FILE_H
#define RNNC_PLAN_PLAN_FILE_H

#include "plan/plan.h"

enum { PLAN_FILE_VERSION = 1 };

/// What one layer runs.
typedef struct {
    const char *name, *cell;
    int64_t inputs, units;
    const Variant *variant;
    WorkLayout layout;
    Span span, variant_span; ///< of the layer and of its variant
} PlannedLayer;

/// One way to run some layers, and its time. All other layers ran what the plan names.
typedef struct {
    const char *layers; ///< "l0", "l0, l1"
    const Variant *variant;
    WorkLayout layout;
    const char *refusal;            ///< why there is no time; NULL: there is
    double us, p10_us, p90_us;      ///< of a run of the whole model
    double error;                   ///< ||y - ref|| / ||ref|| against float64; NaN: not known
    double estimate_us, product_us; ///< of one layer: all of it, and W*x
} PlanMeasurement;

typedef struct PlanFile {
    const char *model, *precision, *device;
    int arch;
    int64_t batch, timesteps; ///< 0: any
    PlannedLayer *layers;     ///< every cell layer of the model
    int layer_count;
    PlanMeasurement *measured; ///< not filled by plan_file_read
    int measured_count;
    Span span; ///< of the file
} PlanFile;

/// Reads a plan. Adds E0001, E01xx or E0606 and returns NULL on a fault.
const PlanFile *plan_file_read(Arena *arena, Diags *diags, const char *path);

/// The planned layer of that name; NULL: there is none.
const PlannedLayer *plan_file_layer(const PlanFile *file, const char *name);

/// Whether the plan was made for this model and one of the targets. Adds E0607 for each thing that
/// is another.
bool plan_file_fits(Arena *arena, Diags *diags, const PlanFile *file, const Model *model,
                    const int *arches, int arch_count);

/// The text of a plan, fastest measurements first.
void plan_file_print(Arena *arena, const PlanFile *file, Text *out);

#endif
