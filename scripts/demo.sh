#!/bin/sh
# Installs, builds, compiles the character model of specs/shakespeare.yaml and scores a passage that
# its training never saw: prints bits per character, the variant that ran, and the time.
set -eu
cd "$(dirname "$0")/.."
sh scripts/build.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
build/rnnc specs/shakespeare.yaml -o "$folder/shakespeare.so"
build/score "$folder/shakespeare.so" specs/shakespeare/vocabulary.txt specs/shakespeare/passage.txt
