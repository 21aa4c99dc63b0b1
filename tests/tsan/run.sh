#!/bin/sh
# run.sh RNNC CC DLPACK_INCLUDE VERSION: builds the runtime, a module's CPU code and sessions.c with
# ThreadSanitizer in a folder of their own, and runs two sessions on two threads under it. Exits
# with 77 and the reason where the sanitizer is missing or does not work on this machine.
set -eu
rnnc=$1 compiler=$2 dlpack=$3 version=$4
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$(dirname "$here")")
folder=$(mktemp -d "${TMPDIR:-/tmp}/tsan.XXXXXX")
trap 'rm -rf "$folder"' EXIT

echo 'int main(void) { return 0; }' > "$folder/empty.c"
if ! "$compiler" -fsanitize=thread -o "$folder/empty" "$folder/empty.c" 2> "$folder/log"; then
    echo "skipped: $compiler cannot link with ThreadSanitizer: $(head -n 1 "$folder/log")"
    exit 77
fi
if ! "$folder/empty" 2> "$folder/log"; then
    echo "skipped: ThreadSanitizer does not start here: $(head -n 1 "$folder/log")"
    exit 77
fi

# shellcheck disable=SC2046 # the sources' names have no spaces
"$compiler" -std=gnu17 -fsanitize=thread -O1 -g -I"$root/runtime/include" \
    -I"$root/runtime/src" -I"$root/templates" -I"$dlpack" -DRNNC_VERSION="\"$version\"" \
    -o "$folder/sessions" "$here/sessions.c" \
    $(find "$root/runtime/src" -name '*.c') -ldl -lm -lpthread
if "$folder/sessions" race > "$folder/log" 2>&1; then
    echo "the sanitizer does not see a race that is there"
    exit 1
fi
CC="$compiler -fsanitize=thread" "$rnnc" "$here/model.yaml" -o "$folder/model.so" --target cpu
if ! grep -q __tsan_read "$folder/model.so"; then
    echo "the module's code is not watched by the sanitizer"
    exit 1
fi
"$folder/sessions" "$folder/model.so"
