#!/bin/sh
# Installs what is missing, builds, and runs the whole test suite: optimised, then under AddressSanitizer and UBSan.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/tools/setup.sh"
setup libcriterion-dev

for preset in release dev; do
    echo "== $preset"
    build "$preset"
    (cd "$root" && ctest --preset "$preset" -j "$(nproc)")
done
