#!/bin/sh
# Times every variant of the benchmark specs beside cuDNN's algorithms on the GPU, input product
# included:
#     benchmarks/gpu.sh [BUILD]
# docs/bench.md says what the columns are.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
for spec in benchmarks/specs/*.yaml; do
    "$build/rnnc" bench "$spec" --device cuda:0
done
