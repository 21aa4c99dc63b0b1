#!/bin/sh
# Compiles models that generate text: texts.sh RNNC FOLDER -> FOLDER/text_NAME_PRECISION.so, which
# generate in one launch on a GPU, and FOLDER/steps_NAME_float32.so, which cannot. On an H200 those
# of 16 bits do so by clusters, the others by the grid, text_sets with two sets of rows a group. The
# tokens of text_many are drawn by whole CTAs where they are chosen from.
set -eu
# text NAME VOCABULARY EMBEDDING PRECISIONS CELLS [BATCH]
text() {
    for precision in $4; do
        cat >"$folder/text.yaml" <<END
rnnc: 1
input: {tokens: $2, batch: ${6:-any}, timesteps: any}
layers:
  - {embedding: $3}
  - {$5, return_sequences: true}
  - {dense: $2}
weights: {seed: 5}
compile: {precision: $precision}
END
        "$rnnc" "$folder/text.yaml" --target sm_90,cpu --variants stepwise \
            -o "$folder/$1_$precision.so"
    done
}
rnnc=$1 folder=$2
text text_gru 66 31 "float32 tf32 bfloat16 float16" "cell: gru, units: 300"
text text_lstm 11 6 "float32 float16" "cell: lstm, units: 67, layers: 3"
text text_slstm 300 8 "float32 float16" "cell: slstm, units: 40, layers: 2"
text text_one 5 1 "float32 float16" "cell: rnn, units: 1, activation: relu"
text text_many 1500 5 "float32 float16" "cell: gru, units: 48"
text text_sets 66 8 float32 "cell: gru, units: 200, layers: 2" 171
text steps_gru_before 11 6 float32 "cell: gru_before, units: 19"
rm "$folder/text.yaml"
