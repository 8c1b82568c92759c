#!/bin/sh
# Installs missing packages, builds, and runs the tests: all of them, on the optimised build, or with --sanitize on a build
# with AddressSanitizer and UBSan, which leaves out what only an optimised build shows (browsers, several processes, most
# cases of numeric sweeps). Arguments are passed on to CMake. Exits 0 when all tests pass, 1 when one fails, 2 when it
# cannot install or build.
#
#     tools/test.sh                      # about 5 minutes on two cores
#     tools/test.sh --sanitize           # about 8 minutes
#     tools/test.sh -DQKV_WERROR=ON      # warnings are errors
set -eu
root=$(unset CDPATH && cd -- "$(dirname -- "$0")/.." && pwd)
# shellcheck source=tools/setup.sh
. "$root/tools/setup.sh"
preset=release
if [ "${1:-}" = --sanitize ]; then
    preset=dev
    shift
fi
setup "$test_packages" "$test_modules"
setup_page
build "$preset" "$@"
cd "$root"
ctest --preset "$preset" -j "$(test_jobs)" || { echo "Tests fail in the build $preset" >&2; exit 1; }
