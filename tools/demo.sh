#!/bin/sh
# Shows everything with one command: installs missing packages, builds, trains the English-Spanish toy (about half a
# minute on two cores), scores it, translates sentences that are not in the training data, and draws its attention. Each run
# trains from scratch.
set -eu
root=$(unset CDPATH && cd -- "$(dirname -- "$0")/.." && pwd)
# shellcheck source=tools/setup.sh
. "$root/tools/setup.sh"
# shellcheck disable=SC2119 # no arguments: only what the build needs
setup
setup_page
echo "Building..." >&2
build release

cd "$root"
qkv=build/release/tools/qkv
run=runs/toy_en_es
sentence="the red house is not small"

# Prints a command as a user would type it, and runs it.
show() {
    printf '\n$'
    for word; do
        case $word in
        *[!A-Za-z0-9_./=-]*) printf ' "%s"' "$word" ;;
        *) printf ' %s' "$word" ;;
        esac
    done
    printf '\n'
    "$@"
}

show "$qkv" train configs/toy_en_es.yaml --overwrite -s training.snapshots=16
show "$qkv" evaluate "$run" datasets/en_es/test.tsv --links datasets/en_es/test.align

# None of these is in the training data.
cat >"$run/unseen.txt" <<'END'
the red house is not small
the small dogs are sleeping under the table
my sister wants to eat the red apple
the tall woman gives the flowers to her friends
i am looking for my brother's white shoes
END
printf '\n$ cat %s\n' "$run/unseen.txt"
cat "$run/unseen.txt"
show "$qkv" translate "$run" "$run/unseen.txt"

show "$qkv" attention "$run" "$sentence"
for format in png svg; do
    show "$qkv" attention "$run" "$sentence" --kind cross -o "$run/attention.$format"
done

show "$qkv" attention "$run" "$sentence" --target "la casa roja no es pequeña" --head best \
    --versus random --annotate -o "$run/random_and_learned.png"

show "$qkv" film "$run" "$sentence" --layer 1 --quiet -o "$run/film.png"

page=
if [ -s build/release/tools/page/engine.wasm ]; then
    show "$qkv" page "$run" --sentence "$sentence" --lesson --pairs datasets/en_es/test.tsv --max-pairs 1000 \
        --links datasets/en_es/test.align -o "$run/page.html"
    page="
  $run/page.html         open it in a browser: type a sentence, see where every head looks"
fi

cat <<END

In $root:
  $run/                  the trained run: config, vocabularies, checkpoints, metrics.jsonl
  $run/attention.png     the attention of the translation, head by head
  $run/attention.svg     the same as vector graphics
  $run/random_and_learned.png  the head that agrees most with all, before training and after it
  $run/film.png          the same head while it learned: open it in a browser, which plays it$page

Try next:
  echo "the old teacher reads the book" | $qkv translate $run --beam 5 --n-best 3 --scores
  $qkv attention $run "$sentence" --kind encoder --layer 2 --head 1
  $qkv explain $run "$sentence" --head 1 --versus random -o $run/explain.html
END
