#!/bin/sh
# Prints how long rnnc takes to compile: the two-layer model of specs/keras_leaky_lstm.yaml for one
# GPU and the CPU, and a sequence of 6486 steps with `unroll: true`.
#     benchmarks/compile_time.sh [BUILD] [TARGETS]
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
targets=${2:-sm_90,cpu}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed 's/timesteps: 100/timesteps: 6486/; s/unroll: auto/unroll: true/' \
    specs/keras_leaky_lstm.yaml >"$folder/unrolled.yaml"
measure() {
    start=$(date +%s.%N)
    "$build/rnnc" "$2" -o "$folder/module.so" --target "$targets"
    end=$(date +%s.%N)
    echo "$1 $start $end" | awk '{printf "%-44s %6.2f s\n", $1, $3 - $2}'
}
measure "keras_leaky_lstm($targets)" specs/keras_leaky_lstm.yaml
measure "T=6486,unroll:true($targets)" "$folder/unrolled.yaml"
