# shellcheck shell=sh
# Sourced by the other scripts: answers --help by the comment that the script begins with.

case "${1-}" in
-h | --help)
    sed -n '2,/^[^#]/s/^#[ ]\{0,1\}//p' "$0"
    exit 0
    ;;
esac
