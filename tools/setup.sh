# Sourced by demo.sh and test.sh: packages and a build. Expects $root; `setup PACKAGE...` installs what is missing.
# Works offline once the packages are there.

packages="gcc cmake make pkg-config libyaml-dev libopenblas-dev libutf8proc-dev libcjson-dev libcairo2-dev libpango1.0-dev zlib1g-dev fonts-dejavu-core"

setup() {
    wanted="$packages $*"
    if ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg-query >/dev/null 2>&1; then
        for tool in cmake pkg-config cc; do command -v "$tool" >/dev/null 2>&1 || missing_tool=$tool; done
        if [ -z "${missing_tool:-}" ] && pkg-config --exists yaml-0.1 openblas libutf8proc libcjson cairo pangocairo zlib; then return 0; fi
        echo "This system has no apt. Install what these Debian packages hold, then run this again:" >&2
        echo "  $wanted" >&2
        exit 2
    fi
    missing=
    for package in $wanted; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    echo "Installing:$missing" >&2
    sudo=
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null 2>&1 || { echo "Not root and no sudo: install these yourself:$missing" >&2; exit 2; }
        sudo=sudo
    fi
    # shellcheck disable=SC2086 # words on purpose
    { $sudo apt-get update -q && $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing; } >&2 ||
        { echo "Could not install:$missing" >&2; exit 2; }
}

build() { # build PRESET
    # Generators differ between CMake releases only in noise: keep it quiet unless it fails.
    log=$(mktemp)
    (cd "$root" && cmake --preset "$1" && cmake --build --preset "$1") >"$log" 2>&1 || { cat "$log" >&2; rm -f "$log"; exit 2; }
    rm -f "$log"
}
