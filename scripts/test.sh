#!/bin/sh
# Installs, builds and runs every test; the last lines are ctest's summary. Tests that need a GPU
# say so and are skipped where there is none.
set -eu
cd "$(dirname "$0")/.."
sh scripts/build.sh
exec ctest --test-dir build --output-on-failure -j"$(nproc)" --timeout 1800
