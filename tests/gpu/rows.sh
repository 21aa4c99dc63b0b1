#!/bin/sh
# Compiles rows.yaml and loop.yaml in three precisions:
# rows.sh RNNC TESTS FOLDER -> FOLDER/rows_PRECISION.so, FOLDER/rows_loop_PRECISION.so
set -eu
for precision in float32 tf32 float16; do
    for model in rows loop; do
        { cat "$2/$model.yaml" && echo "compile: {precision: $precision}"; } >"$3/rows.yaml"
        if [ $model = rows ]; then variants=all name=rows; else variants=loop name=rows_loop; fi
        "$1" "$3/rows.yaml" --target sm_90,cpu --variants $variants -o "$3/${name}_$precision.so"
    done
done
rm "$3/rows.yaml"
