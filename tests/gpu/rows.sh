#!/bin/sh
# Compiles rows.yaml and loop.yaml in three precisions, and rows.yaml once more with layouts of
# persistent_wide that a model for any batch does not choose, of many rows in turns:
# rows.sh RNNC TESTS FOLDER -> FOLDER/rows_PRECISION.so, FOLDER/rows_loop_PRECISION.so,
#                              FOLDER/rows_wide_float16.so
set -eu
for precision in float32 tf32 float16; do
    for model in rows loop; do
        { cat "$2/$model.yaml" && echo "compile: {precision: $precision}"; } >"$3/rows.yaml"
        if [ $model = rows ]; then variants=all name=rows; else variants=loop name=rows_loop; fi
        "$1" "$3/rows.yaml" --target sm_90,cpu --variants $variants -o "$3/${name}_$precision.so"
    done
done
{ cat "$2/rows.yaml" && echo "compile: {precision: float16}"; } >"$3/rows.yaml"
"$1" "$3/rows.yaml" --target sm_90,cpu --plan "$2/rows_wide.plan" -o "$3/rows_wide_float16.so"
rm "$3/rows.yaml"
