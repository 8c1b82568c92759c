"""The checks of tools/check_structure.sh. Relies on the formatting that clang-format gives, and on braces that balance."""
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# Folders, lowest first. A file includes only files of its own folder and of folders earlier in this list. Tests and examples
# may include whatever they test; they are not in the list. Neither is tools/page/module: it is another program, which has
# functions of framework/engine/core of its own. The engine comes first, and knows nothing of the translator that stands on it.
FOLDERS = """framework/engine/core framework/engine/graph framework/engine/kernels framework/engine/layers
    framework/engine/check/op_samples framework/engine/check framework/engine/checkpoint framework/engine/optimize
    framework/translator/processes framework/translator/config framework/translator/data datasets/generate models
    framework/translator/metrics framework/translator/run framework/translator/train framework/translator/draw
    framework/translator/report framework/translator/explain tools tools/bench""".split()
ENGINE, TRANSLATOR = "framework/engine/include/qkv", "framework/translator/include/qkv"
# A public header belongs to the folder that defines the functions it declares. These declare none, or those of several
# folders: each has the lowest folder that may include it.
OWNERS = {f"{TRANSLATOR}/qkv.h": "tools", f"{ENGINE}/engine.h": "framework/engine/optimize",
          f"{ENGINE}/optimizer.h": "framework/engine/kernels",  # which have the loops of the optimizers
          f"{TRANSLATOR}/trainer.h": "framework/translator/processes",
          f"{TRANSLATOR}/run.h": "framework/translator/run",
          f"{TRANSLATOR}/attention_map.h": "framework/translator/draw"}
# Where an included file is looked for, after the folder of the including one.
PLACES = ["tools/command", "tools/shared", "framework/engine/include", "framework/translator/include", "framework/engine",
          "framework/translator", "", "tests/support", "tests"]
LONGEST_FILE, LONGEST_FUNCTION = 800, 100
LONGEST_EXAMPLE = 200  # one sitting
MOST_PARAMETERS = 7  # except for kernels: products take the arguments that BLAS takes
CLANG_FORMAT = 14  # other versions break some lines differently
TOP = {"CHANGELOG.md", "CMakeLists.txt", "CMakePresets.json", "CONTRIBUTING.md", "LICENSE", "README.md",
       "pyproject.toml"}

Function = collections.namedtuple("Function", "name line length parameters is_static")
findings = set()


def find(path, line, text):
    findings.add((path, line, text))


# ---- reading C ----

COMMENT = r"/\*.*?\*/|//[^\n]*"
STRING = r'"(?:\\.|[^"\\\n])*"|' + r"'(?:\\.|[^'\\\n])*'"
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]*)"', re.MULTILINE)


def blank(match):
    """What stands for a comment or a directive: its line ends."""
    return "\n" * match[0].count("\n")


def signature(words):
    """The name and the number of parameters of a function, from the words of its declaration; None: it is none."""
    name, depth, commas, filled, is_attribute = None, 0, 0, False, False
    for before, word in zip([""] + words, words):
        if word == "(":
            is_attribute = before in ("__attribute__", "_Alignas") if depth == 0 else is_attribute
            if depth == 0 and not is_attribute:
                if name:
                    break
                name = before
            depth += 1
        elif word == ")":
            depth -= 1
        elif depth and not is_attribute:
            commas += depth == 1 and word == ","
            filled = True
    return (name, commas + 1 if filled else 0) if name and "=" not in words else None


class File:
    """What a file includes, [(line, path)]; the functions that it defines and declares; its identifiers, also in macros."""

    def __init__(self, path):
        text = pathlib.Path(path).read_text(encoding="utf-8")
        self.lines, self.defines, self.declares = text.count("\n"), [], []
        text = re.sub(f"{COMMENT}|({STRING})", lambda match: match[1] or blank(match), text, flags=re.DOTALL)
        self.includes = [(text.count("\n", 0, match.start(1)) + 1, match[1]) for match in INCLUDE.finditer(text)]
        text = re.sub(STRING, '""', text)
        text = re.sub(r"VARIANT\((\w*),\s*(\w+)\)", r"\1\2", text)  # VARIANT(qkv_, gemm) is qkv_gemm of one variant
        macros = [macro for macro in DIRECTIVE.findall(text) if re.match(r"\s*#\s*define", macro)]
        code = DIRECTIVE.sub(blank, text)
        self.names = set(re.findall(r"\b[A-Za-z_]\w*", code + " ".join(macros)))
        self._read_declarations(code)

    def _read_declarations(self, code):
        words, depth, line, at, function = [], 0, 1, 0, None
        for match in re.finditer(r"\b[A-Za-z_]\w*|[(){};=,]", code):
            word, line, at = match[0], line + code.count("\n", at, match.start()), match.start()
            if depth:
                depth += (word == "{") - (word == "}")
                if not depth and function:
                    self.defines.append(Function(function[0], begun, line - begun + 1, function[1], "static" in words))
                    words = []
                continue
            begun = begun if words else line
            if word == "{" and words[-1:] != ["extern"]:
                function, depth = signature(words), 1
            elif word in ("{", "}", ";"):
                if word == ";" and "typedef" not in words and signature(words):
                    self.declares.append(signature(words)[0])
                words = []
            else:
                words.append(word)


def folder_of(path):
    """The folders of commands are one folder."""
    folder = os.path.dirname(path)
    is_command = folder.startswith("tools/") and folder not in FOLDERS and not folder.startswith("tools/page/module")
    return "tools" if is_command else folder


class Tree:
    """All files, where each is found that one includes, and the folder (or owner) of each file."""

    def __init__(self):
        roots = ("framework", "models", "datasets", "tools", "tests", "examples")
        self.files = {str(path): File(path) for root in roots for path in sorted(pathlib.Path(root).rglob("*"))
                      if path.suffix in (".c", ".h", ".def")}
        self.included = [(path, line, self._resolve(path, name)) for path, file in self.files.items()
                         for line, name in file.includes if self._resolve(path, name)]
        self.defined = collections.defaultdict(list)  # by name of a function: the files that define it
        for path, file in self.files.items():
            for function in file.defines:
                if not function.is_static:
                    self.defined[function.name].append(path)
        self.folder = {path: folder_of(path) for path in self.files if folder_of(path) in FOLDERS} | self._owners()

    def _resolve(self, path, name):
        places = [os.path.dirname(path), *PLACES]
        return next((found for place in places if (found := os.path.join(place, name)) in self.files), None)

    def _owners(self):
        owners = dict(OWNERS)
        for path in self.headers():
            for name in [] if path in OWNERS else self.files[path].declares:
                for folder in {folder_of(by) for by in self.defined[name]} & set(FOLDERS):
                    if owners.setdefault(path, folder) != folder:
                        find(path, 1, f"declares functions of {owners[path]}/ and of {folder}/")
            if path not in owners and path.endswith(".h"):
                find(path, 1, "declares no function that a folder defines: add its folder to OWNERS in tools/check_structure.py")
        return {path: owner for path, owner in owners.items() if path in self.files}

    def headers(self):
        return [path for path in self.files if folder_of(path) in (ENGINE, TRANSLATOR)]

    def calls(self):
        """(file, name, file that defines it) for each function of another file that a file names. A name that several files
        define is the entry of a program, or one of several variants."""
        for path, file in self.files.items():
            own = {function.name for function in file.defines if function.is_static}
            for name in sorted(file.names - own) if path.endswith(".c") else []:
                if len(self.defined.get(name, [])) == 1 and self.defined[name] != [path]:
                    yield path, name, self.defined[name][0]


# ---- checks ----

def is_above(tree, low, high):
    """Whether `low`, a file of a folder of the list, must not use the file `high`."""
    a, b = tree.folder.get(low), tree.folder.get(high)
    return a and b and FOLDERS.index(b) > FOLDERS.index(a)


def check_includes(tree):
    public = tree.headers()
    for path, line, to in tree.included:  # public headers include each other in any order without circles
        if is_above(tree, path, to) and not (path in public and to in public):
            find(path, line, f"{tree.folder[path]}/ must not include {to}, which belongs to {tree.folder[to]}/")
    for path, name, by in tree.calls():
        if name.startswith("qkv_") and is_above(tree, path, by):
            find(path, 1, f"{tree.folder[path]}/ must not call {name}, which {tree.folder[by]}/ defines")
    # qkv/engine.h includes every public header of the engine, qkv/qkv.h that one and all others, and the table of
    # docs/library.md lists them.
    table = pathlib.Path("docs/library.md").read_text(encoding="utf-8")
    for path in [str(header) for folder in (ENGINE, TRANSLATOR) for header in sorted(pathlib.Path(folder).glob("*.h"))]:
        name = os.path.basename(path)
        whole = f"{ENGINE}/engine.h" if path.startswith(ENGINE) else f"{TRANSLATOR}/qkv.h"
        if path == whole:
            continue
        if not re.search(f'#include ["<]qkv/{name}[">]', pathlib.Path(whole).read_text(encoding="utf-8")):
            find(whole, 1, f"does not include qkv/{name}")
        if not re.search(f"^\\|.*`{name}`", table, re.MULTILINE):
            find("docs/library.md", 1, f"the table of headers lacks {name}")


def check_circles(tree):
    edges, before = {(path, to) for path, _, to in tree.included if path.endswith((".h", ".def"))}, None
    while edges != before:  # what neither starts nor ends a chain of includes is part of a circle
        before = edges
        edges = {(a, b) for a, b in edges if any(b == c for c, _ in edges) and any(a == c for _, c in edges)}
    for path, to in edges:
        find(path, 1, f"includes itself by way of {to}")
    calls = {(path, by): name for path, name, by in tree.calls() if not path.startswith(("tests/", "examples/"))}
    for (path, by), name in calls.items():
        if path < by and (by, path) in calls:
            find(path, 1, f"calls {name} of {by}, which calls {calls[by, path]} of this file")


def check_lengths(tree):
    for path, file in tree.files.items():
        if file.lines > LONGEST_FILE and path.endswith((".c", ".h")):
            find(path, 1, f"has {file.lines} lines; a file has at most {LONGEST_FILE}")
        for name, line, length, parameters, _ in file.defines:
            if length > LONGEST_FUNCTION:
                find(path, line, f"{name} has {length} lines; a function has at most {LONGEST_FUNCTION}")
            if parameters > MOST_PARAMETERS and not path.startswith("framework/engine/kernels/"):
                find(path, line, f"{name} has {parameters} parameters; a function has at most {MOST_PARAMETERS}, or takes a struct")
    for path in [*pathlib.Path("examples").glob("*.c"), *pathlib.Path("examples").glob("*.py")]:
        lines = path.read_text(encoding="utf-8").count("\n")
        if lines > LONGEST_EXAMPLE:
            find(str(path), 1, f"has {lines} lines; an example has at most {LONGEST_EXAMPLE}")


def output_of(*command):
    """What a program prints; empty: it is not installed."""
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    except FileNotFoundError:
        return ""


def check_format(tree):
    sources = [path for path in tree.files if path.endswith((".c", ".h"))]
    for formatter in (f"clang-format-{CLANG_FORMAT}", "clang-format"):
        if f"version {CLANG_FORMAT}." not in output_of(formatter, "--version"):
            continue
        lines = dict(reversed(re.findall(r"^(.*?):(\d+):.*: error: ", output_of(formatter, "--dry-run", "-Werror", *sources),
                                         re.MULTILINE)))  # of each file the first one
        for path, line in lines.items():
            find(path, int(line), f"is not formatted: run clang-format -i {path}")
        return
    print(f"check_structure.sh: clang-format {CLANG_FORMAT} is not installed: the format is not checked", file=sys.stderr)


# The examples of a header: what follows a comment line "Example:" with four more spaces than the comment. They are statements;
# each is compiled as the body of a function.
EXAMPLE = re.compile(r"^ \* Example:\n((?: \*     .*\n| \*\n)*)", re.MULTILINE)
HEADERS = "inttypes.h math.h stdbool.h stdint.h stdio.h stdlib.h string.h".split()


def check_examples(_):
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(f"{folder}/qkv")
        for path in [*pathlib.Path(ENGINE).glob("*.h*"), *pathlib.Path(TRANSLATOR).glob("*.h*")]:
            text = path.read_text(encoding="utf-8")
            name = path.name.removesuffix(".in")
            if path.suffix == ".in":  # CMake makes a header of it; here each value is 0
                pathlib.Path(folder, "qkv", name).write_text(re.sub(r"@\w*@", "0", text), encoding="utf-8")
            bodies = ["".join(f"    {line[6:].removesuffix('*/')}\n" for line in match[1].splitlines())
                      for match in EXAMPLE.finditer(text)]
            if not bodies:
                find(str(path), 1, 'no comment has an "Example:"')
                continue
            joined = "".join(f"{{\n{body}}}\n" for body in bodies)
            # The type of the function follows from how the example returns.
            kind, result = ("void", "") if "return;" in joined else ("int", "return 0;")
            includes = ["qkv/base.h"] * ("qkv/base.h" not in text) + [f"qkv/{name}", *HEADERS]
            program = "".join(f"#include <{header}>\n" for header in includes) + f"{kind} example(void);\n{kind} example(void)\n{{\n"
            if not re.search(r"struct qkv_error error\b", joined):  # the caller's, which the example uses
                program += "struct qkv_error error = {0}; (void)error;\n"
            source = pathlib.Path(folder, f"{name}.c")
            source.write_text(f"{program}{joined}{result}\n}}\n", encoding="utf-8")
            messages = output_of(os.environ.get("CC", "cc"), "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wno-unused-variable",
                                 "-Wno-unused-but-set-variable", "-Werror", "-fsyntax-only", "-I", "framework/engine/include",
                                 "-I", "framework/translator/include", "-I", folder, str(source))
            for message in re.findall(r"(?:error|warning): .*", messages):
                find(str(path), 1, f"its example: {message}")


def check_top(_):
    for name in output_of("git", "ls-files").splitlines():  # a build may leave others
        if "/" not in name and not name.startswith(".") and name not in TOP:
            find(name, 1, "does not belong to the top level")


CHECKS = {"top": check_top, "includes": check_includes, "circles": check_circles, "lengths": check_lengths,
          "format": check_format, "examples": check_examples}
for wanted in sys.argv[1:]:
    if wanted not in CHECKS:
        print(f"check_structure.sh: there is no check {wanted}", file=sys.stderr)
        sys.exit(2)
everything = Tree()
if sys.argv[1:] and "includes" not in sys.argv[1:]:
    findings.clear()  # of the owners of headers
for wanted in sys.argv[1:] or CHECKS:
    CHECKS[wanted](everything)
for path, line, text in sorted(findings):
    print(f"{path}:{line}: {text}")
sys.exit(bool(findings))
