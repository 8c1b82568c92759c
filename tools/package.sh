#!/bin/sh
# Makes a tarball of the source and a Debian package of the last commit in build/package, and tries both:
#
#     tools/package.sh
#
# The package is built from the tarball, twice, in two folders, without git: both must have the same bytes. Then it is
# installed into a new Debian 12, made by mmdebstrap (which needs root and Debian's archive), where it trains, translates,
# draws, and builds a program against its library.
set -eu
umask 022 # folders of the package have the permissions that this gives them
root=$(unset CDPATH && cd -- "$(dirname -- "$0")/.." && pwd)
# shellcheck source=tools/setup.sh
. "$root/tools/setup.sh"
setup "mmdebstrap dpkg-dev file git" "" "mmdebstrap dpkg-shlibdeps file git"
setup_page
cd "$root"
[ -z "$(git status --porcelain)" ] ||
    echo "package.sh: what is not committed does not come into the package (\`git status\` shows it)" >&2
version=$(sed -n 's/^project(qkv VERSION \([0-9.]*\) .*/\1/p' CMakeLists.txt)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) # files have the time of the last commit
export SOURCE_DATE_EPOCH
packages=$root/build/package
tarball=$packages/qkv-$version.tar.gz
rm -rf "$packages"
mkdir -p "$packages"
git archive --prefix="qkv-$version/" HEAD | gzip -n -9 >"$tarball"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/no_git"
printf '#!/bin/sh\necho "git $*" >>"%s/git_calls"\nexit 1\n' "$scratch" >"$scratch/no_git/git"
chmod +x "$scratch/no_git/git"

# package_in FOLDER: unpacks the tarball there, and builds the program and the package.
package_in() {
    mkdir -p "$1"
    tar -xzf "$tarball" -C "$1" --strip-components 1
    mkdir "$1/build"
    [ ! -d "$root/build/sources" ] || cp -r "$root/build/sources" "$1/build/sources"
    (
        PATH=$scratch/no_git:$PATH
        cd "$1"
        cmake --preset release -DQKV_TESTS=OFF
        cmake --build --preset release -j "$(cores)"
        cpack --config build/release/CPackConfig.cmake -B "$1/build/package"
    ) >"$1.log" 2>&1 || { tail -n 20 "$1.log" >&2; echo "package.sh: the tarball does not build" >&2; exit 1; }
}
package_in "$scratch/first"
package_in "$scratch/and_once_more/somewhere_else"
! [ -f "$scratch/git_calls" ] || { echo "package.sh: the build of the tarball needs git:" >&2; cat "$scratch/git_calls" >&2; exit 1; }
cp "$scratch"/first/build/package/*.deb "$packages"
for package in "$packages"/*.deb; do
    cmp "$package" "$scratch/and_once_more/somewhere_else/build/package/${package##*/}" ||
        { echo "package.sh: the package has other bytes when it is made in another folder" >&2; exit 1; }
done
echo "the tarball builds without git, and gives the same package in two folders"

system=$scratch/system
mmdebstrap --quiet --variant=apt --include=gcc,libc6-dev,pkg-config bookworm "$system"
cp "$packages"/*.deb examples/xor.c "$system/"
cat >"$system/try.sh" <<'TRY'
set -eu
apt-get update -qq
apt-get install -qq -y --no-install-recommends ./qkv_*.deb >/dev/null
cd /tmp
qkv --version
qkv train /usr/share/qkv/configs/toy_en_es.yaml -q -s training.updates=20 -s training.validation_freq=20 \
    -s training.model_dir=/tmp/run
echo "the cat is sleeping" | qkv translate -q run
qkv attention run "the cat is sleeping" --layer 1 --head 1 -o map.svg >/dev/null && grep -q '</svg>' map.svg
qkv gradcheck --op softmax | tail -n 1
apt-get install -qq -y libyaml-dev libopenblas-dev libutf8proc-dev libcjson-dev zlib1g-dev >/dev/null
cc /xor.c $(pkg-config --cflags --libs qkv) -o xor && ./xor | tail -n 1
apt-get remove -qq -y qkv >/dev/null
! test -e /usr/bin/qkv && ! test -e /usr/include/qkv
TRY
chroot "$system" sh /try.sh
ls -l "$packages"
echo "package.sh: the package works in a new Debian 12"
