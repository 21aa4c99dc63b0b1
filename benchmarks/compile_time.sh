#!/bin/sh
# Prints how long rnnc takes to compile: the two-layer model of specs/keras_leaky_lstm.yaml for one
# GPU and the CPU, and a sequence of 6486 steps with `unroll: true`. Of RUNS runs (3) the best: the
# time that passed, and the processor time of all threads and compilers, which a busy machine
# disturbs less.
#     benchmarks/compile_time.sh [BUILD] [TARGETS] [RUNS]
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
targets=${2:-sm_90,cpu}
runs=${3:-3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed 's/timesteps: 100/timesteps: 6486/; s/unroll: auto/unroll: true/' \
    specs/keras_leaky_lstm.yaml >"$folder/unrolled.yaml"
# start, end, and user and system time as "0m5.630s 0m0.300s"
run() {
    start=$(date +%s.%N)
    ("$build/rnnc" "$1" -o "$folder/module.so" --target "$targets" 2>"$folder/notes" && times) |
        tail -1 >"$folder/times"
    [ -s "$folder/times" ] || { cat "$folder/notes" >&2; exit 1; }
    echo "$start $(date +%s.%N) $(tr ms '  ' <"$folder/times")"
}
measure() {
    for i in $(seq "$runs"); do run "$2"; done | awk -v name="$1" '
        { passed = $2 - $1; used = 60 * ($3 + $5) + $4 + $6 }
        NR == 1 || passed < best { best = passed }
        NR == 1 || used < least { least = used }
        END {
            if (!NR) exit 1
            printf "%-40s %6.2f s  (processor time %.2f s)\n", name, best, least
        }'
}
measure "keras_leaky_lstm($targets)" specs/keras_leaky_lstm.yaml
measure "T=6486,unroll:true($targets)" "$folder/unrolled.yaml"
