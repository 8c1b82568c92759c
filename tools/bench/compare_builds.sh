#!/bin/sh
# Compares the speed of two builds of qkv-bench: shows whether a change made training or translating slower. Both run
# in turn (old, new, new, old, ...), so that a drift of the machine affects both. Prints, for each workload and
# measurement, the median ratio new / old of the pairs; exits with 1 if one is above the limit.
#
#     tools/bench/compare_builds.sh OLD/build/release/tools/qkv-bench build/release/tools/qkv-bench
#     PAIRS=20 LIMIT=1.01 OPTIONS="toy -m train -t 1 --seconds 2" tools/bench/compare_builds.sh OLD NEW
#     CLOCK=cpu tools/bench/compare_builds.sh OLD NEW     # processor time instead of elapsed time, for a busy machine
set -eu
root=$(unset CDPATH && cd -- "$(dirname -- "$0")/../.." && pwd)
# shellcheck source=tools/setup.sh
. "$root/tools/setup.sh"
[ $# -eq 2 ] || { echo "Usage: compare_builds.sh OLD NEW (two qkv-bench programs)" >&2; exit 2; }
pairs=${PAIRS:-10}
limit=${LIMIT:-1.01}
clock=${CLOCK:-elapsed}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 2' INT TERM

measure() { # measure PROGRAM NAME PAIR: appends lines "NAME PAIR WORKLOAD,MEASUREMENT MS"
    # The table has 20 columns of workload and 10 of measurement, then: threads, steps, ms, 10 %, 90 %, cpu ms.
    # shellcheck disable=SC2086 # one argument a word
    "$1" ${OPTIONS:-toy small base -m train -m decode --seconds 1} >"$work/table" || exit 2
    awk -v name="$2" -v pair="$3" -v field="$([ "$clock" = cpu ] && echo 6 || echo 3)" '
    NR > 1 {
        key = substr($0, 1, 31)
        gsub(/ +$/, "", key)
        gsub(/ +/, " ", key)
        split(substr($0, 32), number, " ")
        print name "\t" pair "\t" key "\t" number[field]
    }' "$work/table" >>"$work/results"
}

pair=1
while [ "$pair" -le "$pairs" ]; do
    if [ $((pair % 2)) -eq 1 ]; then
        measure "$1" old "$pair"
        measure "$2" new "$pair"
    else
        measure "$2" new "$pair"
        measure "$1" old "$pair"
    fi
    pair=$((pair + 1))
done

awk -F '\t' '
$1 == "old" { old[$2, $3] = $4 }
$1 == "new" { new[$2, $3] = $4 }
END { for (key in new) if (old[key] > 0) { split(key, part, SUBSEP); printf "%s\t%.6f\n", part[2], new[key] / old[key] } }
' "$work/results" | sort -t '	' -k 1,1 -k 2,2n | awk -F '\t' -v limit="$limit" '
function report() {
    if (count == 0) return
    middle = count % 2 ? ratio[(count + 1) / 2] : (ratio[count / 2] + ratio[count / 2 + 1]) / 2
    slower = middle > limit
    failed = failed || slower
    printf "%-24s %.3f (%.3f to %.3f, %d pairs)%s\n", key, middle, ratio[1], ratio[count], count, \
           slower ? "  slower than the limit" : ""
}
BEGIN { printf "%-24s %s\n", "new / old", "median ratio (range)" }
$1 != key { report(); key = $1; count = 0 }
{ ratio[++count] = $2 }
END { report(); exit failed }'
