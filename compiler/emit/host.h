// Host: the C file with the module's tables. Data is not printed but included by name; the files
// must lie beside the C file when it is compiled:
//
//     weights.bin          every weight, canonical float32, each at a multiple of 64 bytes; not
//                          read where the module is made without weights
//     <image>.sm_90.cubin  one for each cubin       <image>.ptx  <image>.cu
//     self_test.bin        see emit/self_test.h; where there is one
//     note.json            the descriptor of the ELF note (emit_note)
#ifndef RNNC_EMIT_HOST_H
#define RNNC_EMIT_HOST_H

#include "emit/emit.h"
#include "emit/self_test.h"

/// An instruction-set level of CPU code.
typedef struct {
    const char *name; ///< "x86-64-v4", as rnnc_cpu_code.isa
    const char *tag;  ///< "v4", within symbols and file names
    const char *flag; ///< "-march=x86-64-v4"
} HostIsa;

/// The levels of this machine's architecture, best first.
const HostIsa *host_isas(int *out_count);

/// One image as the tables need it.
typedef struct {
    const char *name, *options; ///< "l0.persistent_cta"; NVRTC options, one a line
    const int *arches;          ///< of its cubins
    const int64_t *cubin_bytes;
    const int *registers; ///< of each cubin: the most of any kernel; 0: unknown
    int cubin_count;
    bool has_ptx;
} HostImage;

typedef struct {
    const Plan *plan;
    const char *provenance, *plan_text; ///< JSON; text
    const HostImage *images;
    int image_count;
    int *const *of_choice; ///< [layer][choice]: index of an image, -1: none; NULL without images
    const int *of_layer;
    const SelfTest *self_test; ///< NULL: none
    bool without_weights;      ///< zeros in their place, for a user who binds every weight
    int sequence_image; ///< index of the image with the kernels of masks, merges and dropout, or -1
    int generator_image; ///< of that which generates text, or -1
} HostModule;

/// Bytes of weights.bin; and where weight `kind` of a layer starts in it.
int64_t host_weights_bytes(const Model *model);
int64_t host_weight_offset(const Model *model, int layer, int kind);

/// Prints the C file, includes of templates unresolved.
void emit_host(Arena *arena, const HostModule *module, Text *out);

/// Prints the descriptor of the ELF note: one JSON object.
void emit_note(Arena *arena, const HostModule *module, Text *out);

#endif
