#!/bin/sh
# Compares the bits that training gives with those recorded in tests/fixtures/bits.txt, with each variant of the kernels that
# this processor runs: the same config and seed must give the same checkpoint everywhere. Prints a line for each config and
# variant; exits 0 if all agree, 1 if one does not, 2 if training fails or nothing is recorded for a config.
#
#     tools/check_bits.sh 50 configs/toy_en_es.yaml configs/reverse.yaml     # builds, and trains 50 updates of these
#     QKV=/other/build/tools/qkv KERNELS=avx2 tools/check_bits.sh 200 configs/history/*.yaml
#     RECORD=1 tools/check_bits.sh 50 configs/toy_en_es.yaml     # after a change that is meant to change numbers
#
# RECORD=1 trains with the fastest variant; without it, the others are compared with what it has recorded. THREADS is the
# number of threads, on which the bits do not depend.
set -eu
root=$(unset CDPATH && cd -- "$(dirname -- "$0")/.." && pwd)
# shellcheck source=tools/setup.sh
. "$root/tools/setup.sh"
recorded=$root/tests/fixtures/bits.txt
[ $# -ge 2 ] || { echo "Usage: tools/check_bits.sh UPDATES CONFIG..." >&2; exit 2; }
UPDATES=$1
export UPDATES
shift
if [ -z "${QKV:-}" ]; then
    # shellcheck source=tools/setup.sh
    . "$root/tools/setup.sh"
    # shellcheck disable=SC2119 # no arguments: only what the build needs
    setup
    build release
    QKV=$root/build/release/tools/qkv
fi
export QKV

# hash CONFIG: "HASH  NAME"
hash() {
    "$root/tools/hash_checkpoints.sh" "$1"
}

# Whether the processor has the variant: another is used in its place where it has not.
runs_here() {
    QKV_KERNELS=$1 "$QKV" --version | grep -q "kernels: $1 for float32"
}

failed=0
for config; do
    name=$(basename "$config" .yaml)
    if [ -n "${RECORD:-}" ]; then
        line=$(hash "$config") || exit 2
        awk -v updates="$UPDATES" -v name="$name" '!($1 == updates && $3 == name)' "$recorded" >"$recorded.new"
        echo "$UPDATES ${line%% *} $name" >>"$recorded.new"
        LC_ALL=C sort -k 1n -k 3 "$recorded.new" >"$recorded"
        rm "$recorded.new"
        continue
    fi
    expected=$(awk -v updates="$UPDATES" -v name="$name" '$1 == updates && $3 == name { print $2 }' "$recorded")
    [ -n "$expected" ] || { echo "check_bits.sh: $recorded has no $UPDATES updates of $name" >&2; exit 2; }
    for kernels in ${KERNELS:-portable avx2 avx512}; do
        runs_here "$kernels" || { echo "  $name, $kernels: not compared, this processor lacks it"; continue; }
        line=$(export QKV_KERNELS="$kernels" && hash "$config") || exit 2
        if [ "${line%% *}" = "$expected" ]; then
            echo "  $name, $UPDATES updates, $kernels: $expected"
        else
            echo "  $name, $UPDATES updates, $kernels: ${line%% *}, but $expected is recorded"
            failed=1
        fi
    done
done
exit $failed
