#!/bin/sh
# Makes a Debian package and a tarball of the source in build/package, and tries both:
#
#     tools/package.sh
#
# The tarball must hold every file of the repository. The package is installed into a new Debian 12, made by mmdebstrap (which
# needs root and Debian's archive), where it trains, translates, draws, and builds a program against its library.
set -eu
root=$(unset CDPATH && cd -- "$(dirname -- "$0")/.." && pwd)
# shellcheck source=tools/setup.sh
. "$root/tools/setup.sh"
setup "mmdebstrap dpkg-dev file" "" "mmdebstrap dpkg-shlibdeps file"
build release
cd "$root"
rm -rf build/package
# SOURCE_DATE_EPOCH: files of the package have the time of the last commit.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
cpack --config build/release/CPackSourceConfig.cmake -B build/package
cpack --config build/release/CPackConfig.cmake -B build/package
rm -rf build/package/_CPack_Packages

git ls-files | sort >build/package/wanted.txt
tar -tzf build/package/*.tar.gz | sed -n 's|^[^/]*/||p' | grep -v '/$' | grep . | sort >build/package/packed.txt
if ! diff build/package/wanted.txt build/package/packed.txt >build/package/difference.txt; then
    echo "package.sh: the tarball lacks files (<) or holds files that the repository does not (>):" >&2
    cat build/package/difference.txt >&2
    exit 1
fi
echo "the tarball holds all $(wc -l <build/package/wanted.txt) files of the repository, and no others"
rm build/package/*.txt

system=$(mktemp -d)
trap 'rm -rf "$system"' EXIT
mmdebstrap --quiet --variant=apt --include=gcc,libc6-dev,pkg-config bookworm "$system/root"
cp build/package/*.deb examples/xor.c "$system/root/"
cat >"$system/root/try.sh" <<'TRY'
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
chroot "$system/root" sh /try.sh
ls -l build/package
echo "package.sh: the package works in a new Debian 12"
