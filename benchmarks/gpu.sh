#!/bin/sh
# Compiles the benchmark specs with all variants and times them on the GPU:
#     benchmarks/gpu.sh [BUILD]
# The last table has one row a module and variant; "x cudnn" is the ratio to cuDNN's best algorithm.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
modules=
for spec in benchmarks/specs/*.yaml; do
    name=$(basename "$spec" .yaml)
    "$build/rnnc" "$spec" -o "$folder/$name.so" --target sm_90 --variants all
    group=$(echo "$name" | sed 's/_leaky$//; s/_tanh$//')
    modules="$modules $group:$folder/$name.so"
done
# shellcheck disable=SC2086 # a list of words
"$build/gpu_variants" $modules
