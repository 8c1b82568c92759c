#!/bin/sh
# From the fixed vector of 2014 to flash attention: trains historical systems on the same sentence pairs, tests each on
# short sentences, on sentences as long as in training, and on longer ones, and compares them in a table and a picture of
# accuracy against length.
#
#     tools/history.sh                                   # all of configs/history
#     tools/history.sh configs/history/cho_2014.yaml configs/history/bahdanau_2014.yaml
#     UPDATES=500 TESTS=200 THREADS=1 tools/history.sh   # less training, fewer test sentences; on one core
#
# A run that exists is not trained again, so that you can interrupt the script or add a config later. Remove its folder in
# runs/history to train it again.
set -eu
root=$(unset CDPATH && cd -- "$(dirname -- "$0")/.." && pwd)
# shellcheck source=tools/setup.sh
. "$root/tools/setup.sh"

updates=${UPDATES:-8000}
tests=${TESTS:-1000} # sentences of each of the three tests
threads=${THREADS:-$(cores)}
if [ $# -eq 0 ]; then
    cd "$root"
    # In chronological order.
    set --
    for name in cho_2014 sutskever_2014 bahdanau_2014 luong_2015 vaswani_2017 longformer_2020 flash_2022; do
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

for config; do
    name=$(basename "$config" .yaml)
    run=$runs/$name
    if [ ! -f "$run/26-50.json" ]; then
        printf '\n== %s\n' "$name"
        "$qkv" train "$config" --overwrite --threads "$threads" -s name="$name" -s training.model_dir="$run" \
            -s data.train="$trained/train.tsv" -s data.dev="$trained/dev.tsv" -s data.src.max_length=25 \
            -s data.trg.max_length=25 -s training.updates="$updates" -s training.validation_freq="$updates" \
            -s training.validation_samples=0
        # The fixed-vector models have no attention, so their alignment cannot be scored.
        "$qkv" evaluate "$run" "$short/test.tsv" --links "$short/test.align" --json --threads "$threads" \
            >"$run/short.json" ||
            "$qkv" evaluate "$run" "$short/test.tsv" --json --threads "$threads" >"$run/short.json"
        for set in 3-25 26-50; do
            "$qkv" evaluate "$run" "$runs/data/$set/test.tsv" --by-length 5 --json --threads "$threads" \
                >"$run/$set.json.part"
            mv "$run/$set.json.part" "$run/$set.json"
        done
    fi
done

configs=$#
for config; do
    run=$runs/$(basename "$config" .yaml)
    set -- "$@" "$run/short.json" "$run/3-25.json" "$run/26-50.json"
done
shift "$configs"
echo
"$qkv" compare "$@" -o "$runs/comparison.md" -o "$runs/comparison.tsv" -o "$runs/comparison.json" \
    -o "$runs/accuracy_by_length.svg" -o "$runs/accuracy_by_length.png"
echo
echo "The table: $runs/comparison.md, the picture: $runs/accuracy_by_length.png"
