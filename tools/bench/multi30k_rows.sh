#!/bin/sh
# What subwords, dropout, consistency losses, averages and ensembles bring where text is scarce: trains the rows of the table
# in docs/results.md on the first 5,000 pairs of Multi30k, with three seeds each, and prints the table of `qkv compare`.
# The same command goes on with what is not finished. Takes three and a half hours of one core of an AMD Zen 3.
#
#     tools/bench/multi30k_rows.sh FOLDER       # of train.lc.norm.tok.en, train.lc.norm.tok.de, val.lc.norm.tok.en, ...
#     ROWS="bpe r_drop" SEEDS=5 tools/bench/multi30k_rows.sh FOLDER
set -eu
root=$(unset CDPATH && cd -- "$(dirname -- "$0")/../.." && pwd)
# shellcheck source=tools/setup.sh
. "$root/tools/setup.sh"
[ $# -eq 1 ] || { echo "Usage: multi30k_rows.sh FOLDER (of the text of Multi30k)" >&2; exit 2; }
for file in train.lc.norm.tok.en train.lc.norm.tok.de val.lc.norm.tok.en val.lc.norm.tok.de; do
    [ -r "$1/$file" ] || { echo "skipped: $1/$file is absent; configs/multi30k_en_de.yaml says how to get it"; exit 0; }
done
text=$(cd "$1" && pwd)
qkv=${QKV:-$root/build/release/tools/qkv}
out=${OUT:-runs/multi30k_rows}
mkdir -p "$out/rows"
for side in en de; do
    head -n "${PAIRS:-5000}" "$text/train.lc.norm.tok.$side" >"$out/rows/train.$side"
done

row() { # row NAME YAML: a config that differs from the common one in these lines
    {
        echo "extends: $root/configs/multi30k_en_de.yaml"
        echo "name: $1"
        printf '%b' "$2"
    } >"$out/rows/$1.yaml"
}
# YAML has one section of a name only, so each row gives all of `data`.
bpe='data: {src: {num_merges: 2000, bpe_dropout: 0}, trg: {num_merges: 2000, bpe_dropout: 0}}\n'
bpe_dropout='data: {src: {num_merges: 2000}, trg: {num_merges: 2000}}\n'
word='data: {src: {level: word, num_merges: 0, bpe_dropout: 0}, trg: {level: word, num_merges: 0, bpe_dropout: 0}}\n'
row words "$word"
row bpe "$bpe"
row dropout_0.1 "${bpe}model: {encoder: {dropout: 0.1}, decoder: {dropout: 0.1}}\n"
row dropout_0.3 "${bpe}model: {encoder: {dropout: 0.3}, decoder: {dropout: 0.3}}\n"
row bpe_dropout "$bpe_dropout"
row r_drop "${bpe}training: {r_drop: 5}\n"
row simcut "${bpe}training: {simcut: 3}\n"

small="-s training.batch_size=1024 -s training.learning_rate_warmup=300"
for stack in encoder decoder; do
    small="$small -s model.$stack.num_layers=2 -s model.$stack.hidden_size=64"
done
configs=
for name in ${ROWS:-words bpe dropout_0.1 dropout_0.3 bpe_dropout r_drop simcut}; do
    configs="$configs $out/rows/$name.yaml"
done
# shellcheck disable=SC2086 # one argument a word
"$qkv" sweep $configs --seeds "${SEEDS:-3}" -o "$out/runs" ${THREADS:+-j "$THREADS"} -s data.train="$out/rows/train" \
    -s data.dev="$text/val.lc.norm.tok" -s data.test= $small -s training.updates="${UPDATES:-5000}" \
    -s training.validation_freq=250 -s training.validation_samples=0
