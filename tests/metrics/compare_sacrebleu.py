#!/usr/bin/env python3
"""Compares the scores of qkv with those of sacreBLEU 2.6, on your own text.

    tests/metrics/compare_sacrebleu.py [TEXT...] [--qkv build/release/tools/qkv] [--lines 1000]

A TEXT has one sentence a line, plain or gzip; of a .tsv or .tsv.gz, the second column is read. Without TEXT: the texts of
../shared/data, beside the project. Needs the package:

    python3 -m venv VENV && VENV/bin/pip install sacrebleu==2.6.0 && VENV/bin/python tests/metrics/compare_sacrebleu.py TEXT

The sentences are the references, with a second, altered one for tests with several; the translations are the sentences with
words left out, doubled, replaced, moved or in other case. Compared are: BLEU with each tokenizer, smoothing method and
option, chrF with other orders and beta, TER with each option, signatures, the details of BLEU and TER, the scores of each
sentence, and p values, means and intervals of paired bootstrap resampling. Prints a line for each comparison. Exits with 1
where one fails, and with 77 and a sentence where the package or the text is not there.
"""
import argparse
import gzip
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

try:
    import sacrebleu
    from sacrebleu.metrics import BLEU, CHRF, TER
    from sacrebleu.significance import PairedTest
except ImportError:
    print("compare_sacrebleu.py: skipped, because the Python package sacrebleu is not installed", file=sys.stderr)
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"
TEXTS = ["multi30k/test_2016_flickr.de.gz", "multi30k/test_2016_flickr.fr.gz", "multi30k/test_2016_flickr.en.gz",
         "multi30k/tok/test_2016_flickr.lc.norm.tok.fr.gz", "tatoeba_en-es/dev.tsv", "tatoeba_en-de/dev.tsv",
         "hansards_en-fr/train.tsv.gz"]

# Each row: a name, the options of qkv, the metric of sacreBLEU.
CASES = [
    ("BLEU", "bleu", "", lambda: BLEU()),
    ("BLEU intl", "bleu", "--tokenize intl", lambda: BLEU(tokenize="intl")),
    ("BLEU intl lc", "bleu", "--tokenize intl --lowercase", lambda: BLEU(tokenize="intl", lowercase=True)),
    ("BLEU none", "bleu", "--tokenize none", lambda: BLEU(tokenize="none", force=True)),
    ("BLEU zh", "bleu", "--tokenize zh", lambda: BLEU(tokenize="zh")),
    ("BLEU char lc", "bleu", "--tokenize char --lowercase", lambda: BLEU(tokenize="char", lowercase=True)),
    ("BLEU effective", "bleu", "--effective-order", lambda: BLEU(effective_order=True)),
    ("BLEU floor", "bleu", "--smooth-method floor", lambda: BLEU(smooth_method="floor")),
    ("BLEU floor 0.5", "bleu", "--smooth-method floor --smooth-value 0.5",
     lambda: BLEU(smooth_method="floor", smooth_value=0.5)),
    ("BLEU add-k", "bleu", "--smooth-method add-k", lambda: BLEU(smooth_method="add-k")),
    ("BLEU add-k 0.3", "bleu", "--smooth-method add-k --smooth-value 0.3",
     lambda: BLEU(smooth_method="add-k", smooth_value=0.3)),
    ("BLEU unsmoothed", "bleu", "--smooth-method none", lambda: BLEU(smooth_method="none")),
    ("chrF", "chrf", "", lambda: CHRF()),
    ("chrF++", "chrf", "--chrf-word-order 2", lambda: CHRF(word_order=2)),
    ("chrF++ lc", "chrf", "--chrf-word-order 2 --lowercase", lambda: CHRF(word_order=2, lowercase=True)),
    ("chrF 9, 4, beta 3", "chrf", "--chrf-char-order 9 --chrf-word-order 4 --chrf-beta 3",
     lambda: CHRF(char_order=9, word_order=4, beta=3)),
    ("TER", "ter", "", lambda: TER()),
    ("TER normalized", "ter", "--ter-normalized", lambda: TER(normalized=True)),
    ("TER no punct", "ter", "--ter-no-punct", lambda: TER(no_punct=True)),
    ("TER all options", "ter", "--ter-normalized --ter-no-punct --ter-case-sensitive",
     lambda: TER(normalized=True, no_punct=True, case_sensitive=True)),
]


def read_text(path, limit):
    opened = gzip.open if path.name.endswith(".gz") else open
    lines = []
    with opened(path, "rt", encoding="utf-8", newline="\n") as text:
        for line in text:
            line = line.rstrip("\r\n")
            if ".tsv" in path.name:
                line = line.split("\t")[1]
            lines.append(line.replace("\t", " "))
            if len(lines) == limit:
                break
    return lines


def alter(lines, seed, strength):
    """The lines with words left out, doubled, replaced, moved in blocks, or in other case; some lines of another sentence."""
    generator = random.Random(seed)
    words = [word for line in lines for word in line.split()]
    result = []
    for line in lines:
        row = line.split()
        if generator.random() < strength / 10:
            row = generator.choice(lines).split()
        for _ in range(sum(generator.random() < strength for _ in range(1 + len(row) // 4))):
            if not row:
                break
            at = generator.randrange(len(row))
            change = generator.choice("left doubled replaced moved moved case mark".split())
            if change == "left":
                del row[at]
            elif change == "doubled":
                row.insert(at, row[at])
            elif change == "replaced":
                row[at] = generator.choice(words)
            elif change == "moved":
                block = row[at:at + generator.randrange(1, 6)]
                del row[at:at + len(block)]
                to = generator.randrange(len(row) + 1)
                row[to:to] = block
            elif change == "case":
                row[at] = row[at].swapcase()
            else:
                row[at] += generator.choice(["'s", "…", " — ", "€5", ".5-6", "&quot;", "(x)", "，", "½", "1,000.50"])
        result.append(" ".join(row))
    return result


def qkv_json(qkv, folder, arguments):
    command = [qkv, "score"] + arguments.split() + ["--json"]
    return json.loads(subprocess.run(command, check=True, cwd=folder, stdout=subprocess.PIPE,
                                     stderr=subprocess.DEVNULL).stdout)


class Comparison:
    def __init__(self):
        self.failed = 0

    def expect(self, what, ours, theirs, precision=1e-9):
        """Compares lists of numbers."""
        greatest = 0
        for number, (left, right) in enumerate(zip(ours, theirs), 1):
            greatest = max(greatest, abs(left - right))
            if not abs(left - right) <= precision:
                print(f"{what}: number {number} differs: qkv {left!r}, sacreBLEU {right!r}")
                self.failed += 1
                return
        if len(ours) != len(theirs):
            print(f"{what}: qkv has {len(ours)} numbers, sacreBLEU {len(theirs)}")
            self.failed += 1
        else:
            print(f"{what}: {len(ours)} numbers differ by at most {greatest:.1g}; the first is {ours[0]:.4f}")


def signature_of(metric):
    return str(metric.get_signature())


def compare_signatures(comparison, what, ours, theirs):
    ours, theirs = (re.sub(r"\|version:.*|\|beta:[^|]*", "", text) for text in (ours, theirs))
    if ours != theirs:
        print(f"{what}: the signature of qkv is {ours}, that of sacreBLEU {theirs}")
        comparison.failed += 1


def compare_corpus(comparison, qkv, folder, what, hypotheses, streams):
    for title, key, options, make in CASES:
        metric = make()
        expected = metric.corpus_score(hypotheses, streams)
        result = qkv_json(qkv, folder, f"a refs -m {key} {options}")
        name = f"{what}, {title}"
        comparison.expect(name, [result[key]], [expected.score])
        compare_signatures(comparison, name, result[key + "_signature"], signature_of(metric))
        if key == "bleu":
            details = result["bleu_details"]
            comparison.expect(name + ", details",
                              details["precisions"] + [details["brevity_penalty"], details["hypothesis_length"],
                                                       details["reference_length"]],
                              expected.precisions + [expected.bp, expected.sys_len, expected.ref_len])
        elif key == "ter":
            details = result["ter_details"]
            comparison.expect(name + ", details", [details["edits"], details["reference_length"]],
                              [expected.num_edits, expected.ref_length])


def compare_sentences(comparison, qkv, folder, what, hypotheses, streams):
    for title, key, options, make in CASES:
        metric = make()
        if key == "bleu":
            metric.effective_order = True
        start = time.time()
        expected = [metric.sentence_score(hypothesis, list(references)).score
                    for hypothesis, references in zip(hypotheses, zip(*streams))]
        theirs, start = time.time() - start, time.time()
        result = qkv_json(qkv, folder, f"a refs -m {key} {options} --sentence-level")
        comparison.expect(f"{what}, {title}, sentences ({time.time() - start:.2f} s; sacreBLEU {theirs:.2f} s)",
                          [sentence[key] for sentence in result["sentences"]], expected)


def compare_bootstrap(comparison, qkv, folder, what, systems, streams):
    metrics = {"BLEU": BLEU(), "chrF": CHRF(word_order=2), "TER": TER()}
    signatures, scores = PairedTest(list(zip("abcd", systems)), metrics, streams, test_type="bs")()
    result = qkv_json(qkv, folder, "a refs -m bleu,chrf,ter --chrf-word-order 2 --against b --against c --against d")
    for name, key in (("BLEU", "bleu"), ("chrF2++", "chrf"), ("TER", "ter")):
        rows = [system[key + "_bootstrap"] for system in result["systems"]]
        # sacreBLEU computes the scores of samples in float32 with NumPy 2.
        comparison.expect(f"{what}, {name}, bootstrap", [x for row in rows for x in (row["mean"], row["interval"])],
                          [float(x) for row in scores[name] for x in (row.mean, row.ci)], 1e-4)
        comparison.expect(f"{what}, {name}, p values", [row["p_value"] for row in rows[1:]],
                          [row.p_value for row in scores[name][1:]])


def compare_text(comparison, qkv, path, limit):
    lines = read_text(path, limit)
    second = alter(lines, 1, 0.3)
    systems = [alter(lines, seed, strength) for seed, strength in ((2, 0.5), (3, 0.5), (4, 0.55), (5, 0.9))]
    what = f"{path.parent.name}/{path.name}"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for name, system in zip("abcd", systems):
            (folder / name).write_text("".join(line + "\n" for line in system), encoding="utf-8")
        for streams in ([lines], [lines, second]):
            several = f"{what}, {len(streams)} references"
            (folder / "refs").write_text("".join("\t".join(row) + "\n" for row in zip(*streams)), encoding="utf-8")
            compare_corpus(comparison, qkv, folder, several, systems[0], streams)
            compare_sentences(comparison, qkv, folder, several, systems[0], streams)
            compare_bootstrap(comparison, qkv, folder, several, systems, streams)
        # A few short lines: orders without a match, and without n-grams.
        for count in (1, 3, 8):
            (folder / "a").write_text("".join(line + "\n" for line in systems[3][:count]), encoding="utf-8")
            (folder / "refs").write_text("".join(line + "\n" for line in lines[:count]), encoding="utf-8")
            compare_corpus(comparison, qkv, folder, f"{what}, {count} lines", systems[3][:count], [lines[:count]])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("text", nargs="*")
    parser.add_argument("--qkv", default=str(ROOT / "build/release/tools/qkv"))
    parser.add_argument("--lines", type=int, default=1000)
    options = parser.parse_args()
    paths = [pathlib.Path(text) for text in options.text] or [DATA / text for text in TEXTS if (DATA / text).exists()]
    if not paths:
        print(f"compare_sacrebleu.py: skipped, because there is no text in {DATA}", file=sys.stderr)
        return 77
    print(f"sacreBLEU {sacrebleu.__version__}")
    comparison = Comparison()
    for path in paths:
        compare_text(comparison, str(pathlib.Path(options.qkv).resolve()), path, options.lines)
    print(f"{comparison.failed} comparisons failed" if comparison.failed else "all comparisons agree")
    return 1 if comparison.failed else 0


if __name__ == "__main__":
    sys.exit(main())
