// Reads an ONNX model of recurrent layers: RNN, LSTM and GRU with what exporters put around them.
// The graph has to be one chain of layers from one input to one output; final states may be outputs
// too, and initial states and lengths inputs. What cannot be taken is refused by name.
//
//     const Imported *model = onnx_read(arena, diags, "net.onnx");
//     if (model && imported_write(arena, diags, model, "net")) ...
#ifndef RNNC_IMPORT_ONNX_READ_H
#define RNNC_IMPORT_ONNX_READ_H

#include "import/imported.h"
#include "import/npz.h"

/// Reads `path`, and its external data. A weight that is an input of the graph has its values from
/// test_data_set_0/input_N.pb beside the model, as in ONNX' own tests, where that file is there.
/// NULL, with E0001 or E045x, where the model cannot be taken whole. Adds W0402 for an input that
/// no node reads.
const Imported *onnx_read(Arena *arena, Diags *diags, const char *path);

/// What an input or an output of the graph is to the module.
typedef struct {
    const char *name; ///< in the file; of inputs NULL
    bool is_output;
    int index;        ///< N of input_N.pb: among the inputs without initializer, or the outputs
    const char *port; ///< the module's name: "x", "lengths", "y", "enc/fw/h"
    const char
        *order;  ///< the file's axes, slowest first; of size 1, B and D may be missing: T time,
                 ///< B batch, D directions, F features, S directions and layers of a state
    int64_t row; ///< of a state: which row of S or D it is
    int64_t features; ///< size of F
    int directions;   ///< size of D
} OnnxPort;

/// An input of the graph that the module does not have.
typedef struct {
    const char *name;
    int index;             ///< N of input_N.pb
    const NpyArray *array; ///< a weight: its values, float32, of test_data_set_0; NULL: not read
} OnnxLeftInput;

typedef struct {
    const Imported *model;
    OnnxPort *ports;
    int port_count;
    OnnxLeftInput *left;
    int left_count;
    bool time_major;
    const char *x_order; ///< the axes of x in the file, one letter each: "TBF"
} OnnxModel;

/// The same with the ports.
const OnnxModel *onnx_read_model(Arena *arena, Diags *diags, const char *path);

/// The same over bytes in memory.
const OnnxModel *onnx_read_bytes(Arena *arena, Diags *diags, const char *path,
                                 const unsigned char *bytes, size_t size_bytes);

/// A folder of input_N.pb and output_N.pb beside a model, in the module's names and layouts.
typedef struct {
    NpzMember *inputs; ///< "x", "lengths" and states
    int input_count;
    NpzMember *outputs; ///< "y" and states
    int output_count;
} OnnxCase;

/// Reads `folder` for the model at `model_path`. Adds E0001, E045x or E0810 and returns false on a
/// fault: an input_N.pb or output_N.pb that the model has no place for is one, and so is a weight
/// whose values are not those that the model was read with. Adds W0402 for what has no effect.
bool onnx_case_read(Arena *arena, Diags *diags, const char *model_path, const char *folder,
                    OnnxCase *out);

#endif
