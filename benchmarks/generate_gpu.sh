#!/bin/sh
# Times `rnnc generate` on a GPU: microseconds a step of the models that the bars are set for, one
# stream and 64, in one launch.
#     benchmarks/generate_gpu.sh --compile FOLDER     makes the modules; needs no GPU
#     benchmarks/generate_gpu.sh FOLDER [TOKENS]      measures; needs no compiler
# BUILD=build holds rnnc. Each line is the faster of two runs of TOKENS (100000) tokens a stream
# for one stream, a quarter of them for 64.
set -eu
build=${BUILD:-build}
# NAME VOCABULARY EMBEDDING PRECISION BAR_US CELLS
cases="gru1024 66 256 float16 4 cell: gru, units: 1024
gru1024 66 256 float32 5 cell: gru, units: 1024
lstm128x2 66 128 float16 2 cell: lstm, units: 128, layers: 2
lstm128x2 66 128 float32 2 cell: lstm, units: 128, layers: 2
gru1024x2 256 512 float16 6 cell: gru, units: 1024, layers: 2
gru1024x2 256 512 float32 - cell: gru, units: 1024, layers: 2
shakespeare 65 64 float16 - cell: gru, units: 512
shakespeare 65 64 float32 - cell: gru, units: 512"
if [ "$1" = --compile ]; then
    folder=$2
    mkdir -p "$folder"
    echo "$cases" | while read -r name vocabulary width precision _ cells; do
        for streams in 1 64; do
            cat >"$folder/model.yaml" <<END
rnnc: 1
input: {tokens: $vocabulary, batch: $streams, timesteps: any}
layers:
  - {embedding: $width}
  - {$cells, return_sequences: true}
  - {dense: $vocabulary}
weights: {seed: 1}
compile: {precision: $precision}
END
            "$build/rnnc" "$folder/model.yaml" --target sm_90 --variants stepwise \
                -o "$folder/${name}_${precision}_$streams.so"
        done
    done
    rm "$folder/model.yaml"
    exit
fi
folder=$1 tokens=${2:-100000}
# A vocabulary of $1 characters from U+0100 on.
characters() {
    for i in $(seq 0 $(($1 - 1))); do
        # shellcheck disable=SC2059 # the bytes of one character
        printf "\\$(printf %o $((196 + i / 64)))\\$(printf %o $((128 + i % 64)))"
    done
}
measure() {
    for _ in 1 2; do
        "$build/rnnc" generate "$1" --device cuda --vocab "$folder/vocabulary.txt" \
            -n "$3" --streams "$2" 2>&1 >/dev/null | grep N0805 || echo "failed 0 us a step"
    done | awk '{
        for (i = 2; i <= NF; i++)
            if ($i == "us" && $(i + 1) == "a" && (best == "" || $(i - 1) < best)) {
                best = $(i - 1)
                line = $0
            }
        } END { print best, (line ~ /in one launch/ ? "one_launch" : "STEP_BY_STEP") }'
}
printf '%-12s %-9s %7s %9s %9s %6s  %s\n' model precision bar "1 stream" "64" ratio way
echo "$cases" | while read -r name vocabulary _ precision bar _; do
    characters "$vocabulary" >"$folder/vocabulary.txt"
    one=$(measure "$folder/${name}_${precision}_1.so" 1 "$tokens")
    many=$(measure "$folder/${name}_${precision}_64.so" 64 $((tokens / 4)))
    printf '%-12s %-9s %7s %9s %9s %6s  %s\n' "$name" "$precision" "$bar" "${one% *}" "${many% *}" \
        "$(echo "$one $many" | awk '{ if ($1 > 0) printf "%.2f", $3 / $1 }')" "${one#* } ${many#* }"
done
