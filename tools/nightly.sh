#!/bin/sh
# The checks that are too long for .ci/run, in three hours on two cores. Prints what each part runs, then one line with its
# result. Exits 0 when all parts pass, 1 when one fails, 2 when it cannot install or build.
#
#     tools/nightly.sh                      # all parts, in this order
#     tools/nightly.sh hashes training      # some of: fuzz random hashes bits training page history
#                                         # pytorch subwords package python faults aarch64 tsan valgrind
#
# fuzz        every fuzz target for five minutes, on the corpus of the nights before (FUZZ_SECONDS sets another time)
# random      10,000 random cases of every op, other ones every day (tests/kernels); the tokens of every line of real text,
#             where that is there
# hashes      checkpoints, translations and gradients have the same bits on one thread and on all
# bits        200 updates of nine shipped configs have the recorded bits with the fastest kernels, 50 of two with every set
# training    shipped configs, trained to their end, reach the scores in the README, and the recorded output of its commands
#             is what they print
# page        makes docs/toy_en_es.html, the page of the toy, and tests pages with axe-core where npm can get it
# history     so do two systems of configs/history: recurrent attention, and attention with a window (tools/history.sh trains
#             all of them)
# pytorch     runs before and after their way into PyTorch's transformer give the same numbers; skipped where the package
#             torch is missing (PYTHON=VENV/bin/python names another interpreter)
# subwords    merges and pieces are those of subword-nmt; skipped where the package subword-nmt is missing (PYTHON, as above)
# package     the Debian package works in a new Debian 12, and the tarball is complete (needs root)
# python      the tests of the Python package, with all its notebooks, and with AddressSanitizer (tests/python/run.sh)
# faults      every command, once for each of its allocations and system calls, which fails, or in which it is killed
# aarch64     the tests of the engine and of models on 64-bit Arm, run by qemu, and 5 updates with the recorded bits
# tsan        the tests of all that uses threads under ThreadSanitizer
# valgrind    the tests of the library under valgrind's memcheck (commands run under AddressSanitizer in .ci/run);
#             QKV_VALGRIND=. runs all tests, QKV_VALGRIND='^graph_' those with such names
set -eu
root=$(unset CDPATH && cd -- "$(dirname -- "$0")/.." && pwd)
# shellcheck source=tools/setup.sh
. "$root/tools/setup.sh"
[ $# -gt 0 ] || set -- fuzz random hashes bits training page history pytorch subwords package python faults aarch64 tsan valgrind
for part; do
    case $part in
    fuzz | random | hashes | bits | training | page | history | pytorch | subwords | package | python | faults | aarch64 | tsan | valgrind) ;;
    *) echo "nightly.sh: there is no part $part" >&2; exit 2 ;;
    esac
done
setup "$test_packages valgrind" "$test_modules" valgrind
build release
cd "$root"
qkv=build/release/tools/qkv
logs=build/nightly
mkdir -p "$logs"

# run COMMAND...: shows a command (on stderr, as the output may go to a file) and runs it.
run() {
    echo "  $*" >&2
    "$@"
}

# expect NAME KEY LOWEST FILE: a number in the JSON of qkv evaluate must not be lower.
expect() {
    value=$(grep -o "\"$2\":[[:space:]]*[0-9.e+-]*" "$4" | head -n 1 | sed 's/.*:[[:space:]]*//')
    echo "  $1: $2 $value, at least $3 expected"
    awk -v value="$value" -v lowest="$3" 'BEGIN { exit !(value != "" && value + 0 >= lowest + 0) }'
}

part_fuzz() {
    code=0
    run tests/fuzz/run.sh "${FUZZ_SECONDS:-300}" >"$logs/fuzz.txt" || code=$?
    sed 's/^/  /' "$logs/fuzz.txt"
    return $code
}

# A failure names the QKV_RANDOM_SEED that repeats it.
part_random() {
    export QKV_RANDOM_CASES=10000 QKV_RANDOM_SEED
    QKV_RANDOM_SEED=$(date +%Y%m%d)00000
    run build/release/tests/kernels_random_cases && run build/release/tests/kernels_spoilt_cases &&
        QKV_EVERY_LINE=1 run build/release/tests/data_reversible
}

part_hashes() {
    echo "  THREADS=1 tools/hash_checkpoints.sh; THREADS=$(cores) tools/hash_checkpoints.sh"
    QKV=$root/$qkv THREADS=1 tools/hash_checkpoints.sh >"$logs/hashes_1.txt" &&
        QKV=$root/$qkv THREADS=$(cores) tools/hash_checkpoints.sh >"$logs/hashes.txt" &&
        diff "$logs/hashes_1.txt" "$logs/hashes.txt" && cat "$logs/hashes.txt"
}

part_bits() {
    export QKV="$root/$qkv"
    run tools/check_bits.sh 50 configs/toy_en_es.yaml configs/reverse.yaml &&
        KERNELS=avx512 run tools/check_bits.sh 200 configs/history/*.yaml configs/tatoeba_mini.yaml configs/tatoeba.yaml
}

# The scores are a little below those in the README and in docs/history.md.
part_training() {
    run "$qkv" train configs/toy_en_es.yaml -q --overwrite -s training.model_dir="$logs/toy_en_es" &&
        run "$qkv" evaluate "$logs/toy_en_es" datasets/en_es/test.tsv --json >"$logs/toy_en_es.json" &&
        run "$qkv" generate reverse --overwrite -o "$logs/reverse_data" &&
        run "$qkv" train configs/reverse.yaml -q --overwrite -s training.model_dir="$logs/reverse" \
            -s data.train="$logs/reverse_data/train.tsv" -s data.dev="$logs/reverse_data/dev.tsv" \
            -s data.test="$logs/reverse_data/test.tsv" &&
        run "$qkv" evaluate "$logs/reverse" "$logs/reverse_data/test.tsv" --json >"$logs/reverse.json" &&
        expect toy_en_es sequence_accuracy 0.99 "$logs/toy_en_es.json" &&
        expect reverse bleu 98.5 "$logs/reverse.json" &&
        QKV_RECORDED="README.md docs/gradient-checking.md" run build/release/tests/docs_pages --short-filename
}

part_page() {
    sentence="the red house is not small"
    run "$qkv" train configs/toy_en_es.yaml -q --overwrite -s training.model_dir="$logs/page" -s training.snapshots=16 &&
        run "$qkv" page "$logs/page" --sentence "$sentence" --pairs datasets/en_es/test.tsv \
            --links datasets/en_es/test.align --max-pairs 1000 --snapshots 1 --lesson -o docs/toy_en_es.html || return 1
    if ! (cd "$logs" && npm pack --silent axe-core) >"$logs/axe.txt" 2>&1; then
        echo "  npm gives no axe-core, so that it tests nothing"
        return 0
    fi
    tar -xzf "$logs/$(tail -n 1 "$logs/axe.txt")" -C "$logs" package/axe.min.js &&
        QKV_AXE=$root/$logs/package/axe.min.js run build/release/tests/tools_page_accessible --short-filename
}

part_history() {
    rm -rf "$logs/history"
    echo "  RUNS=$logs/history tools/history.sh"
    QKV=$qkv RUNS=$logs/history tools/history.sh configs/history/bahdanau_2014.yaml configs/history/longformer_2020.yaml ||
        return 1
    for name in bahdanau_2014 longformer_2020; do
        expect "$name" sequence_accuracy 0.97 "$logs/history/$name,seed=42/short.json" || return 1
    done
}

# Both places of the norm, with tables of embeddings of their own and with shared ones.
part_pytorch() {
    exchange="${PYTHON:-python3} examples/pytorch_exchange.py"
    code=0
    $exchange >"$logs/pytorch.txt" 2>&1 || code=$?
    if [ $code = 77 ]; then sed 's/^/  /' "$logs/pytorch.txt"; return 0; fi
    run "$qkv" generate reverse --overwrite -o "$logs/pytorch_data" --train 2000 --dev 50 --test 50 --longest 8
    cut -f 1 "$logs/pytorch_data/test.tsv" >"$logs/pytorch_data/source.txt"
    for place in pre post; do
        shared=true
        [ $place = pre ] || shared=false
        rm -rf "$logs/pytorch_$place" "$logs/pytorch_back"
        run "$qkv" train configs/reverse.yaml -q -s training.model_dir="$logs/pytorch_$place" -s training.updates=100 \
            -s data.train="$logs/pytorch_data/train.tsv" -s data.dev="$logs/pytorch_data/dev.tsv" -s data.test= \
            -s model.encoder.positions.type=sinusoidal -s model.decoder.positions.type=sinusoidal \
            -s model.encoder.layer_norm=$place -s model.decoder.layer_norm=$place -s model.tied_embeddings=$shared \
            -s model.tied_softmax=$shared -s model.decoder.num_heads=2 -s training.validation_freq=100 || return 1
        export QKV="$root/$qkv"
        run $exchange compare "$logs/pytorch_$place" "$logs/pytorch_data/test.tsv" || return 1
        run $exchange write "$logs/pytorch_$place" "$logs/pytorch_back" || return 1
        "$qkv" translate "$logs/pytorch_$place" <"$logs/pytorch_data/source.txt" >"$logs/pytorch_data/before.txt" &&
            "$qkv" translate "$logs/pytorch_back" <"$logs/pytorch_data/source.txt" >"$logs/pytorch_data/after.txt" &&
            cmp "$logs/pytorch_data/before.txt" "$logs/pytorch_data/after.txt" || return 1
    done
}

part_subwords() {
    code=0
    run "${PYTHON:-python3}" tests/data/compare_bpe.py datasets/en_es/train.tsv --qkv "$qkv" --merges 500 || code=$?
    [ $code = 0 ] || [ $code = 77 ]
}

part_package() {
    run tools/package.sh
}

part_python() {
    run tests/python/run.sh --all
}

part_faults() {
    for program in memory calls kills; do
        QKV_FAULTS=1 run "build/release/tests/faults_$program" --short-filename || return 1
    done
}

# The libraries for Arm are unpacked into the build folder, so that this system's packages stay as they are.
part_aarch64() {
    setup "gcc-aarch64-linux-gnu qemu-user-static mmdebstrap" "" "aarch64-linux-gnu-gcc qemu-aarch64-static mmdebstrap"
    sysroot=build/aarch64-sysroot
    if ! [ -e "$sysroot/usr/include/criterion" ]; then
        rm -rf "$sysroot"
        run mmdebstrap --quiet --architectures=arm64 --variant=extract --include="libc6-dev,libgcc-12-dev,\
libyaml-dev,libopenblas-dev,libutf8proc-dev,libcjson-dev,libcairo2-dev,libpango1.0-dev,zlib1g-dev,\
libcriterion-dev" bookworm "$sysroot" || return 1
    fi
    build aarch64 && run ctest --preset aarch64 -j "$(cores)" \
        -R '^(graph|kernels|layers|models)_|^core_(libm|random|scalar_math)$|^run_checkpoint$' ||
        return 1
    printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec qemu-aarch64-static -L %s %s "$@"\n' \
        /usr/lib/aarch64-linux-gnu/openblas-pthread "$root/$sysroot" "$root/build/aarch64/tools/qkv" >"$logs/qkv-aarch64"
    chmod +x "$logs/qkv-aarch64"
    QKV=$root/$logs/qkv-aarch64 KERNELS=portable run tools/check_bits.sh 5 configs/toy_en_es.yaml configs/reverse.yaml
}

part_tsan() {
    build tsan && run ctest --preset tsan -j "$(cores)" -R '^(core|graph|kernels|models|train)_'
}

part_valgrind() {
    build valgrind
    rm -f build/valgrind/memcheck.*.log
    run ctest --preset valgrind -j "$(cores)" -R "${QKV_VALGRIND:-^(check|config|core|data|draw|graph|layers|metrics|models|report|run|train)_}" || return 1
    # A process that fails as its test expects still leaves what memcheck found.
    for log in build/valgrind/memcheck.*.log; do
        if grep -q 'guarded_memory\|behind_a_tensor' "$log"; then continue; fi # tests that must crash
        if [ -s "$log" ]; then cat "$log"; return 1; fi
    done
}

failed=
for part; do
    began=$(date +%s)
    echo "== $part"
    result=ok
    ("part_$part") >"$logs/$part.log" 2>&1 || result=FAILED
    grep '^  ' "$logs/$part.log" || true
    if [ $result = FAILED ]; then
        failed="$failed $part"
        tail -n 40 "$logs/$part.log"
    fi
    echo "$result: $part, $((($(date +%s) - began + 59) / 60)) min, log: $logs/$part.log"
done
[ -z "$failed" ] || { echo "Failed:$failed" >&2; exit 1; }
