#!/bin/sh
# Plants the faults of tests/planted/*.patch in a copy of the last commit, and prints a line for each: `NAME: caught by: TESTS`,
# `NAME: not caught`, `NAME: does not compile` or `NAME: does not apply`. Exits 0 if all are caught, 1 if one is not, 2 if one
# of them cannot be tested.
#
#     tests/planted/run.sh               # all faults
#     tests/planted/run.sh 07 31-core    # those whose names begin so
#
# Test programs run a few at a time, and none after those that catch the fault: first those named after the file, then those of
# its folder, then all others, the shortest first. Programs that fail without a fault are left out. Faults of tools/page/ are
# tested by the programs named after the page, in a build of its own.
#
# FAULTS (tests/planted): the folder of the patches. SCRATCH (build/planted): the copy and its builds, which are kept. JOBS (2):
# parallel jobs. PROCESSOR_SECONDS (60): the limit of a process, which ends a test that hangs; one that only waits ends after
# four times as long.
set -eu
root=$(unset CDPATH && cd -- "$(dirname -- "$0")/../.." && pwd)
# shellcheck source=tools/setup.sh
. "$root/tools/setup.sh"
planted=${FAULTS:-$root/tests/planted}
scratch=${SCRATCH:-$root/build/planted}
tree=$scratch/tree
jobs=${JOBS:-2}
limit=${PROCESSOR_SECONDS:-60}
at_once=8 # programs that are built and run before the next ones

# The copy: a clone that shares the objects of this repository. What the tests find beside a checkout is linked.
mkdir -p "$scratch"
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
    cmake --build "$tree/build/$kind" --parallel "$jobs" --target "$@" >"$scratch/build.log" 2>&1 </dev/null
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

# prepare KIND: builds the commit, and writes to passing.KIND which programs pass without a fault, shortest first.
prepare() {
    passing=$scratch/passing.$1
    has_page=ON
    [ "$1" = page ] || has_page=OFF
    (cd "$tree" && cmake --preset release -B "build/$1" -DQKV_PAGE=$has_page -DQKV_TEST_SECONDS=$((4 * limit)) \
        -DCMAKE_C_COMPILER_LAUNCHER="$(command -v ccache || true)") >"$scratch/configure.log" 2>&1 ||
        { echo "run.sh: cannot configure: see $scratch/configure.log" >&2; exit 2; }
    [ "$(head -n 1 "$passing" 2>/dev/null)" != "# $commit" ] || return 0
    expression=.
    [ "$1" = release ] || expression=page
    programs=$(ctest --test-dir "$tree/build/$1" -N -R $expression | sed -n 's/^ *Test *#[0-9]*: //p')
    # shellcheck disable=SC2086 # names without spaces
    build "$1" qkv $programs || { echo "run.sh: cannot build: see $scratch/build.log" >&2; exit 2; }
    # shellcheck disable=SC2086
    run_tests "$1" $programs | sed 's/^/run.sh: left out, fails without a fault: /' >&2
    {
        echo "# $commit"
        sed -n 's/.*Test *#[0-9]*: \([^ ]*\) .* Passed *\([0-9.]*\) sec.*/\2 \1/p' "$scratch/tests.log" |
            LC_ALL=C sort -n | cut -d ' ' -f 2
    } >"$passing"
}

# plant NAME FILE: applies a patch of a file. One that has moved is found by its name and the name of its folder.
plant() {
    found=$2
    if [ ! -e "$tree/$2" ]; then
        folder=$(basename "$(dirname "$2")")
        found=$(git -C "$tree" ls-files "$folder/${2##*/}" "*/$folder/${2##*/}" ":!tests")
        [ "$(echo "$found" | grep -c .)" = 1 ] || return 1
    fi
    sed "s|$2|$found|g" "$planted/$1.patch" >"$scratch/one.patch"
    git -C "$tree" apply --recount -C1 "$scratch/one.patch" 2>"$scratch/apply.log" ||
        patch -d "$tree" -p1 -F3 -s --no-backup-if-mismatch -r - <"$scratch/one.patch" >"$scratch/apply.log" 2>&1
}

revert() {
    git -C "$tree" checkout --quiet -- .
}
trap revert EXIT
trap 'exit 2' INT TERM

# programs_for KIND FILE: all programs, those nearest to the file first.
programs_for() {
    folder=$(basename "$(dirname "$2")")
    word=$(basename "$2")
    case $2 in
    tools/page/*) folder=tools_page ;;
    tools/command/* | tools/shared/*) folder=tools ;;
    tools/*/*) word=$folder folder=tools ;; # the tests of the command
    datasets/*) folder=datasets ;;
    esac
    awk -v folder="$folder" -v near="${folder}_${word%%[_.]*}" '
        /^#/ { next }
        { print (index($1, near) == 1 ? 0 : index($1, folder) == 1 ? 1 : 2), NR, $1 }' "$scratch/passing.$1" |
        LC_ALL=C sort -n -k 1 -k 2 | cut -d ' ' -f 3
}

# test_fault NAME: prints what becomes of the fault.
test_fault() {
    file=$(sed -n 's|^+++ b/||p' "$planted/$1.patch" | head -n 1)
    kind=release
    case $file in tools/page/*) kind=page ;; esac
    prepare $kind
    result="not caught"
    if plant "$1" "$file"; then
        programs_for $kind "$file" | xargs -n $at_once >"$scratch/parts"
        while [ "$result" = "not caught" ] && read -r part; do
            # shellcheck disable=SC2086 # names without spaces
            build $kind qkv $part || { result="does not compile" && break; }
            # shellcheck disable=SC2086
            failed=$(run_tests $kind $part </dev/null | LC_ALL=C sort -u | tr '\n' ' ')
            [ -z "$failed" ] || result="caught by: ${failed% }"
        done <"$scratch/parts"
    else
        result="does not apply"
    fi
    revert
    echo "$1: $result"
}

[ $# -gt 0 ] || set -- ""
status=0
for beginning; do
    for patch in "$planted/$beginning"*.patch; do
        [ -e "$patch" ] || { echo "run.sh: no fault begins with $beginning" >&2; exit 2; }
        test_fault "$(basename "$patch" .patch)"
        case $result in
        "not caught") [ $status = 2 ] || status=1 ;;
        "does not"*) status=2 ;;
        esac
    done
done
exit $status
