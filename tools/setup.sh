# shellcheck shell=sh
# Sourced by demo.sh and test.sh, which set $root: packages and a build. Needs no network once the packages are there.

packages="gcc cmake make pkg-config libyaml-dev libopenblas-dev libutf8proc-dev libcjson-dev libcairo2-dev libpango1.0-dev zlib1g-dev fonts-dejavu-core"
modules="yaml-0.1 openblas libutf8proc libcjson cairo pangocairo zlib"

cores() {
    getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2
}

# Whether all that the build needs is there, wherever it comes from.
ready() {
    for tool in cmake make cc pkg-config; do command -v "$tool" >/dev/null 2>&1 || return 1; done
    # shellcheck disable=SC2086 # words on purpose
    pkg-config --exists $modules
}

# Pictures without a font have boxes for letters.
has_fonts() {
    find -L /usr/share/fonts /usr/local/share/fonts "${HOME:-/}/.fonts" "${HOME:-/}/.local/share/fonts" \
        -name '*.[ot]tf' 2>/dev/null | grep -q .
}

setup() { # setup [PACKAGE MODULE]: what is needed beside the above
    packages="$packages ${1:-}"
    modules="$modules ${2:-}"
    if ready && has_fonts; then return 0; fi
    if ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg-query >/dev/null 2>&1; then
        echo "This system has no apt. Install what these Debian packages hold, then run this again:" >&2
        echo "  $packages" >&2
        exit 2
    fi
    missing=
    for package in $packages; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0 # all installed, and yet not ready: CMake says best why
    sudo=
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null 2>&1 || { echo "Not root and no sudo: install these yourself:$missing" >&2; exit 2; }
        sudo=sudo
    fi
    echo "Installing:$missing" >&2
    # Another repository of this system may be out of reach: installing decides. dpkg must not ask questions.
    $sudo apt-get update -q >&2 || true
    # shellcheck disable=SC2086
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing >&2 ||
        { echo "Could not install:$missing" >&2; exit 2; }
}

build() { # build PRESET: quiet unless it fails
    mkdir -p "${root:?}/build"
    log=$root/build/$1.log
    (cd "$root" && cmake --preset "$1" && cmake --build --preset "$1" --parallel "$(cores)") >"$log" 2>&1 ||
        { cat "$log" >&2; echo "The $1 build failed; the above is in $log, too" >&2; exit 2; }
}
