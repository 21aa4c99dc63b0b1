/* Images: device code of a module, loaded into the current context. */
#ifndef RNNC_CUDA_IMAGE_H
#define RNNC_CUDA_IMAGE_H

#include "../error.h"
#include "driver.h"
#include "rnnc/module.h"

/* Loads an image for a device of compute capability `arch` (90). In this order: the cubin of that
 * arch or of an earlier one of the same major version; a cubin that was built here before, from the
 * cache ($XDG_CACHE_HOME/rnnc or ~/.cache/rnnc); NVRTC on the embedded source, whose result goes
 * into the cache; the embedded PTX through the driver. Returns RNNC_DEVICE_ERROR with the driver's
 * words, or what is missing, in `error`. The caller unloads the module. */
rnnc_status rnnc_cuda_load_image(const rnnc_cuda_driver *cuda, const rnnc_image_desc *image,
                                 int arch, rnnc_error *error, CUmodule *out_module);

#endif
