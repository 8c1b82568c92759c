#!/bin/sh
# Checks that the source keeps the structure that docs/architecture.md describes. Prints one line a finding and exits
# with 1, or prints nothing and exits with 0. Needs Python 3.9.
#
#     tools/check_structure.sh                  # all checks
#     tools/check_structure.sh includes format  # some of: top includes circles lengths format examples
set -eu
root=$(unset CDPATH && cd -- "$(dirname -- "$0")/.." && pwd)
# shellcheck source=tools/setup.sh
. "$root/tools/setup.sh"
cd "$root"
exec python3 tools/check_structure.py "$@"
