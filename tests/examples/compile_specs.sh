#!/bin/sh
# Compiles every model below a folder and runs the small ones through a plain C program:
# compile_specs.sh RNNC RUN_MODEL SPECS TARGETS
#
# A model with more than RNNC_EXAMPLES_RUN_MB (default 64) in its module is compiled but not run.
# RNNC_EXAMPLES_SKIP, an extended regular expression, leaves models out by path, each by name.
set -u
rnnc=$1 run_model=$2 specs=$3 targets=$4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
passed=0 failed=0 skipped=0

fail() {
    echo "FAIL $1"
    failed=$((failed + 1))
}

list=$(find "$specs" -name '*.yaml' | sort)
for spec in $list; do
    name=${spec#"$specs"/}
    if [ -n "${RNNC_EXAMPLES_SKIP:-}" ] && echo "$name" | grep -Eq "$RNNC_EXAMPLES_SKIP"; then
        echo "skipped: $name (RNNC_EXAMPLES_SKIP)"
        skipped=$((skipped + 1))
        continue
    fi
    start=$(date +%s%N)
    if ! "$rnnc" "$spec" -o "$folder/model.so" --target "$targets" >"$folder/log" 2>&1; then
        cat "$folder/log"
        fail "$name: does not compile"
        continue
    fi
    megabytes=$(($(wc -c <"$folder/model.so") / 1048576))
    printf '%6d ms %5d MB  %s\n' $((($(date +%s%N) - start) / 1000000)) "$megabytes" "$name"
    if [ "$megabytes" -le "${RNNC_EXAMPLES_RUN_MB:-64}" ] &&
        ! "$run_model" "$folder/model.so" cpu >"$folder/log" 2>&1; then
        cat "$folder/log"
        fail "$name: does not run"
    else
        passed=$((passed + 1))
    fi
    rm -f "$folder/model.so"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
