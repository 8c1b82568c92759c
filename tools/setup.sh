# shellcheck shell=sh
# Sourced by the other scripts, which set $root: installs packages and builds. Needs no network once the packages are
# installed.

packages="gcc cmake make pkg-config libyaml-dev libopenblas-dev libutf8proc-dev libcjson-dev libcairo2-dev libpango1.0-dev zlib1g-dev fonts-dejavu-core"
modules="yaml-0.1 openblas libutf8proc libcjson cairo pangocairo zlib"
commands="cmake make cc pkg-config"

cores() {
    getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2
}

# Succeeds if all commands and libraries are present, however they were installed.
ready() {
    # shellcheck disable=SC2086 # one argument a word
    {
        for command in $commands; do command -v "$command" >/dev/null 2>&1 || return 1; done
        pkg-config --exists $modules
    }
}

# Without a font, pictures show boxes instead of letters.
has_fonts() {
    find -L /usr/share/fonts /usr/local/share/fonts "${HOME:-/}/.fonts" "${HOME:-/}/.local/share/fonts" \
        -name '*.[ot]tf' 2>/dev/null | grep -q .
}

# setup [PACKAGES [MODULES [COMMANDS]]]: installs what the build needs and these Debian packages, unless their
# pkg-config modules and commands are present already.
setup() {
    packages="$packages ${1:-}"
    modules="$modules ${2:-}"
    commands="$commands ${3:-}"
    if ready && has_fonts; then return 0; fi
    if ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg-query >/dev/null 2>&1; then
        echo "This system has no apt. Install the contents of these Debian packages, then run this again:" >&2
        echo "  $packages" >&2
        exit 2
    fi
    missing=
    for package in $packages; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0 # everything is installed and yet not ready: CMake reports best why
    sudo=
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null 2>&1 || { echo "Not root and no sudo: install these yourself:$missing" >&2; exit 2; }
        sudo=sudo
    fi
    echo "Installing:$missing" >&2
    # Updating may fail for an unrelated repository, so only the installation decides. dpkg must not ask questions.
    $sudo apt-get update -q >&2 || true
    # shellcheck disable=SC2086
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing >&2 ||
        { echo "Could not install:$missing" >&2; exit 2; }
}

# build PRESET [ARGUMENT...]: configures with the arguments and builds; prints nothing unless it fails.
build() {
    preset=$1
    shift
    mkdir -p "${root:?}/build"
    log=$root/build/$preset.log
    (cd "$root" && cmake --preset "$preset" "$@" && cmake --build --preset "$preset" --parallel "$(cores)") \
        >"$log" 2>&1 ||
        { cat "$log" >&2; echo "The $preset build failed; its log is $log" >&2; exit 2; }
}
