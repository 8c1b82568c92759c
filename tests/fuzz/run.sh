#!/bin/sh
# Builds the fuzz targets (preset `fuzz`: clang's libFuzzer, AddressSanitizer, UBSan) and runs each for some seconds, one
# on each processor. Prints for each its executions, the edges of the program that it reached, and what it found. Exits with
# 1 when a target found something, with 2 when the targets cannot be built.
#
#     tests/fuzz/run.sh 10                   # every target for 10 seconds
#     tests/fuzz/run.sh 600 scene links      # some of them, for 10 minutes each
#     SEED=1 tests/fuzz/run.sh 10            # the same inputs in every run that begins without build/fuzz/corpus
#
# build/fuzz/findings/<target>/ gets the inputs that fail. To see one fail: build/fuzz/tests/fuzz/fuzz_<target> INPUT.
# When it is mended, keep it in tests/fuzz/seeds/<target>/ with a name that says what it is. Inputs that reach new code
# stay in build/fuzz/corpus/<target>/, where the next run begins.
set -eu
root=$(unset CDPATH && cd -- "$(dirname -- "$0")/../.." && pwd)
# shellcheck source=tools/setup.sh
. "$root/tools/setup.sh"
case ${1:-} in
'' | *[!0-9]*) echo "usage: tests/fuzz/run.sh SECONDS [TARGET...]" >&2; exit 2 ;;
esac
seconds=$1
shift
# shellcheck disable=SC2046 # one argument a target
[ $# -gt 0 ] || set -- $(basename -s .c "$root"/tests/fuzz/targets/*.c)
for target; do
    [ -f "$root/tests/fuzz/targets/$target.c" ] || { echo "run.sh: there is no target $target" >&2; exit 2; }
done
# libFuzzer is a package of its own, and no command says whether it is there: a wrong name makes setup install it.
has_fuzzer=clang-without-libfuzzer
ls "$(clang -print-runtime-dir 2>/dev/null)"/libclang_rt.fuzzer* >/dev/null 2>&1 && has_fuzzer=clang
setup "clang libclang-rt-14-dev" "" "$has_fuzzer"
build fuzz
cd "$root"
work=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")")
trap 'rm -rf "$work"' EXIT
trap 'exit 2' INT TERM

# The words of our own tables: keys, values, options.
words() {
    cat framework/translator/*/*.def framework/*/include/qkv/*.def | sed -n 's/^[A-Z_]*(\([^" ]*\),.*/\1/p' |
        tr -c 'a-z0-9_\n' '\n'
    grep -oh '"[a-z0-9][a-z0-9_-]*"' framework/translator/*/*.def framework/*/include/qkv/*.def \
        tools/*/*.def tools/*.c tools/*/*.c | tr -d '"'
}
words | grep '..' | LC_ALL=C sort -u | sed 's/.*/"&"/' >"$work/words"
printf '"%s"\n' '\x0a---\x0a' '\x0a  ' ': ' '[[' ', ' '{' '}]' '--' >>"$work/words"

export ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=1:${ASAN_OPTIONS:-}"
export LSAN_OPTIONS="suppressions=$root/tests/leaks.supp:print_suppressions=0"
export UBSAN_OPTIONS="print_stacktrace=1"
export OPENBLAS_NUM_THREADS=1
# Runs a target and prints its line. Fails if it found something.
fuzz() {
    corpus=build/fuzz/corpus/$1 findings=build/fuzz/findings/$1 log=build/fuzz/$1.log
    mkdir -p "$corpus" "$findings" "$work/$1"
    code=0
    TMPDIR=$work/$1 build/fuzz/tests/fuzz/fuzz_"$1" -max_total_time="$seconds" -seed="${SEED:-0}" -timeout=60 -rss_limit_mb=2048 \
        -max_len=4096 -print_final_stats=1 -artifact_prefix="$findings/" -dict="$work/words" \
        "$corpus" "tests/fuzz/seeds/$1" >"$log" 2>&1 || code=$?
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    edges=$(grep -o ' cov: [0-9]*' "$log" | tail -n 1 | tr -dc 0-9)
    result="no finding"
    if [ $code -ne 0 ]; then
        result="FINDING: $(grep -o "$findings/[^ ]*" "$log" | tail -n 1) ($(grep -m 1 -E \
            'ERROR: |runtime error|does not hold' "$log" | cut -c 1-150))"
    fi
    printf '%-12s %10s executions %6s edges  %s\n' "$1" "${executions:-?}" "${edges:-?}" "$result"
    return $code
}

failed=0
running=
for target; do
    fuzz "$target" &
    running="$running $!"
    # shellcheck disable=SC2086 # one argument an id
    set -- $running
    [ $# -ge "$(cores)" ] || continue
    for process in $running; do wait "$process" || failed=1; done
    running=
done
for process in $running; do wait "$process" || failed=1; done
exit $failed
