# shellcheck shell=sh
# Sourced by the other scripts, which set $root: answers --help by the comment that the script begins with; functions that install
# packages and build. Needs no network once the packages are installed.

case "${1-}" in
-h | --help)
    sed -n '2,/^[^#]/s/^#[ ]\{0,1\}//p' "$0"
    exit 0
    ;;
esac

packages="gcc cmake make pkg-config libyaml-dev libopenblas-dev libutf8proc-dev libcjson-dev libcairo2-dev libpango1.0-dev zlib1g-dev libedit-dev fonts-dejavu-core"
modules="yaml-0.1 openblas libutf8proc libcjson cairo pangocairo zlib libedit"
commands="cmake make cc pkg-config"
# What the tests need besides. Without Open MPI, training in several processes is neither built nor tested.
test_packages="libcriterion-dev openmpi-bin libopenmpi-dev"
test_modules="criterion ompi-c"

cores() {
    getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2
}

# How many test programs run at a time: many wait, for a browser or for other processes.
test_jobs() {
    echo $((2 * $(cores)))
}

# Succeeds if all commands and libraries are present, however they were installed.
ready() {
    # shellcheck disable=SC2086 # one argument a word
    {
        for command in $commands; do command -v "$command" >/dev/null 2>&1 || return 1; done
        pkg-config --exists $modules
    }
}

# Succeeds if clang makes WebAssembly of C, for `qkv page`.
makes_wasm() {
    command -v clang >/dev/null 2>&1 &&
        echo 'int main(void) { return 0; }' | clang --target=wasm32-wasi -x c - -o /dev/null >/dev/null 2>&1
}

# Without a font, pictures show boxes instead of letters.
has_fonts() {
    find -L /usr/share/fonts /usr/local/share/fonts "${HOME:-/}/.fonts" "${HOME:-/}/.local/share/fonts" \
        -name '*.[ot]tf' 2>/dev/null | grep -q .
}

# apt_install PACKAGE...: updating may fail for an unrelated repository, so only the installation decides. dpkg must not ask
# questions.
apt_install() {
    sudo=
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null 2>&1 || { echo "Not root and no sudo: install these yourself: $*" >&2; exit 2; }
        sudo=sudo
    fi
    echo "Installing: $*" >&2
    $sudo apt-get update -q >&2 || true
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@" >&2
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
    # shellcheck disable=SC2086
    apt_install $missing || { echo "Could not install:$missing" >&2; exit 2; }
}

# setup_page: what `qkv page` needs besides: clang for WebAssembly, and the released source of utf8proc, which apt checks
# and which is unpacked in the build folder. Where that fails, qkv is built without the page.
setup_page() {
    if ! makes_wasm && command -v apt-get >/dev/null 2>&1; then
        if apt_install clang lld wasi-libc; then
            apt_install "libclang-rt-$(clang -dumpversion | cut -d . -f 1)-dev-wasm32" || true
        fi
    fi
    if makes_wasm && fetch_source utf8proc; then return 0; fi
    echo "Without clang, lld, wasi-libc, libclang-rt-14-dev-wasm32 and the source of utf8proc, qkv has no page." >&2
}

# fetch_source PACKAGE: unpacks the released source of a Debian package in build/sources/PACKAGE. Reads the sources of the
# system as sources of source packages in a folder of its own: nothing of the system is changed.
fetch_source() (
    source=${root:?}/build/sources/$1 apt=$root/build/sources/apt
    [ ! -d "$source" ] || exit 0
    command -v apt-get >/dev/null 2>&1 || exit 1
    mkdir -p "$apt/lists/partial" "$apt/parts" "$apt/unpacked"
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
        [ -f "$file" ] || continue
        sed 's/^Types:.*/Types: deb-src/; s/^deb /deb-src /' "$file" >"$apt/parts/${file##*/}"
    done
    apt_get() {
        apt-get -q -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$apt/parts" \
            -o Dir::State::Lists="$apt/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
            -o APT::Sandbox::User="$(id -un)" "$@" >>"$apt/log" 2>&1
    }
    cd "$apt" || exit 1
    apt_get update || true # another repository may fail
    apt_get source --download-only "$1" || exit 1
    tar -xf "$1"_*.orig.tar.* -C unpacked --strip-components=1 || exit 1
    mv unpacked "$source"
    rm -rf "$apt"
)

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
