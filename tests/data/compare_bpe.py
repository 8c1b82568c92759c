#!/usr/bin/env python3
"""Compares the merges and the pieces of qkv with those of subword-nmt 0.3.8, on your own text.

    tests/data/compare_bpe.py PAIRS.tsv [--qkv build/release/tools/qkv] [--merges 10000] [--pairs 30000] [--joint]
                              [--threshold 10]

PAIRS.tsv (or .tsv.gz) has lines of source, tab, target; further columns are ignored. Needs the package:

    python3 -m venv VENV && VENV/bin/pip install subword-nmt==0.3.8 && VENV/bin/python tests/data/compare_bpe.py PAIRS.tsv

For each side it compares: the codes that both learn, the pieces of every line with these codes, and the pieces of every line
that qkv cuts with a codes file of subword-nmt, all pieces kept and those that occur at least --threshold times. Prints a line for each comparison. Exits with 1 where one fails, and with 77
and a sentence where the package is not installed.
"""
import argparse
import collections
import contextlib
import gzip
import io
import pathlib
import subprocess
import sys
import tempfile
import time
import unicodedata

try:
    with contextlib.redirect_stderr(io.StringIO()):
        from subword_nmt import apply_bpe, learn_bpe
except ImportError:
    print("compare_bpe.py: skipped, because the Python package subword-nmt is not installed", file=sys.stderr)
    sys.exit(77)

SIZES = "{hidden_size: 4, num_heads: 1, num_layers: 1, ff_size: 4}"
SIDES = (("src", "source"), ("trg", "target"))


def read_pairs(path, limit):
    opened = gzip.open if path.endswith(".gz") else open
    pairs = []
    with opened(path, "rt", encoding="utf-8", newline="\n") as lines:
        for line in lines:
            if len(pairs) == limit:
                break
            pairs.append(line.rstrip("\r\n").split("\t")[:2])
    return pairs


def train(qkv, folder, sides, joint):
    """Trains the smallest possible model for one update. `sides`: the keys of data.src and of data.trg."""
    (folder / "c.yaml").write_text(
        f"name: x\ndata: {{train: pairs.tsv, joint_vocabulary: {str(joint).lower()}, "
        f"src: {{lang: a, level: bpe, {sides[0]}}}, trg: {{lang: b, level: bpe, {sides[1]}}}}}\n"
        f"model: {{encoder: {SIZES}, decoder: {SIZES}}}\n"
        "training: {updates: 1, batch_size: 1, model_dir: run}\n", encoding="utf-8")
    start = time.time()
    subprocess.run([qkv, "train", folder / "c.yaml", "-q", "--overwrite"], check=True)
    return time.time() - start


def pieces_of_qkv(qkv, folder, side):
    command = [qkv, "tokenize", folder / "run", folder / f"{side}.txt", "--side", side]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.decode().split("\n")[:-1]


def compare(what, ours, theirs):
    """Prints whether two lists of lines are the same; returns whether they differ."""
    for number, (left, right) in enumerate(zip(ours, theirs), 1):
        if left != right:
            print(f"{what}: line {number} differs: qkv {left!r}, subword-nmt {right!r}")
            return True
    print(f"{what}: " + (f"{len(ours)} lines are the same" if len(ours) == len(theirs)
                         else f"qkv has {len(ours)} lines, subword-nmt {len(theirs)}"))
    return len(ours) != len(theirs)


def learned_codes(text, merges):
    codes = io.StringIO()
    with contextlib.redirect_stderr(io.StringIO()):
        learn_bpe.learn_bpe(io.StringIO("\n".join(text) + "\n"), codes, merges)
    return codes.getvalue()


def frequent_pieces(lines):
    """The vocabulary file of subword-nmt for lines of pieces."""
    counts = collections.Counter(piece for line in lines for piece in line.split())
    return io.StringIO("".join(f"{piece} {count}\n" for piece, count in counts.most_common()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("text")
    parser.add_argument("--qkv", default=str(pathlib.Path(__file__).resolve().parents[2] / "build/release/tools/qkv"))
    parser.add_argument("--merges", type=int, default=10000)
    parser.add_argument("--pairs", type=int, default=30000)
    parser.add_argument("--joint", action="store_true")
    parser.add_argument("--threshold", type=int, default=10)
    options = parser.parse_args()
    pairs = read_pairs(options.text, options.pairs)
    lines = [[pair[side] for pair in pairs] for side in (0, 1)]
    # What qkv does before it cuts words: normal form C, and one space between words.
    words = [[" ".join(unicodedata.normalize("NFC", line).split()) for line in side] for side in lines]
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "pairs.tsv").write_text("".join("\t".join(pair) + "\n" for pair in pairs), encoding="utf-8")
        seconds = train(options.qkv, folder, [f"num_merges: {options.merges}"] * 2, options.joint)
        print(f"qkv learned both sides and trained one update in {seconds:.1f} s")
        expected = []
        for i, (side, long_name) in enumerate(SIDES):
            start = time.time()
            codes = learned_codes(words[0] + words[1] if options.joint else words[i], options.merges)
            print(f"subword-nmt learned {long_name} in {time.time() - start:.1f} s")
            bpe = apply_bpe.BPE(io.StringIO(codes))
            expected.append([bpe.process_line(line) for line in words[i]])
            (folder / f"{side}.codes").write_text(codes, encoding="utf-8")
            (folder / f"{side}.txt").write_text("".join(line + "\n" for line in lines[i]), encoding="utf-8")
            learned = (folder / "run" / f"{long_name}.codes").read_text(encoding="utf-8")
            failed |= compare(f"{long_name} codes", learned.split("\n"), codes.split("\n"))
            failed |= compare(f"{long_name} pieces", pieces_of_qkv(options.qkv, folder, side), expected[i])
        train(options.qkv, folder, ["bpe_codes: src.codes", "bpe_codes: trg.codes"], options.joint)
        for i, (side, long_name) in enumerate(SIDES):
            pieces = pieces_of_qkv(options.qkv, folder, side)
            failed |= compare(f"{long_name} pieces by codes of subword-nmt", pieces, expected[i])
        least = f"bpe_min_freq: {options.threshold}"
        train(options.qkv, folder, [f"bpe_codes: src.codes, {least}", f"bpe_codes: trg.codes, {least}"], options.joint)
        for i, (side, long_name) in enumerate(SIDES):
            vocabulary = apply_bpe.read_vocabulary(frequent_pieces(expected[i]), options.threshold)
            codes = (folder / f"{side}.codes").read_text(encoding="utf-8")
            bpe = apply_bpe.BPE(io.StringIO(codes), vocab=vocabulary)
            failed |= compare(f"{long_name} pieces that are frequent", pieces_of_qkv(options.qkv, folder, side),
                              [bpe.process_line(line) for line in words[i]])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
