#!/bin/sh
# Makes a release of the last commit in build/package: the tarball, the Debian package, the notes of the changelog, and checksums.
#
#     tools/release.sh 0.2.0            # everything; tags the commit v0.2.0
#     tools/release.sh 0.2.0 --dry-run  # the checks of the repository only
#
# Before: set the version in CMakeLists.txt (project) and the SOVERSION where the interface changed, in CHANGELOG.md turn
# [Unreleased] into [0.2.0] - DATE, commit. After: it says what to push; it pushes nothing itself.
set -eu
root=$(unset CDPATH && cd -- "$(dirname -- "$0")/.." && pwd)
# shellcheck source=tools/setup.sh
. "$root/tools/setup.sh"
cd "$root"

refuse() {
    echo "release.sh: $1" >&2
    exit 2
}

version=
dry_run=false
for argument; do
    case $argument in
        --dry-run) dry_run=true ;;
        -*) refuse "unknown option $argument (usage: tools/release.sh VERSION [--dry-run])" ;;
        *) [ -z "$version" ] || refuse "more than one version"; version=$argument ;;
    esac
done
[ -n "$version" ] || refuse "VERSION is missing (usage: tools/release.sh VERSION [--dry-run])"
echo "$version" | grep -Eqx '[0-9]+\.[0-9]+\.[0-9]+' || refuse "'$version' is not a version such as 0.2.0"

[ -z "$(git status --porcelain)" ] || refuse "there are changes that are not committed; commit them, or \`git stash -u\`"
! git rev-parse -q --verify "refs/tags/v$version" >/dev/null || refuse "the tag v$version exists; choose the next version"
declared=$(sed -n 's/^project(qkv VERSION \([0-9.]*\) .*/\1/p' CMakeLists.txt)
[ "$declared" = "$version" ] || refuse "CMakeLists.txt says VERSION $declared; set it to $version and commit"
first=$(grep -m 1 '^## \[' CHANGELOG.md)
case $first in
    "## [$version] - "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]) ;;
    *) refuse "CHANGELOG.md begins with '$first'; its first section must be '## [$version] - YYYY-MM-DD'" ;;
esac
echo "release.sh: version, changelog and tags agree on $version"
! $dry_run || exit 0

.ci/run
tools/package.sh
packages=build/package
awk '/^## \[/ { section++ } section == 1 && !/^## \[/' CHANGELOG.md >"$packages/notes.md"
(cd "$packages" && sha256sum ./*.tar.gz ./*.deb >SHA256SUMS)
git tag -a "v$version" -m "qkv $version"
echo "release.sh: $packages has the release; look at it, then: git push origin v$version, and publish these files with notes.md"
