#!/bin/sh
# Compiles rows.yaml in three precisions: rows.sh RNNC ROWS.yaml FOLDER -> FOLDER/rows_PRECISION.so
set -eu
for precision in float32 tf32 float16; do
    { cat "$2" && echo "compile: {precision: $precision}"; } >"$3/rows.yaml"
    "$1" "$3/rows.yaml" --target sm_90,cpu --variants all -o "$3/rows_$precision.so"
done
rm "$3/rows.yaml"
