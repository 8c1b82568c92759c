#!/bin/sh
# Plants the faults of tests/planted/*.patch in a copy of the last commit, and prints a line for each: `NAME: caught by: TESTS`,
# `NAME: not caught`, `NAME: does not compile` or `NAME: does not apply`. Exits 0 if all are caught, 1 if one is not, 2 if one
# of them cannot be tested.
#
#     tests/planted/run.sh               # all faults
#     tests/planted/run.sh 07 31-core    # those whose names begin so
#
# Test programs run nearest first, and none after those of the step that catches the fault: (1) those named after the file, and
# short ones of its folder, (2) all that are short, (3) the rest. In steps 2 and 3 all faults that are left are first planted
# together; then each one is tested alone, by the programs that failed. Programs that fail without a fault are left out. Faults
# of tools/page/ are tested by the programs named after the page, in a build of its own.
#
# FAULTS (tests/planted): the folder of the patches. SCRATCH (build/planted): the copy and its builds, which are kept. JOBS (2):
# parallel jobs. PROCESSOR_SECONDS (60): the limit of a process, which ends a test that hangs; one that only waits ends after
# four times as long.
set -eu
root=$(unset CDPATH && cd -- "$(dirname -- "$0")/../.." && pwd)
# shellcheck source=tools/help.sh
. "$root/tools/help.sh"
planted=${FAULTS:-$root/tests/planted}
scratch=${SCRATCH:-$root/build/planted}
tree=$scratch/tree
jobs=${JOBS:-2}
limit=${PROCESSOR_SECONDS:-60}
# Which programs are short: by rank and not by seconds, because those depend on what else the machine does. On one that is idle,
# three quarters of the programs take under 3 s.
fast_share=0.75
mkdir -p "$scratch/results"

# The copy: a clone that shares the objects of this repository. What the tests find beside a checkout is linked.
commit=$(git -C "$root" log -1 --format=%H -- . ':!tests/planted')
[ -d "$tree/.git" ] || git clone --quiet --shared --no-checkout "$root" "$tree"
git -C "$tree" checkout --quiet --force --detach "$commit"
mkdir -p "$root/build/sources" "$tree/build"
ln -sfn "$root/build/sources" "$tree/build/sources"
[ ! -d "$root/../shared" ] || ln -sfn "$root/../shared" "$scratch/shared"

# build KIND TARGET...: builds targets without or with the page (KIND is release or page).
build() {
    kind=$1
    shift
    cmake --build "$tree/build/$kind" --parallel "$jobs" --target "$@" >"$scratch/build.log" 2>&1
}

configure() {
    has_page=OFF
    [ "$1" = release ] || has_page=ON
    generator=
    launcher=
    ! command -v ninja >/dev/null || generator="-G Ninja"
    ! command -v ccache >/dev/null || launcher=-DCMAKE_C_COMPILER_LAUNCHER=ccache
    if [ -e "$tree/build/$1/CMakeCache.txt" ]; then
        cmake -S "$tree" -B "$tree/build/$1" -DQKV_TEST_SECONDS=$((4 * limit))
    else
        # shellcheck disable=SC2086 # none or several arguments
        (cd "$tree" && cmake --preset release -B "build/$1" $generator $launcher -DQKV_PAGE=$has_page \
            -DQKV_TEST_SECONDS=$((4 * limit)))
    fi >"$scratch/configure.log" 2>&1
}

# run_tests KIND NAME...: runs test programs, and prints those that fail.
run_tests() {
    tested=$tree/build/$1
    shift
    names=$(echo "$@" | tr ' ' '|')
    (ulimit -t "$limit" && ctest --test-dir "$tested" -R "^($names)\$" -j "$jobs" >"$scratch/tests.log" 2>&1) || true
    awk '/Test +#[0-9]+: / && !/ Passed | Start / { sub(/.*Test +#[0-9]+: /, ""); print $1 }' "$scratch/tests.log"
    [ -s "$scratch/tests.log" ] && grep -Eq 'tests passed|No tests were' "$scratch/tests.log" || echo "ctest"
}

# measure KIND: writes times.KIND, lines "SECONDS PROGRAM" of the programs that pass without a fault, shortest first.
measure() {
    times=$scratch/times.$1
    configure "$1" || { echo "run.sh: cannot configure: see $scratch/configure.log" >&2; exit 2; }
    [ "$(head -n 1 "$times" 2>/dev/null)" != "# $commit" ] || return 0
    expression=.
    [ "$1" = release ] || expression=page
    programs=$(ctest --test-dir "$tree/build/$1" -N -R $expression | sed -n 's/^ *Test *#[0-9]*: //p')
    # shellcheck disable=SC2086 # names without spaces
    build "$1" $programs || { echo "run.sh: cannot build: see $scratch/build.log" >&2; exit 2; }
    # shellcheck disable=SC2086
    run_tests "$1" $programs | sed 's/^/run.sh: left out, fails without a fault: /' >&2
    {
        echo "# $commit"
        sed -n 's/.*Test *#[0-9]*: \([^ ]*\) .* Passed *\([0-9.]*\) sec.*/\2 \1/p' "$scratch/tests.log" | LC_ALL=C sort -n
    } >"$times"
}

# plant NAME: applies a patch. A file that has moved is found by its name and the name of its folder.
plant() {
    patch=$planted/$1.patch
    file=$(sed -n 's|^+++ b/||p' "$patch" | head -n 1)
    found=$file
    if [ ! -e "$tree/$file" ]; then
        folder=$(basename "$(dirname "$file")")
        found=$(git -C "$tree" ls-files "$folder/${file##*/}" "*/$folder/${file##*/}" ":!tests")
        [ "$(echo "$found" | grep -c .)" = 1 ] || return 1
    fi
    sed "s|$file|$found|g" "$patch" >"$scratch/one.patch"
    git -C "$tree" apply --recount -C1 "$scratch/one.patch" 2>"$scratch/apply.log" ||
        patch -d "$tree" -p1 -F3 -s --no-backup-if-mismatch -r - <"$scratch/one.patch" >"$scratch/apply.log" 2>&1
}

revert() {
    git -C "$tree" checkout --quiet -- .
}
trap revert EXIT
trap 'exit 2' INT TERM

# The programs of a step, from times.KIND, shortest first. near KIND FOLDER WORD: those named after the file come first.
near() {
    awk -v rank="$(rank "$1" $fast_share)" -v folder="$2" -v word="$3" '
        /^#/ || index($2, folder "_") != 1 { next }
        index($2, folder "_" word) == 1 { print $2; next }
        NR <= rank { others = others $2 "\n" }
        END { printf "%s", others }' "$scratch/times.$1"
}

fast() {
    head -n "$(rank "$1" $fast_share)" "$scratch/times.$1" | awk '!/^#/ { print $2 }'
}

rest() {
    awk -v rank="$(rank "$1" $fast_share)" 'NR > rank { print $2 }' "$scratch/times.$1"
}

# rank KIND SHARE: the number of the last line of times.KIND that belongs to this share.
rank() {
    awk -v share="$2" 'END { print int(NR * share) }' "$scratch/times.$1"
}

# test_by KIND SIZE PROGRAM...: builds and runs SIZE programs at a time, until one fails. Writes their names to `failed`.
test_by() {
    kind_here=$1
    at_once=$2
    shift 2
    : >"$scratch/failed"
    while [ $# -gt 0 ] && [ ! -s "$scratch/failed" ]; do
        part=
        count=0
        while [ $# -gt 0 ] && [ $count -lt "$at_once" ]; do
            part="$part $1"
            count=$((count + 1))
            shift
        done
        # shellcheck disable=SC2086 # names without spaces
        build "$kind_here" $part || return 1
        # shellcheck disable=SC2086
        run_tests "$kind_here" $part >"$scratch/failed"
    done
}

# conclude NAME: if a test failed, prints the result.
conclude() {
    [ -s "$scratch/failed" ] || return 1
    say "$1" "caught by: $(LC_ALL=C sort -u "$scratch/failed" | tr '\n' ' ' | sed 's/ $//')"
}

say() {
    echo "$1: $2" | tee "$scratch/results/$1"
}

# test_alone NAME KIND SIZE PROGRAM...: plants one fault; status 0 if that gave a result.
test_alone() {
    name=$1
    shift
    if ! plant "$name"; then
        revert
        say "$name" "does not apply"
        return 0
    fi
    result=0
    if ! test_by "$@"; then
        say "$name" "does not compile"
    else
        conclude "$name" || result=1
    fi
    revert
    return $result
}

# Step 1 of all faults of a kind; writes the names of those that are left to `left`.
test_near() {
    kind=$1
    shift
    left=
    for name; do
        file=$(sed -n 's|^+++ b/||p' "$planted/$name.patch" | head -n 1)
        folder=$(basename "$(dirname "$file")")
        [ "$folder" != generate ] || folder=datasets
        word=$(basename "$file")
        case $file in
        tools/page/*) ;;
        tools/command/* | tools/shared/*) folder=tools ;;
        tools/*/*) word=$folder folder=tools ;; # the tests of the command
        esac
        word=${word%%[_.]*}
        [ "$kind" = release ] || folder=tools_page
        # shellcheck disable=SC2046 # names without spaces
        test_alone "$name" "$kind" 6 qkv $(near "$kind" "$folder" "$word") || left="$left $name"
    done
}

# test_together KIND SIZE PROGRAMS NAME...: steps 2 and 3; writes the names of those that are left to `left`.
test_together() {
    kind=$1
    size=$2
    all_programs=$3
    shift 3
    failing=$all_programs
    apart= # in conflict with another one
    if [ $# -gt 1 ]; then
        for name; do
            plant "$name" || apart="$apart $name"
        done
        # shellcheck disable=SC2086 # names without spaces
        if test_by "$kind" 1000 $all_programs; then
            failing=$(echo "$all_programs" | grep -xFf "$scratch/failed" || true)
        fi
        revert
    fi
    left=
    for name; do
        programs=$failing
        case "$apart " in *" $name "*) programs=$all_programs ;; esac
        # shellcheck disable=SC2086
        test_alone "$name" "$kind" "$size" $programs || left="$left $name"
    done
}

# test_kind KIND NAME...
test_kind() {
    [ $# -gt 1 ] || return 0
    kind_of_all=$1
    measure "$1"
    test_near "$@"
    for step in fast rest; do
        size=12
        [ $step = fast ] || size=3
        # shellcheck disable=SC2086 # names without spaces
        [ -z "$left" ] || test_together "$kind_of_all" $size "$($step "$kind_of_all")" $left
    done
    for name in $left; do
        say "$name" "not caught"
    done
}

[ $# -gt 0 ] || set -- ""
release=
page=
for beginning; do
    for patch in "$planted/$beginning"*.patch; do
        [ -e "$patch" ] || { echo "run.sh: no fault begins with $beginning" >&2; exit 2; }
        name=$(basename "$patch" .patch)
        rm -f "$scratch/results/$name"
        if grep -q '^+++ b/.*/page/' "$patch"; then page="$page $name"; else release="$release $name"; fi
    done
done
# shellcheck disable=SC2086 # names without spaces
test_kind release $release
# shellcheck disable=SC2086
test_kind page $page
cd "$scratch/results"
status=0
# shellcheck disable=SC2086
! grep -q 'not caught$' /dev/null $release $page || status=1
# shellcheck disable=SC2086
! grep -q 'does not' /dev/null $release $page || status=2
exit $status
