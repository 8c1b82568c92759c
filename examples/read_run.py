#!/usr/bin/env python3
"""Opens a trained run, translates a sentence, and gives the attention maps of every layer and head as NumPy arrays.

    python3 examples/read_run.py RUN SENTENCE [MAPS.npz]

Prints the translation, the tokens, the names and shapes of the maps, and one map. With MAPS.npz it also writes all maps
there. Needs NumPy and the shared library libqkv.so.0, where the system finds libraries or in LD_LIBRARY_PATH. The functions
are those of qkv/run.h, called with ctypes."""

import ctypes
import sys

import numpy

KINDS = ("encoder", "decoder", "cross")  # enum qkv_attention_kind


class Error(ctypes.Structure):  # struct qkv_error
    _fields_ = [("message", ctypes.c_char * 1024)]


class Map(ctypes.Structure):  # struct qkv_attention_map
    _fields_ = [
        ("kind", ctypes.c_int),
        ("layer", ctypes.c_int),
        ("head", ctypes.c_int),
        ("rows", ctypes.c_int64),
        ("columns", ctypes.c_int64),
        ("weights", ctypes.POINTER(ctypes.c_double)),
        ("label", ctypes.c_char_p),
        ("label_prefix", ctypes.c_char_p),
        ("rule", ctypes.c_void_p),
    ]


class Report(ctypes.Structure):  # struct qkv_attention_report, as far as it is read here
    _fields_ = [
        ("title", ctypes.c_char_p),
        ("model", ctypes.c_char_p),
        ("precision", ctypes.c_char_p),
        ("source", ctypes.POINTER(ctypes.c_char_p)),
        ("source_length", ctypes.c_int64),
        ("target_input", ctypes.POINTER(ctypes.c_char_p)),
        ("target_output", ctypes.POINTER(ctypes.c_char_p)),
        ("target_length", ctypes.c_int64),
        ("maps", ctypes.POINTER(Map)),
        ("map_count", ctypes.c_int64),
    ]


def load_library():
    library = ctypes.CDLL("libqkv.so.0")
    pointer, text, error = ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(Error)
    for name, result, arguments in (
        ("open", pointer, [text, text, error]),
        ("run", text, [pointer, text, ctypes.c_int64, error]),
        ("attention", ctypes.POINTER(Report), [pointer, ctypes.c_uint, error]),
        ("free", None, [pointer]),
    ):
        function = getattr(library, f"qkv_text_translator_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class Translator:
    """A run that is open: `with Translator(RUN) as translator`."""

    def __init__(self, run):
        self.qkv, self.error = load_library(), Error()
        self.handle = self.checked(self.qkv.qkv_text_translator_open(run.encode(), None, self.error))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.qkv.qkv_text_translator_free(self.handle)
        self.handle = None

    def checked(self, result):
        """The result of a call, unless it is NULL; then ValueError with the message of the library."""
        if result is None or isinstance(result, ctypes._Pointer) and not result:
            raise ValueError(self.error.message.decode())
        return result

    def translate(self, text):
        return self.checked(self.qkv.qkv_text_translator_run(self.handle, text.encode(), 0, self.error)).decode()

    def attention(self):
        """The tokens and the maps {(kind, layer, head): float64 [queries, keys]} of the last translation. The arrays are
        the library's memory, not copies: copy what must outlive the next call and the translator."""
        report = self.checked(self.qkv.qkv_text_translator_attention(self.handle, 0, self.error)).contents
        tokens = {
            "source": texts(report.source, report.source_length),
            "target_input": texts(report.target_input, report.target_length),
            "target_output": texts(report.target_output, report.target_length),
        }
        maps = {}
        for one in report.maps[: report.map_count]:
            weights = numpy.ctypeslib.as_array(one.weights, (one.rows, one.columns))
            weights.flags.writeable = False
            maps[KINDS[one.kind], one.layer, one.head] = weights
        return tokens, maps


def texts(tokens, count):
    return [tokens[i].decode() for i in range(count)]


def print_map(name, rows, columns, weights):
    print("\t".join([name, *columns]))
    for token, row in zip(rows, weights):
        print("\t".join([token, *(f"{weight:.4f}" for weight in row)]))


def main(run, sentence, path=None):
    with Translator(run) as translator:
        print(translator.translate(sentence))
        tokens, maps = translator.attention()
        for name, row in tokens.items():
            print(f"{name}: {' '.join(row)}")
        names = {key: ".".join(map(str, key)) for key in maps}
        for key, weights in maps.items():
            print(f"{names[key]}: {weights.shape[0]} x {weights.shape[1]}")
        cross = [key for key in maps if key[0] == "cross"]
        if cross:
            print_map(names[cross[-1]], tokens["target_output"], tokens["source"], maps[cross[-1]])
        if path:
            numpy.savez(path, **tokens, value=["attention weight"], **{names[key]: weights for key, weights in maps.items()})


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except (OSError, ValueError) as error:
        print(f"read_run.py: {error}", file=sys.stderr)
        sys.exit(2)
