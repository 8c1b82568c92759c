#!/usr/bin/env python3
"""Draws the faults 31 to 60 of tests/planted/: changed comparisons, dropped calls and changed constants.

    tests/planted/draw.py BUILD      # BUILD: a folder with compile_commands.json, such as build/release

A folder of code is drawn first, then a file, a kind of fault and a place. Comments, strings and directives are skipped, as is
what does not compile or is known to be equivalent (EQUIVALENT). The seed is the commit whose code is drawn from; run it there.
"""

import difflib
import json
import pathlib
import random
import re
import shlex
import subprocess
import sys

SEED = "31337c88"  # drawn with the full hash
FIRST, COUNT = 31, 30
ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = [f"framework/{name}" for name in "core config data graph kernels layers check metrics run train draw report explain".split()]
FOLDERS += ["models", "datasets/generate", "tools", "tools/page", "tools/page/module"]

# What was drawn, but cannot change what the program does: "file:line:new line" and why.
EQUIVALENT = {
    "framework/graph/rates.c:33:char near[4 * LONGEST + 16];": "names are no longer than LONGEST, so the text fits already",
    "framework/report/head_names.c:20:char name[65];": "names of heads are much shorter",
    "datasets/generate/grammar.c:174:static const struct verb_at NOWHERE = {-1, -1, -1, -1, {-1, -1}, -2, -1, -1, {-1, -1}};":
        "the place of the main verb, only tested for being negative, in phrase_link",
    'framework/kernels/elementwise.c:73:{"other width", {SHAPE(4, 5), SHAPE(3)}, .message = "row is [3], but must be [5]"},':
        "a sample that must be refused is refused with the same message",
}

COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "===": "!==", "!==": "==="}
HIDDEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|`(?:\\.|[^`\\])*`|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*',
                    re.S | re.M)


def blank(text):
    """The text with spaces in place of comments, strings and directives, so that places stay."""
    return HIDDEN.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def comparisons(code):
    for match in re.finditer(r"(?<= )(<|<=|>|>=|[=!]==?)(?= )", code):
        yield match.start(), match.end(), COMPARISONS[match.group()]


def constants(code):
    for match in re.finditer(r"(?<![\w.])\d+(?![\w.])", code):
        yield match.start(), match.end(), str(int(match.group()) + 1)


def calls(code):
    """Whole lines of statements that are only a call."""
    for match in re.finditer(r"^[ \t]+[a-z_][\w.]*(?:->\w+|\.\w+)*\(", code, re.M):
        before = code[:match.start()].rstrip()
        if not before.endswith((";", "{", "}")) or match.group().strip() in ("if(", "for(", "while(", "return(", "switch("):
            continue
        depth, end = 1, match.end()
        while depth and end < len(code):
            depth += {"(": 1, ")": -1}.get(code[end], 0)
            end += 1
        if re.match(r"; *\n", code[end:]):
            yield match.start(), code.index("\n", end) + 1, ""


KINDS = {"comparison": comparisons, "call": calls, "constant": constants}


def function_at(code, place):
    heads = list(re.finditer(r"^(?:async )?(?!if|for|else|OP\()[a-zA-Z_][^\n;={}]*?(\w+)\(", code[:place], re.M))
    inside = heads and "\n}" not in code[heads[-1].end():place]
    return heads[-1].group(1) if inside else "a table"


def compiles(path, text, commands):
    if path.suffix == ".js" or not commands:
        return True
    command = next((entry for entry in commands if entry["file"].endswith(f"/{path.relative_to(ROOT)}")), None)
    if not command:
        return True
    words = shlex.split(command["command"])
    words = [word for word in words if word != "ccache"]
    at = words.index("-o")
    del words[at:at + 2]
    words = [word for word in words if word not in ("-c", command["file"])]
    words += ["-fsyntax-only", "-w", "-I", str(path.parent), "-x", "c", "-"]
    return subprocess.run(words, input=text, text=True, cwd=command["directory"], stderr=subprocess.DEVNULL).returncode == 0


def patch(name, old, new, sentence):
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"a/{name}", f"b/{name}")
    return f"{sentence}\n\ndiff --git a/{name} b/{name}\n" + "".join(lines)


def main():
    build = pathlib.Path(sys.argv[1])
    commands = json.loads((build / "compile_commands.json").read_text())
    seed = subprocess.run(["git", "rev-parse", SEED], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    generator = random.Random(seed)
    drawn = set()
    while len(drawn) < COUNT:
        folder = generator.choice(FOLDERS)
        files = sorted(path for path in (ROOT / folder).iterdir() if path.suffix in (".c", ".js"))
        path = generator.choice(files)
        text = path.read_text()
        code = blank(text)
        kind = generator.choice(sorted(KINDS))
        places = list(KINDS[kind](code))
        if not places:
            continue
        start, end, new = generator.choice(places)
        name, line = str(path.relative_to(ROOT)), text.count("\n", 0, start) + 1
        changed = text[:start] + new + text[end:]
        new_line = changed.splitlines()[line - 1].strip() if kind != "call" else ""
        if (name, line, kind) in drawn or f"{name}:{line}:{new_line}" in EQUIVALENT or not compiles(path, changed, commands):
            continue
        drawn.add((name, line, kind))
        old = " ".join(text[start:end].split())
        where = f"in {function_at(code, start)} of {name}"
        sentence = (f"Drawn: {where}, the call `{old}` is dropped." if kind == "call" else
                    f"Drawn: {where}, the {kind} `{old}` is `{new}`: `{new_line}`.")
        label = f"{FIRST + len(drawn) - 1}-{path.parent.name}-{path.stem.replace('_', '-')}-{kind}.patch"
        (ROOT / "tests/planted" / label).write_text(patch(name, text, changed, sentence))


main()
