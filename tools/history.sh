#!/bin/sh
# From the fixed vector of 2014 to flash attention: trains historical systems on the same sentence pairs, tests each on
# short sentences, on sentences as long as in training, and on longer ones, and compares them in a table and a picture of
# accuracy against length.
#
#     tools/history.sh                                   # all of configs/history
#     tools/history.sh configs/history/cho_2014.yaml configs/history/bahdanau_2014.yaml
#     UPDATES=500 TESTS=200 THREADS=1 tools/history.sh   # less training, fewer test sentences; on one core
#     SEEDS=3 tools/history.sh                           # three runs of each
#
# It trains with `qkv sweep`: you can interrupt it, or add configs and seeds later. Remove the folder of a run in runs/history to
# train it again.
set -eu
root=$(unset CDPATH && cd -- "$(dirname -- "$0")/.." && pwd)
# shellcheck source=tools/setup.sh
. "$root/tools/setup.sh"

updates=${UPDATES:-8000}
tests=${TESTS:-1000} # sentences of each of the three tests
seeds=${SEEDS:-1} # runs of each config
threads=${THREADS:-$(cores)}
if [ $# -eq 0 ]; then
    cd "$root"
    # In chronological order.
    set --
    for name in cho_2014 sutskever_2014 bahdanau_2014 luong_2015 vaswani_2017 gpt_2018 longformer_2020 flash_2022; do
        if [ -f "configs/history/$name.yaml" ]; then set -- "$@" "configs/history/$name.yaml"; fi
    done
fi
# Paths of configs are relative to the folder of the caller; all other paths are relative to the root.
for config; do
    [ -f "$config" ] || { echo "history.sh: $config: there is no such config" >&2; exit 2; }
    shift
    set -- "$@" "$(cd "$(dirname "$config")" && pwd)/$(basename "$config")"
done
qkv=${QKV:-build/release/tools/qkv}
if [ -z "${QKV:-}" ]; then
    # shellcheck disable=SC2119 # no arguments: only what the build needs
    setup
    echo "Building..." >&2
    build release
fi
cd "$root"
runs=${RUNS:-runs/history}
short=$runs/data/short
trained=$runs/data/3-25
longer=$runs/data/26-50

# Pairs of 3 to 25 words for training and test, and pairs of 26 to 50 words for the test only. The training data has no
# pair of these tests or of the short test, which is part of qkv.
[ -f "$trained/test.tsv" ] || "$qkv" generate en_es -o "$trained" --longest 25 --dev 300 --test "$tests"
[ -f "$longer/test.tsv" ] ||
    "$qkv" generate en_es -o "$longer" --shortest 26 --longest 50 --train 1 --dev 1 --test "$tests"
mkdir -p "$short"
for end in tsv align; do head -n "$tests" "datasets/en_es/test.$end" >"$short/test.$end"; done

"$qkv" sweep "$@" -o "$runs" --seeds "$seeds" --threads "$threads" -s data.train="$trained/train.tsv" \
    -s data.dev="$trained/dev.tsv" -s data.src.max_length=25 -s data.trg.max_length=25 -s training.updates="$updates" \
    -s training.validation_freq="$updates" -s training.validation_samples=0 >/dev/null

# evaluate RUN TEST OPTION...: writes RUN/TEST.json, where that is not there yet.
evaluate() {
    run=$1
    test=$2
    shift 2
    [ -f "$run/$test.json" ] && return 0
    "$qkv" evaluate "$run" "$runs/data/$test/test.tsv" --json --threads "$threads" "$@" >"$run/$test.json.part" &&
        mv "$run/$test.json.part" "$run/$test.json"
}

configs=$#
for config; do
    prefix= # sweep names the runs of one config by their seeds alone
    [ "$configs" -eq 1 ] || prefix=$("$qkv" config "$config" | sed -n 's/^name: *//p'),
    for run in "$runs/$prefix"seed=*/; do
        run=${run%/}
        # The fixed-vector models have no attention, so their alignment cannot be scored.
        evaluate "$run" short --links "$short/test.align" 2>/dev/null || evaluate "$run" short
        evaluate "$run" 3-25 --by-length 5
        evaluate "$run" 26-50 --by-length 5
        set -- "$@" "$run/short.json" "$run/3-25.json" "$run/26-50.json"
    done
done
shift "$configs"
echo
"$qkv" compare "$@" -o "$runs/comparison.md" -o "$runs/comparison.tsv" -o "$runs/comparison.json" \
    -o "$runs/accuracy_by_length.svg" -o "$runs/accuracy_by_length.png"
echo
echo "The table: $runs/comparison.md, the picture: $runs/accuracy_by_length.png"
