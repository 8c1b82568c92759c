#!/bin/sh
# Checks that the source keeps the structure that docs/architecture.md describes. Prints one line a finding and exits
# with 1, or prints nothing and exits with 0; exit status 2 means that the check itself could not run.
#
#     tools/check_structure.sh                  # all checks
#     tools/check_structure.sh includes format  # some of: top includes circles lengths format examples
set -eu
root=$(unset CDPATH && cd -- "$(dirname -- "$0")/.." && pwd)
# shellcheck source=tools/help.sh
. "$root/tools/help.sh"
cd "$root"

# Folders, lowest first. A file includes only files of its own folder and of folders earlier in this list. Tests and
# examples may include whatever they test; they are not in the list. Neither is tools/page/module: it is another program,
# which has functions of framework/engine/core of its own.
# The engine comes first, and knows nothing of the translator that stands on it.
folders="framework/engine/core framework/engine/graph framework/engine/kernels framework/engine/layers
    framework/engine/check/op_samples framework/engine/check
    framework/engine/checkpoint framework/engine/optimize
    framework/translator/processes framework/translator/config framework/translator/data datasets/generate models
    framework/translator/metrics framework/translator/run framework/translator/train framework/translator/draw
    framework/translator/report framework/translator/explain tools tools/bench"

# A public header belongs to the folder that defines the functions it declares. These declare none, or those of several
# folders: each has the lowest folder that may include it.
public="framework/engine/include/qkv framework/translator/include/qkv"
engine=${public%% *} translator=${public##* }
owners="$translator/qkv.h:tools $engine/engine.h:framework/engine/optimize
    $translator/trainer.h:framework/translator/processes $translator/attention_map.h:framework/translator/draw"

longest_file=800
longest_example=200 # one sitting
longest_function=100
# Kernels are excepted: products take the arguments that BLAS takes.
most_parameters=7
parameters_excepted="framework/engine/kernels/"

# Other versions of clang-format break some lines differently.
clang_format_version=14

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 2' INT TERM

find framework models datasets tools tests examples \( -name '*.c' -o -name '*.h' -o -name '*.def' \) -type f \
    2>/dev/null | LC_ALL=C sort >"$work/files"
grep -v '\.def$' "$work/files" >"$work/sources"
# shellcheck disable=SC2046 # one argument a file
awk -f tools/check_structure.awk $(cat "$work/files") >"$work/facts"

# Adds a folder (or an owner) to each file and resolves each include:
#     folder FILE FOLDER        include FILE LINE FILE
resolve() {
    awk -F '\t' -v folders="$folders" -v owners="$owners" -v public="$public" '
    function place_of(path) {
        sub(/\/[^\/]*$/, "", path)
        return path
    }
    # The folders of commands are one folder.
    function folder_of(path) {
        path = place_of(path)
        return path ~ /^tools\// && !(path in is_folder) && path !~ /^tools\/page\/module/ ? "tools" : path
    }
    BEGIN {
        count = split(folders, list, /[ \n]+/)
        for (i = 1; i <= count; i++) is_folder[list[i]] = 1
        count = split(public, list, " ")
        for (i = 1; i <= count; i++) is_public[list[i]] = 1
        count = split(owners, list, /[ \n]+/)
        for (i = 1; i <= count; i++) { split(list[i], pair, ":"); owner[pair[1]] = pair[2]; fixed[pair[1]] = 1 }
    }
    FILENAME ~ /files$/ { exists[$0] = 1; next }
    $1 == "defines" && $7 == "external" && is_folder[folder_of($2)] { defined[$4] = folder_of($2) }
    $1 == "declares" { header[++declarations] = $2; declared[declarations] = $4 }
    $1 == "include" { from[++includes] = $2; line[includes] = $3; written[includes] = $4 }
    END {
        for (i = 1; i <= declarations; i++) {
            path = header[i]
            if (!is_public[folder_of(path)] || !(declared[i] in defined) || path in owner && fixed[path]) continue
            folder = defined[declared[i]]
            if (!(path in owner)) owner[path] = folder
            else if (owner[path] != folder && !told[path, folder]++)
                print "finding\t" path "\t1\tdeclares functions of " owner[path] "/ and of " folder "/"
        }
        for (path in exists) {
            folder = folder_of(path)
            if (is_public[folder]) {
                if (path in owner) print "folder\t" path "\t" owner[path]
                else if (path ~ /\.h$/)
                    print "finding\t" path "\t1\tdeclares no function that a folder defines: " \
                          "add its folder to `owners` in tools/check_structure.sh"
            } else if (is_folder[folder]) print "folder\t" path "\t" folder
        }
        for (i = 1; i <= includes; i++) {
            found = ""
            split(place_of(from[i]) "/|tools/command/|tools/shared/|framework/engine/include/|framework/translator/include/|framework/engine/|" \
                  "framework/translator/||tests/support/|tests/", places, "|")
            for (k = 1; k <= 10 && found == ""; k++)
                if ((places[k] written[i]) in exists) found = places[k] written[i]
            if (found != "") print "include\t" from[i] "\t" line[i] "\t" found
        }
    }' "$work/files" "$work/facts"
}

check_includes() {
    awk -F '\t' '$1 == "finding" { print $2 ":" $3 ": " $4 }' "$work/resolved"
    # Public headers include each other in any order without circles; of files, both includes and calls go downwards.
    awk -F '\t' -v folders="$folders" '
    BEGIN { count = split(folders, list, /[ \n]+/); for (i = 1; i <= count; i++) rank[list[i]] = i }
    $1 == "folder" { folder[$2] = $3 }
    $1 == "include" && !($2 ~ /\/include\/qkv\// && $4 ~ /\/include\/qkv\//) {
        from[++includes] = $2; line[includes] = $3; to[includes] = $4
    }
    $1 == "defines" && $7 == "external" { places[$4]++; defined[$4] = $2 }
    $1 == "defines" && $7 == "static" { is_own[$2, $4] = 1 }
    $1 == "names" && $2 ~ /\.c$/ && $4 ~ /^qkv_/ { by[++names] = $2; name[names] = $4 }
    END {
        for (i = 1; i <= names; i++) {
            a = folder[by[i]]
            # A name that several files define is the entry of a program, or one of several variants.
            b = (by[i], name[i]) in is_own || places[name[i]] != 1 ? "" : folder[defined[name[i]]]
            if (a != "" && b != "" && rank[b] > rank[a])
                print by[i] ":1: " a "/ must not call " name[i] ", which " b "/ defines"
        }
        for (i = 1; i <= includes; i++) {
            a = folder[from[i]]
            b = folder[to[i]]
            if (a != "" && b != "" && rank[b] > rank[a])
                print from[i] ":" line[i] ": " a "/ must not include " to[i] ", which belongs to " b "/"
        }
    }' "$work/resolved" "$work/facts"
    # qkv/engine.h includes every public header of the engine, qkv/qkv.h that one and all others, and the table of
    # docs/library.md lists them.
    for header in "$engine"/*.h "$translator"/*.h; do
        name=qkv/$(basename "$header")
        all=$(dirname "$header")/engine.h
        [ -f "$all" ] || all=$translator/qkv.h
        [ "$header" = "$all" ] || grep -q "#include [\"<]${name}[\">]" "$all" 2>/dev/null ||
            echo "$all:1: does not include $name"
        [ "$header" = "$all" ] || grep -q "^|.*\`${name#qkv/}\`" docs/library.md ||
            echo "docs/library.md:1: the table of headers lacks ${name#qkv/}"
    done
}

check_circles() {
    # Headers: what neither starts nor ends a chain of includes is part of a circle.
    awk -F '\t' '
    $1 == "include" && $2 ~ /\.(h|def)$/ && !(($2, $4) in known) {
        known[$2, $4] = 1
        from[++count] = $2
        to[count] = $4
    }
    END {
        do {
            removed = 0
            split("", out)
            split("", into)
            for (i = 1; i <= count; i++) if (!gone[i]) { out[from[i]] = 1; into[to[i]] = 1 }
            for (i = 1; i <= count; i++)
                if (!gone[i] && (!(to[i] in out) || !(from[i] in into))) removed = gone[i] = 1
        } while (removed)
        for (i = 1; i <= count; i++)
            if (!gone[i]) print from[i] ":1: includes itself by way of " to[i]
    }' "$work/resolved"
    # Files: a.c names a function that b.c defines, and the other way round.
    awk -F '\t' '
    $2 !~ /\.c$/ || $2 ~ /^(tests|examples)\// { next }
    $1 == "defines" && $7 == "external" { defined[$4] = defined[$4] "\t" $2 }
    $1 == "defines" && $7 == "static" { is_own[$2, $4] = 1 }
    $1 == "names" { file[++count] = $2; name[count] = $4 }
    END {
        for (i = 1; i <= count; i++) {
            if (!(name[i] in defined) || (file[i], name[i]) in is_own) continue
            places = split(substr(defined[name[i]], 2), place, "\t")
            # A name that several files define is the entry of a program, or one of several variants.
            if (places == 1 && place[1] != file[i]) calls[file[i] "\t" place[1]] = name[i]
        }
        for (pair in calls) {
            split(pair, side, "\t")
            if (side[1] < side[2] && (side[2] "\t" side[1]) in calls)
                print side[1] ":1: calls " calls[pair] " of " side[2] ", which calls " \
                      calls[side[2] "\t" side[1]] " of this file"
        }
    }' "$work/facts"
}

check_lengths() {
    awk -F '\t' -v file_limit="$longest_file" -v function_limit="$longest_function" \
        -v parameter_limit="$most_parameters" -v excepted="$parameters_excepted" '
    $1 == "length" && $2 ~ /\.[ch]$/ && $3 > file_limit {
        print $2 ":1: has " $3 " lines; a file has at most " file_limit
    }
    $1 == "defines" && $5 > function_limit {
        print $2 ":" $3 ": " $4 " has " $5 " lines; a function has at most " function_limit
    }
    $1 == "defines" && $6 > parameter_limit && index($2, excepted) != 1 {
        print $2 ":" $3 ": " $4 " has " $6 " parameters; a function has at most " parameter_limit ", or takes a struct"
    }' "$work/facts"
    for example in examples/*.c examples/*.py; do
        count=$(wc -l <"$example")
        [ "$count" -le $longest_example ] ||
            echo "$example:1: has $count lines; an example has at most $longest_example"
    done
}

check_format() {
    for formatter in "clang-format-$clang_format_version" clang-format; do
        case $("$formatter" --version 2>/dev/null) in
        *"version $clang_format_version."*)
            # The build folders of tests hold generated files only; xargs exits with 123 when a file is not clean.
            xargs "$formatter" --dry-run -Werror <"$work/sources" 2>&1 |
                awk '/: error: / { split($0, part, ":"); if (!seen[part[1]]++) print part[1] ":" part[2] \
                     ": is not formatted: run clang-format -i " part[1] }'
            return
            ;;
        esac
    done
    echo "check_structure.sh: clang-format $clang_format_version is not installed: the format is not checked" >&2
}

# The examples of a header: what follows a comment line "Example:" with four more spaces than the comment. They are
# statements; each is compiled as the body of a function.
extract_example() { # extract_example HEADER
    awk '
    /^ \* Example:$/ { in_example = 1; found = 1; print "{"; next }
    in_example && (/^ \*     / || /^ \*$/) {
        line = substr($0, 7)
        ends = sub(/ *\*\/$/, "", line)
        print line
        if (!ends) next
    }
    in_example { print "}"; in_example = 0 }
    END { exit !found }' "$1"
}

check_examples() {
    # Headers that CMake configures (X.h.in) become headers with 0 for each value.
    mkdir -p "$work/include/qkv"
    for template in "$engine"/*.h.in; do
        [ -f "$template" ] || continue
        sed 's/@[A-Za-z_]*@/0/g' "$template" >"$work/include/qkv/$(basename "$template" .in)"
    done
    for header in "$engine"/*.h "$translator"/*.h "$engine"/*.h.in; do
        [ -f "$header" ] || continue
        name=$(basename "$header" .in)
        program=$work/example_${name%.h}.c
        if ! extract_example "$header" >"$work/example"; then
            echo "$header:1: no comment has an \"Example:\""
            continue
        fi
        {
            printf '#include <%s>\n' "qkv/$name" inttypes.h math.h stdbool.h stdint.h stdio.h stdlib.h string.h
            # The type of the function follows from how the example returns.
            type=int result='return 0;'
            if grep -q 'return;' "$work/example"; then type=void result=; fi
            printf '%s example(void);\n%s example(void)\n{\n' $type $type
            # The error of the caller, where the example uses one without declaring it.
            grep -q 'struct qkv_error error\>' "$work/example" || echo 'struct qkv_error error = {0}; (void)error;'
            sed 's/^/    /' "$work/example"
            printf '%s\n}\n' "$result"
        } >"$program"
        grep -q '"qkv/base.h"\|<qkv/base.h>' "$header" || sed -i '1i #include <qkv/base.h>' "$program"
        "${CC:-cc}" -std=c11 -D_POSIX_C_SOURCE=200809L -Wall -Wno-unused-variable -Wno-unused-but-set-variable -Werror \
            -fsyntax-only -I framework/engine/include -I framework/translator/include -I "$work/include" "$program" >"$work/messages" 2>&1 ||
            awk -v header="$header" '/error:|warning:/ { sub(/^[^ ]* /, ""); print header ":1: its example: " $0 }' \
                "$work/messages"
    done
}

# The files of the top level; others belong into a folder. Only what git knows: a build may leave others.
check_top() {
    git ls-files 2>/dev/null | grep -v / | while read -r file; do
        case $file in
        .* | CHANGELOG.md | CMakeLists.txt | CMakePresets.json | CONTRIBUTING.md | LICENSE | README.md) ;;
        *) echo "$file:1: does not belong to the top level" ;;
        esac
    done
}

resolve >"$work/resolved"
[ $# -gt 0 ] || set -- top includes circles lengths format examples
for check; do
    case $check in
    top | includes | circles | lengths | format | examples) "check_$check" ;;
    *) echo "check_structure.sh: there is no check $check" >&2; exit 2 ;;
    esac
done >"$work/findings"
LC_ALL=C sort -t : -k 1,1 -k 2,2n "$work/findings"
[ ! -s "$work/findings" ]
