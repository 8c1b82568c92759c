# Reads C files and prints what tools/check_structure.sh needs to know about them, one fact a line, fields separated by
# tabs. Comments, strings and the bodies of macros count as nothing, but for identifiers, which macros have as well.
#
#     include    FILE LINE PATH               #include "PATH", as written
#     defines    FILE LINE NAME LENGTH PARAMETERS LINKAGE   a function; LINKAGE is static or external
#     declares   FILE LINE NAME               the prototype of a function
#     names      FILE LINE NAME               the first line of the file that has the identifier NAME
#     length     FILE LINES
#
# Needs no more than POSIX awk. It relies on the formatting that clang-format gives, and on braces that balance.

FNR == 1 {
    finish()
    file = FILENAME
    in_comment = in_macro = depth = extern_c = 0
    start_declaration()
    delete seen
}

{
    text = without_comments($0)
    if (in_macro || text ~ /^[ \t]*#/) {
        if (!in_macro && $0 ~ /^[ \t]*#[ \t]*include[ \t]*"/) {
            split($0, quoted, "\"")
            fact("include", FNR, quoted[2])
        }
        is_definition = in_macro || text ~ /^[ \t]*#[ \t]*define/
        in_macro = $0 ~ /\\$/
        if (is_definition) read_tokens(join_variants(text), 0)
    } else {
        read_tokens(join_variants(text), 1)
    }
    lines = FNR
}

END { finish() }

function finish()
{
    if (file != "") print "length\t" file "\t" lines
}

function fact(kind, line, rest)
{
    print kind "\t" file "\t" line "\t" rest
}

# The line without comments; strings become "". A comment that goes on is remembered in in_comment.
function without_comments(line,    result, rest, c)
{
    result = ""
    rest = line
    while (rest != "") {
        if (in_comment) {
            if (!match(rest, /\*\//)) return result
            rest = substr(rest, RSTART + 2)
            in_comment = 0
        } else if (match(rest, /\/\*|\/\/|"|'/)) {
            c = substr(rest, RSTART, 1)
            result = result substr(rest, 1, RSTART - 1)
            rest = substr(rest, RSTART)
            if (substr(rest, 1, 2) == "//") return result
            if (c == "/") {
                in_comment = 1
                rest = substr(rest, 3)
            } else {
                if (c == "\"") match(rest, /^"([^"\\]|\\.)*"?/)
                else match(rest, /^'([^'\\]|\\.)*'?/)
                rest = substr(rest, RLENGTH + 1)
                result = result "\"\""
            }
        } else {
            return result rest
        }
    }
    return result
}

# VARIANT(qkv_, gemm) is the function qkv_gemm of one variant.
function join_variants(text,    name)
{
    while (match(text, /VARIANT\([A-Za-z0-9_]*, *[A-Za-z0-9_]+\)/)) {
        name = substr(text, RSTART + 8, RLENGTH - 9)
        sub(/, */, "", name)
        text = substr(text, 1, RSTART - 1) name substr(text, RSTART + RLENGTH)
    }
    return text
}

function start_declaration()
{
    name = previous = ""
    parentheses = commas = words = is_static = has_value = is_attribute = is_type = 0
    first_line = 0
}

# Goes through the identifiers and brackets of a line. In macros (is_code 0) only identifiers count.
function read_tokens(text, is_code,    token)
{
    while (match(text, /[A-Za-z_][A-Za-z0-9_]*|[0-9][A-Za-z0-9_.]*|[{}();=,]/)) {
        token = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
        if (token ~ /^[0-9]/) continue
        if (token ~ /^[A-Za-z_]/ && !(token in seen)) {
            seen[token] = 1
            fact("names", FNR, token)
        }
        if (is_code) step(token)
    }
}

function step(token)
{
    if (depth > 0) {
        if (token == "{") depth++
        if (token == "}" && --depth == 0) {
            if (function_name != "")
                fact("defines", function_line, function_name "\t" (FNR - function_line + 1) "\t" \
                     function_parameters "\t" function_linkage)
            if (function_name != "") start_declaration()
        }
        return
    }
    if (first_line == 0) first_line = FNR
    if (token == "(") {
        if (parentheses++ == 0) {
            is_attribute = previous == "__attribute__" || previous == "_Alignas"
            if (name == "" && !is_attribute) {
                name = previous
                commas = words = 0
            }
        }
    } else if (token == ")") {
        if (parentheses > 0) parentheses--
        if (parentheses == 0 && is_attribute) is_attribute = 0
    } else if (parentheses > 0) {
        if (parentheses == 1 && !is_attribute) {
            if (token == ",") commas++
            else words++
        }
    } else if (token == "=") {
        has_value = 1
    } else if (token == "{") {
        if (previous == "extern") { # extern "C" {
            extern_c++
            start_declaration()
            return
        }
        function_name = !has_value && name != "" ? name : ""
        function_line = first_line
        function_parameters = words ? commas + 1 : 0
        function_linkage = is_static ? "static" : "external"
        depth = 1
    } else if (token == ";") {
        if (name != "" && !has_value && !is_type) fact("declares", first_line, name)
        start_declaration()
    } else if (token == "}") {
        if (extern_c > 0) extern_c--
        start_declaration()
    } else if (token != ",") {
        if (token == "static") is_static = 1
        if (token == "typedef") is_type = 1
    }
    previous = token
}
