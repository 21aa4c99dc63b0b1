#!/bin/sh
# Runs the GPU suite of an existing build: scripts/test_gpu.sh [BUILD] [--oracles] [--sanitize]
#
# Needs a GPU and CUDA's libraries, no compiler and no cmake. BUILD (default: build) holds the
# programs and gpu_modules/ or gpu_modules.tar.xz, its archive, which
# `ninja -C BUILD gpu_modules` compiles on any machine. With --oracles, the cases of tests/oracles
# are compiled here and compared too, which needs a C compiler and Python. With --sanitize,
# compute-sanitizer (from PATH, or $COMPUTE_SANITIZER) watches a part of the matrix for memory
# faults and races.
# Logs are left in BUILD/gpu_*.log.
# Exit 0: all passed; 1: not; 77: there is no GPU here.
set -u
cd "$(dirname "$0")/.." || exit 3
build=build
sanitize= oracles=
for argument in "$@"; do
    case $argument in
    --sanitize) sanitize=1 ;;
    --oracles) oracles=1 ;;
    *) build=$argument ;;
    esac
done
if [ ! -e /dev/nvidiactl ] && ! nvidia-smi -L >/dev/null 2>&1; then
    echo "skipped: there is no NVIDIA GPU here"
    exit 77
fi
modules=$build/gpu_modules
if [ ! -d "$modules" ] && [ -f "$modules.tar.xz" ]; then # tar needs xz beside it
    tar -xJf "$modules.tar.xz" -C "$build" 2>/dev/null ||
        python3 -m tarfile -e "$modules.tar.xz" "$build" ||
        (cd "$build" && cmake -E tar xf gpu_modules.tar.xz)
fi
if [ ! -f "$modules/shakespeare.so" ]; then
    echo "$modules holds no modules: run \`ninja -C $build gpu_modules\` where there is a compiler"
    exit 1
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
passed=0 failed=0 skipped=0 table=

# add NAME PASSED FAILED SKIPPED: one row of the table.
add() {
    table="$table$(printf '%-22s %7s %7s %8s' "$1" "$2" "$3" "$4")
"
    passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + $4))
}

# suite NAME COMMAND...: a program that ends with `N passed, N failed, N skipped`.
suite() {
    name=$1
    shift
    "$@" >"$folder/log" 2>&1
    code=$?
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$folder/log" | tail -n 1)
    cp "$folder/log" "$build/gpu_$name.log"
    grep '^FAIL' "$folder/log" | head -n 40
    grep -v -e '^FAIL' -e '^[0-9]* passed, ' "$folder/log" | head -n 80
    if [ "$code" -eq 77 ]; then
        add "$name" 0 0 1
        return
    fi
    if [ -z "$line" ]; then
        echo "FAIL $name: ended with status $code and no summary"
        add "$name" 0 1 0
        return
    fi
    # shellcheck disable=SC2046 # three numbers
    add "$name" $(echo "$line" | sed 's/[^0-9 ]//g')
}

# score: bits per character of the passage on the GPU, against those of the training framework.
score() {
    wanted=$(sed -n 's/.*"passage_bits_per_char_float32": *\([0-9.]*\).*/\1/p' \
        specs/shakespeare/score.json)
    "$build/score" "$modules/shakespeare.so" specs/shakespeare/vocabulary.txt \
        specs/shakespeare/passage.txt cuda >"$folder/log" 2>&1
    code=$?
    cat "$folder/log"
    near=$(grep -Eo '[0-9]+\.[0-9]+' "$folder/log" |
        awk -v right="$wanted" '{ d = $1 - right; n += d < 1e-4 && d > -1e-4 } END { print n + 0 }')
    if [ "$code" -eq 0 ] && [ "$near" -gt 0 ] && grep -q cuda "$folder/log"; then
        add shakespeare 1 0 0
    else
        echo "FAIL shakespeare: status $code; must be $wanted bits per character on cuda"
        add shakespeare 0 1 0
    fi
}

# sanitize_part TOOL PART PROGRAM...: a part of the modules under compute-sanitizer. Kernels that a
# module need not have are asked for by name, which memcheck would report as a failed call. What
# racecheck only warns of is the start of an mbarrier and its first arrival, both by thread 0.
sanitize_part() {
    tool=$1 part=$2
    shift 2
    case $tool in
    memcheck) way='--report-api-errors no' ;;
    racecheck) way='--racecheck-detect-level error' ;;
    esac
    # shellcheck disable=SC2086 # two words
    "$sanitizer" --tool "$tool" $way --error-exitcode 9 "$@" --run "$modules" --device cuda \
        --filter "$part" >"$folder/$tool.$part" 2>&1
    echo $? >"$folder/$tool.$part.code"
}

# sanitized TOOL: a module of each kind under compute-sanitizer, all of them side by side.
sanitized() {
    sanitizer=${COMPUTE_SANITIZER:-compute-sanitizer}
    if ! command -v "$sanitizer" >/dev/null; then
        echo "skipped: $sanitizer is not installed"
        add "$1" 0 0 1
        return
    fi
    parts="cifg_lstm-H1- gru_before-H64- slstm-H7- lstmp-H7- stack-text layer_norm_lstm-H75-
        heads-slstm concat-lstm-gru backwards-gru mask-zero drops-heads stack-both"
    trained="lstm-H7-I3-float32 gru_before-H7-I3-float32 layer_norm_lstm-H1-I3 drops-lstmp
        zoneout-lstm zero-rnn"
    for part in $parts; do
        sanitize_part "$1" "$part" "$build/tests/conform/conform" --generated --brief &
    done
    wait
    for part in $trained; do
        sanitize_part "$1" "$part" "$build/tests/conform/gradients" &
    done
    wait
    for part in $parts $trained; do
        cp "$folder/$1.$part" "$build/gpu_$1_$part.log"
        if [ "$(cat "$folder/$1.$part.code")" -eq 0 ]; then
            add "$1 $part" 1 0 0
        else
            grep -E '^=========|^FAIL' "$folder/$1.$part" | head -n 20
            add "$1 $part" 0 1 0
        fi
    done
}

conform="$build/tests/conform/conform --run $modules --device cuda"
# shellcheck disable=SC2086 # words
{
    suite conform $conform
    suite random $conform --random 12
    for part in lstm-H130- gru_before-H64- concat-lstm-half stack-both; do
        suite "repeat_$part" $conform --filter "$part" --repeat 1000 --load
    done
}
suite gradients "$build/tests/conform/gradients" --run "$modules" --device cuda
suite probes "$build/tests/conform/probes" --run "$modules"
suite capture "$build/tests/capture" "$modules"/lstm-*float32.so "$modules"/gru_before-*float16.so \
    "$modules"/concat-*.so "$modules"/backwards-gru.so "$modules"/stack-both.so \
    "$modules"/masking.so "$modules"/drops.so "$modules"/heads-lstm.so
suite rows "$build/tests/rows" "$modules"/rows_*.so
suite texts "$build/tests/texts" "$modules"/text_*.so
suite texts_in_steps "$build/tests/texts" --step-by-step "$modules"/steps_*.so
score
[ -z "$oracles" ] ||
    suite oracles python3 tests/oracles/check_device.py "$build/rnnc" "$build/tests/unpack_onnx"
if [ -n "$sanitize" ]; then
    sanitized memcheck
    sanitized racecheck
fi
printf '%-22s %7s %7s %8s\n%s' part passed failed skipped "$table"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
