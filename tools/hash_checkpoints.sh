#!/bin/sh
# Trains configs for a few updates and prints a hash of the numbers of each last checkpoint (parameters and the
# optimizer's moments), one line a config, then hashes of translations and of a gradient check. A change that must not
# change results prints the same lines before and after:
#
#     tools/hash_checkpoints.sh >before.txt        # about a minute on two cores
#     tools/hash_checkpoints.sh configs/toy_en_es.yaml       # only these configs, no translations
#     QKV=/other/build/tools/qkv UPDATES=50 THREADS=1 tools/hash_checkpoints.sh
#
# Hashes depend neither on the processor nor on the number of threads, except that of the gradient check: its large
# products in float64 are those of OpenBLAS.
set -eu
root=$(unset CDPATH && cd -- "$(dirname -- "$0")/.." && pwd)
# shellcheck source=tools/setup.sh
. "$root/tools/setup.sh"

updates=${UPDATES:-200}
threads=${THREADS:-$(cores)}
qkv=${QKV:-$root/build/release/tools/qkv}
everything=
if [ $# -eq 0 ]; then
    cd "$root"
    everything=1
    set -- configs/toy_en_es.yaml configs/reverse.yaml configs/history/*.yaml configs/tatoeba_mini.yaml
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 2' INT TERM
for config; do
    [ -f "$config" ] || { echo "hash_checkpoints.sh: $config: there is no such config" >&2; exit 2; }
    shift
    set -- "$@" "$(cd "$(dirname "$config")" && pwd)/$(basename "$config")"
done
if [ -z "${QKV:-}" ]; then
    # shellcheck disable=SC2119 # no arguments: only what the build needs
    setup
    build release
fi
cd "$root"
pairs=datasets/en_es

# The bytes of a safetensors file behind its header, whose length is the number in the first 8 bytes.
hash_of() {
    header=$(od -A n -t u8 -N 8 "$1" | tr -d ' ')
    tail -c +$((header + 9)) "$1" | sha256sum | cut -c 1-32
}

"$qkv" generate reverse -o "$work/reverse" --train 8000 --dev 100 --test 10 >"$work/log" 2>&1
head -n 100 $pairs/dev.tsv >"$work/dev.tsv"
for config; do
    name=$(basename "$config" .yaml)
    data=$work
    train=$pairs/train.tsv
    if [ "$name" = reverse ]; then data=$work/reverse train=$work/reverse/train.tsv; fi
    "$qkv" train "$config" -q --threads "$threads" -s data.train="$train" -s data.dev="$data/dev.tsv" -s data.test= \
        -s training.updates="$updates" -s training.validation_freq="$updates" -s training.model_dir="$work/$name" \
        >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 2; }
    printf '%s  %s\n' "$(hash_of "$work/$name/last.safetensors")" "$name"
done
[ -n "$everything" ] || exit 0

hash_output() { # hash_output NAME: of standard input
    printf '%s  %s\n' "$(sha256sum | cut -c 1-32)" "$1"
}
cut -f 1 $pairs/test.tsv >"$work/source.txt"
head -n 50 "$work/source.txt" | "$qkv" translate "$work/toy_en_es" --beam 4 --scores | hash_output "beam search"
head -n 200 "$work/source.txt" | "$qkv" translate "$work/toy_en_es" | hash_output "greedy search"
"$qkv" gradcheck configs/toy_en_es.yaml --json | sed 's/"seconds": *[0-9.e-]*,*//g' | hash_output "gradient check"
