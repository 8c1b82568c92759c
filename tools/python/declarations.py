"""Writes the public headers as a Python module for ctypes: every struct, enum and function.

    cc -E qkv/qkv.h -o qkv.i; python3 declarations.py qkv.i OPS.DEF _declarations.py

The headers stay the only place where they are declared. The module also has the comment of each op of ops.def."""

import pathlib
import re
import sys

NUMBERS = {"bool": "c_bool", "char": "c_char", "double": "c_double", "float": "c_float", "int": "c_int", "int32_t": "c_int32",
           "int64_t": "c_int64", "size_t": "c_size_t", "uint32_t": "c_uint32", "uint64_t": "c_uint64", "unsigned": "c_uint",
           "_Bool": "c_bool"}
TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\w+|\.\.\.|<<|>>|[-+*/(){}\[\];,=|]')
enums, structs, functions, handlers = {}, {}, {}, {}


def own_text(lines):
    """The text of our headers, without those of the system."""
    ours = False
    for line in lines:
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            ours = bool(re.search(r"/qkv/[a-z_]+\.(h|def)$", marker[1]))
        elif ours:
            yield line


class Parser:
    def __init__(self, tokens):
        self.tokens, self.at = tokens, 0

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def next(self):
        self.at += 1
        return self.tokens[self.at - 1]

    def accept(self, *tokens):
        found = self.tokens[self.at : self.at + len(tokens)] == list(tokens)
        self.at += len(tokens) * found
        return found

    def until(self, *ends):
        """The tokens before one of `ends` outside brackets; skips that one."""
        depth, found = 0, []
        while depth or self.peek() not in ends:
            depth += (self.peek() in "({[") - (self.peek() in ")}]")
            found.append(self.next())
        self.next()
        return found

    def base(self):
        """A type without its pointers, as ctypes calls it."""
        words = []
        while re.match(r"\w", self.peek()) and not (words and words[-1] not in ("const", "struct", "enum")):
            words.append(self.next())
        self.accept("const")
        words = [word for word in words if word != "const"]
        if words[0] == "struct":
            return words[1]
        return "c_int" if words[0] == "enum" else NUMBERS.get(words[0], words[0])

    def declarator(self, kind):
        """The name that is declared next, or "", and its type; a function is (result, parameters)."""
        while self.accept("*"):
            while self.accept("const"):
                pass
            kind = {"c_char": "c_char_p", "void": "c_void_p", "FILE": "c_void_p"}.get(kind) or (
                kind if kind in handlers else f"POINTER({kind})")
        pointer = self.accept("(", "*")
        name = self.next() if re.match(r"\w", self.peek()) else ""
        if pointer:
            self.accept(")")
        if self.accept("("):
            kind = (kind, self.parameters())
            if pointer:
                kind = f"CFUNCTYPE({', '.join([none(kind[0])] + [type for _, type in kind[1]])})"
        sizes = []
        while self.accept("["):
            sizes.append(value(self.until("]")) if self.peek() != "]" else self.until("]") and "")
        for size in reversed(sizes):
            kind = f"{kind} * {size}"
        return name, kind

    def parameters(self):
        found = []
        if self.accept("void", ")"):
            return found
        while not self.accept(")"):
            if self.accept("..."):
                found.append(("...", ""))
            else:
                name, kind = self.declarator(self.base())
                found.append((name, f"POINTER({kind.split(' * ')[0]})" if " * " in kind else kind))
            self.accept(",")
        return found

    def enum(self):
        counter = 0
        while not self.accept("}"):
            name = self.next()
            if self.accept("="):
                counter = value(self.until(",", "}"))
                self.at -= 1
            self.accept(",")
            enums[name] = counter
            counter += 1

    def struct(self, name):
        fields = structs[name] = []
        while not self.accept("}"):
            base = self.struct_within(name) or self.base()
            while True:
                fields.append(self.declarator(base))
                if not self.accept(","):
                    break
            self.accept(";")
        structs[name] = structs.pop(name)  # behind those within it

    def struct_within(self, name):
        if not (self.peek() == "struct" and "{" in self.tokens[self.at + 1 : self.at + 3]):
            return None
        self.next()
        inner = f"{name}_{len(structs)}" if self.peek() == "{" else self.next()
        self.next()
        self.struct(inner)
        return inner

    def all(self):
        while self.peek():
            if self.accept(";"):
                continue
            is_static, is_typedef, _ = self.accept("static"), self.accept("typedef"), self.accept("inline")
            if self.peek() == "enum" and "{" in self.tokens[self.at + 1 : self.at + 3]:
                self.until("{")
                self.enum()
            elif self.peek() == "struct" and self.tokens[self.at + 2] in "{;":
                self.next()
                name = self.next()
                if self.accept("{"):
                    self.struct(name)
            else:
                name, kind = self.declarator(self.base())
                if is_typedef:
                    handlers[name] = f"CFUNCTYPE({', '.join([none(kind[0])] + [type for _, type in kind[1]])})"
                elif is_static:
                    self.next(), self.until("}")
                elif isinstance(kind, tuple) and ("...", "") not in kind[1]:
                    functions[name] = kind


def none(kind):
    return "None" if kind == "void" else kind


def value(tokens):
    return int(eval(" ".join(tokens), {}, enums))  # of our own headers


def op_comments(text):
    """The comment above, or behind, the row of each op; a row without one shares that of the row above."""
    found, before = {}, ""
    for match in re.finditer(r"(?:/\*((?:[^*]|\*(?!/))*)\*/\n)?^OP\((\w+),(?:[^\n]*\n(?!OP|/\*|\n))*[^\n]*", text, re.MULTILINE):
        behind = re.search(r"\)\s*/\*(.*?)\*/", match[0].split("OP(", 1)[1])
        above = re.sub(r"\s*\n \* ", " ", match[1] or "")
        before = found[match[2]] = (behind[1] if behind else above or before).strip()
    return found


def main():
    source, ops, output = (pathlib.Path(path) for path in sys.argv[1:])
    text = "".join(own_text(source.read_text(encoding="utf-8").splitlines(keepends=True)))
    Parser(TOKEN.findall(re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)|__extension__", "", text))).all()
    known = {*structs, *functions, *handlers}
    opaque = sorted(set(re.findall(r"\bqkv_\w+", str([structs, functions, handlers]))) - known)
    lines = ['"""Made of the public headers by tools/python/declarations.py."""', "from ctypes import *"]
    lines += [f"class {name}(Structure): pass" for name in [*structs, *opaque]]
    lines += [f"{name} = {kind}" for name, kind in handlers.items()]
    lines += [f"{name}._fields_ = [{', '.join(f'({field!r}, {kind})' for field, kind in fields)}]" for name, fields in structs.items()]
    lines += ["def fields(struct): return {name: kind for name, kind in struct._fields_}"]
    lines += [f"STRUCTS = ({', '.join(structs)})", f"ENUMS = {enums!r}", "FUNCTIONS: dict = {"]
    lines += [f"    {name!r}: lambda: ({none(result)}, [{', '.join(f'({name!r}, {kind})' for name, kind in parameters)}]),"
              for name, (result, parameters) in functions.items()]
    lines += ["}", f"OPS = {op_comments(ops.read_text(encoding='utf-8'))!r}", ""]
    output.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
