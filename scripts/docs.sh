#!/bin/sh
# Writes the reference pages of docs/ from the tables of the built program: docs.sh [BUILD]
# With --check as second argument it only compares, and fails where a page is out of date.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
new=$(mktemp)
trap 'rm -f "$new"' EXIT
for page in spec diagnostics activations; do
    "$build/docs_pages" "$page" >"$new"
    if [ "${2:-}" = --check ]; then
        diff -u "docs/$page.md" "$new" || { echo "run scripts/docs.sh"; exit 1; }
    else
        cp "$new" "docs/$page.md"
    fi
done
