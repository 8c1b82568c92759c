#!/bin/sh
# Installs missing packages, builds, and runs the whole test suite twice: optimised, then with AddressSanitizer and
# UBSan. Arguments are passed on to CMake. Exits 0 when all tests pass, 1 when one fails, 2 when it cannot install or
# build.
set -eu
root=$(unset CDPATH && cd -- "$(dirname -- "$0")/.." && pwd)
# shellcheck source=tools/setup.sh
. "$root/tools/setup.sh"
setup "$test_packages" "$test_modules"
setup_page

failed=
for preset in release dev; do
    echo "== $preset"
    build "$preset" "$@"
    (cd "$root" && ctest --preset "$preset" -j "$(cores)") || failed="$failed $preset"
done
[ -z "$failed" ] || { echo "Tests fail in:$failed" >&2; exit 1; }
