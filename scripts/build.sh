#!/bin/sh
# Installs what is missing and builds everything in build/ (the program is build/rnnc).
set -eu
cd "$(dirname "$0")/.."
sh scripts/install.sh
[ -f build/build.ninja ] || cmake --preset dev >/dev/null
cmake --build build
