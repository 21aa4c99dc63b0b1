#!/bin/sh
# Installs, builds and runs every test; the last lines are ctest's summary. Tests that need a GPU or
# the CUDA toolkit are skipped where there is none.
set -eu
cd "$(dirname "$0")/.."
sh scripts/build.sh
[ -e /dev/nvidiactl ] || echo "no NVIDIA GPU here: gpu.suite will be skipped"
grep -q '^RNNC_NVRTC_INCLUDE:.*NOTFOUND' build/CMakeCache.txt && echo "no CUDA toolkit here:" \
    "conform.nvrtc and unit.test_nvrtc will be skipped, examples.readme is left out"
exec ctest --test-dir build --output-on-failure -j"$(nproc)" --timeout 1800
