#!/bin/sh
# Installs, builds, compiles the character model of specs/shakespeare.yaml, scores a passage that
# its training never saw (bits per character, the variant that ran, the time), and has the model
# write a page of its own.
set -eu
cd "$(dirname "$0")/.."
sh scripts/build.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
build/rnnc specs/shakespeare.yaml -o "$folder/shakespeare.so"
build/score "$folder/shakespeare.so" specs/shakespeare/vocabulary.txt specs/shakespeare/passage.txt
build/rnnc generate "$folder/shakespeare.so" --vocab specs/shakespeare/vocabulary.txt \
    --prompt 'ROMEO:' -n 1500 --temperature 0.8 --seed 7
