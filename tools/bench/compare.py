#!/usr/bin/python3
"""Compares the speed of qkv with that of PyTorch, of CTranslate2 and of the bare matrix products.

    tools/bench/compare.py [--python PYTHON] [--rounds 5] [--workloads toy,small,base] [--what train,decode] [--markdown]
    tools/bench/compare.py --what text --text PAIRS.tsv.gz    # training on real text: both programs on the same batches

--python is an interpreter that has PyTorch, CTranslate2 or both, for example of a virtual environment:

    python3 -m venv VENV && VENV/bin/pip install torch==2.13.0 ctranslate2 numpy

First a trial finds the fastest settings of each peer, for each row of the table: PyTorch with one thread and with all, with
attention of products or F.scaled_dot_product_attention, and compiled (training on equal lengths only; a compilation that takes
too long does not count); CTranslate2 with one thread, all threads, or one worker per thread, on MKL and on oneDNN. Settings
within 10 % of the fastest take part in all rounds, and the fastest of them counts in each.

The speed of a machine drifts. The programs therefore run in turn, within seconds of each other, for several rounds. The table
has the median over the rounds, with the smallest and largest value. `ratio` is the time of a program divided by that of qkv.
`of peak` is the share of the float32 peak (`qkv-bench -m peak`, on as many threads as qkv, in the same round) that the matrix
products of a training step reach, if they alone took all its time.

With --text, qkv writes the batches that it trains on, and PyTorch pads them and trains on the same. Steps then differ in
length, so mean times are compared, and both programs must count the same number of real tokens.
"""
import argparse
import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import typing

import machine
from workloads import DECODING, WORKLOADS

HERE = pathlib.Path(__file__).resolve().parent
TEXT_STEPS = {"toy": 240, "small": 32, "base": 12}
NEARLY_FASTEST = 1.1  # times the fastest time of the trial
COMPILATION_SECONDS = 180


class Row(typing.NamedTuple):
    workload: str
    what: str  # train, text, or a row of DECODING


class Failed(Exception):
    pass


def run(command, environment=None, seconds=None):
    """Runs a program and returns the JSON that it prints."""
    command = [str(word) for word in command]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=seconds)
    except OSError as error:
        raise Failed(f"{command[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{' '.join(command)}: takes longer than {seconds} seconds") from error
    if done.returncode:
        raise Failed(f"{' '.join(command)}: {(done.stderr.strip() or 'failed').splitlines()[-1]}")
    return json.loads(done.stdout)


def plural(count, noun):
    return f"{count} {noun}{'s' if count > 1 else ''}"


class Qkv:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder

    def version(self):
        return f"qkv {machine.version_of_qkv(pathlib.Path(self.options.bench).with_name('qkv'))}"

    def batches(self, workload):
        return self.folder / f"{workload}.jsonl"

    def measure(self, workload, group):
        """Returns {what: result} of a group of rows: train, text or decode. With train also the floor."""
        command = [self.options.bench, workload, "-t", self.options.threads, "--json"]
        if group == "text":
            command += ["-m", "train", "--text", self.options.text, "--batches", self.batches(workload),
                        "--steps", self.text_steps(workload), "--seconds", 1e6]
        else:
            command += ["-m", group, "--steps", 1000000, "--seconds", self.options.seconds]
            command += ["--precision", self.options.precision]
            command += ["-m", "floor"] if group == "train" else []
        results = {result["what"]: result for result in run(command)["results"]}
        if group == "text":
            return {"text": results["train"]}
        return {what: result for what, result in results.items() if what in ("train", "floor", *DECODING)}

    def text_steps(self, workload):
        return self.options.steps or TEXT_STEPS[workload]

    def peak(self):
        """Returns the float32 peak of all threads in GFLOP/s."""
        command = [self.options.bench, "-m", "peak", "-t", self.options.threads, "--seconds", 0.5, "--json"]
        return run(command)["results"][0]["gflops"]


class Torch:
    name, module = "PyTorch", "torch"

    def __init__(self, options, qkv):
        self.options, self.qkv = options, qkv

    def settings(self, row):
        """Returns the settings that the trial compares, each as text and options of torch_step.py."""
        settings = {}
        for threads in sorted({1, self.options.threads}):
            for attention in ("composed", "sdpa"):
                settings[f"{plural(threads, 'thread')}, {attention}"] = ["--threads", threads, "--attention", attention]
                if self.options.precision != "float32":
                    settings[f"{plural(threads, 'thread')}, {attention}, bfloat16"] = [
                        "--threads", threads, "--attention", attention, "--bfloat16"]
        if row.what == "train":
            settings["compiled"] = ["--threads", self.options.threads, "--compile"]
        return settings

    def run(self, row, setting):
        options = self.settings(row)[setting]
        command = [self.options.python, HERE / "torch_step.py", row.workload, *options]
        if row.what == "text":
            command += ["--batches", self.qkv.batches(row.workload), "--steps", self.qkv.text_steps(row.workload)]
        else:
            command += ["--what", row.what, "--steps", 1000000, "--seconds", self.options.seconds]
        return run(command, machine.torch_environment(options[1]), COMPILATION_SECONDS if setting == "compiled" else None)


class CTranslate2:
    module = "ctranslate2"

    def __init__(self, options, folder, compute_type):
        self.options, self.folder, self.compute_type = options, folder, compute_type
        self.name = f"CTranslate2 {compute_type}"

    def settings(self, row):
        """Returns the settings that the trial compares, each as text and (workers, threads, uses MKL)."""
        count = self.options.threads
        pairs = [(1, 1)] + ([(1, count)] if count > 1 else [])
        if count > 1 and row.what in DECODING and DECODING[row.what][1] > 1:
            pairs.append((count, 1))
        return {f"{f'{workers} workers' if workers > 1 else plural(threads, 'thread')}, {library}": (workers, threads, library)
                for workers, threads in pairs for library in ("MKL", "oneDNN")} if row.what in DECODING else {}

    def run(self, row, setting):
        workers, threads, library = self.settings(row)[setting]
        command = [self.options.python, HERE / "ctranslate2_step.py", row.workload, "--what", row.what, "--workers", workers,
                   "--threads", threads, "--compute-type", self.compute_type, "--model", self.folder / row.workload,
                   "--steps", 1000000, "--seconds", self.options.seconds]
        return run(command, os.environ | {"CT2_USE_MKL": str(int(library == "MKL"))})


class Comparison:
    """Runs the programs in turn and keeps all results: of qkv by row, of the peers by (name, row)."""

    def __init__(self, options, qkv, peers):
        self.options, self.qkv, self.peers = options, qkv, peers
        self.ours, self.theirs = collections.defaultdict(list), collections.defaultdict(list)
        self.peaks, self.chosen = collections.defaultdict(list), {}

    def clock(self, row):
        return "ms_mean" if row.what == "text" and self.options.clock == "ms" else self.options.clock

    def choose(self, peer, row):
        """Returns the nearly fastest settings of a peer. Those that do not work are reported and left out."""
        times = {}
        for setting in peer.settings(row):
            try:
                times[setting] = peer.run(row, setting)[self.clock(row)]
            except Failed as failure:
                print(f"compare.py: {peer.name}, {setting}: left out: {failure}", file=sys.stderr)
        return [setting for setting in times if times[setting] <= NEARLY_FASTEST * min(times.values())]

    def run_peer(self, peer, row):
        """Adds the result of the peer's fastest setting, in which `setting` names it."""
        if (peer.name, row) not in self.chosen:
            self.chosen[peer.name, row] = self.choose(peer, row)
        results = [peer.run(row, setting) | {"setting": setting} for setting in self.chosen[peer.name, row]]
        if not results:
            return
        best = min(results, key=lambda result: result[self.clock(row)])
        if row.what == "text" and abs(best["tokens_per_step"] - self.ours[row][-1]["tokens_per_step"]) > 1e-6:
            raise Failed(f"{row.workload}: qkv trained on {self.ours[row][-1]['tokens_per_step']} tokens a step, {peer.name} on "
                         f"{best['tokens_per_step']}: they did not train on the same batches")
        self.theirs[peer.name, row].append(best)

    def run_round(self, number):
        for workload in self.options.workloads:
            for group in self.options.what:
                print(f"round {number}: {workload}, {group}", file=sys.stderr, flush=True)
                measured = self.qkv.measure(workload, group)
                if group == "train":
                    self.theirs["bare products", Row(workload, "train")].append(measured.pop("floor") | {"setting": "OpenBLAS"})
                    self.peaks[Row(workload, "train")].append(self.qkv.peak())
                for what, result in measured.items():
                    self.ours[Row(workload, what)].append(result | {"setting": plural(result["threads"], "thread")})
                for what in measured:
                    for peer in self.peers:
                        self.run_peer(peer, Row(workload, what))

    # ---- the table ----

    def share_of_peak(self, row, results):
        """Returns the share of the peak in each round. Operations of a step are known for equal lengths only."""
        return [100 * ours["gflops"] * ours["ms"] / result["ms"] / peak
                for ours, result, peak in zip(self.ours[row], results, self.peaks[row])]

    def line(self, row, name, results):
        clock = self.clock(row)
        times = [result[clock] for result in results]
        ratios = [] if name == "qkv" else [time / ours[clock] for time, ours in zip(times, self.ours[row])]
        setting = collections.Counter(result["setting"] for result in results).most_common(1)[0][0]
        memory = statistics.median(result["peak_mb"] for result in results)
        return [f"{row.workload}, {self.title(row)}", name, setting, spread(times), spread(ratios),
                spread(self.share_of_peak(row, results), " %"), f"{memory:.3g}"]

    def title(self, row):
        if row.what == "text":
            tokens = self.ours[row][0]["tokens_per_step"]
            return f"train on {pathlib.Path(self.options.text).name}, {tokens:.0f} tokens"
        return row.what

    def table(self):
        lines = [["workload", "program", "fastest setting", self.options.clock, "ratio", "of peak", "MB"]]
        for row, ours in self.ours.items():
            lines.append(self.line(row, "qkv", ours))
            lines += [self.line(row, name, results) for (name, other), results in self.theirs.items() if other == row]
        return lines

    def every_figure(self):
        rows = [{"program": "qkv", **row._asdict(), "results": results} for row, results in self.ours.items()]
        return rows + [{"program": name, **row._asdict(), "results": results} for (name, row), results in self.theirs.items()]


def spread(numbers, unit=""):
    """Returns the median with its range."""
    if not numbers:
        return ""
    middle = f"{statistics.median(numbers):.3g}{unit}"
    return middle if len(numbers) == 1 else f"{middle} ({min(numbers):.3g}–{max(numbers):.3g})"


def print_table(lines, is_markdown):
    widths = [max(map(len, column)) for column in zip(*lines)]
    for number, line in enumerate(lines):
        cells = [cell.ljust(width) if i < 3 else cell.rjust(width) for i, (cell, width) in enumerate(zip(line, widths))]
        print(f"| {' | '.join(cells)} |" if is_markdown else "  ".join(cells).rstrip())
        if is_markdown and number == 0:
            print("|---" * 3 + "|---:" * (len(widths) - 3) + "|")


def find_peers(options, qkv, folder):
    """Returns the peers that the interpreter has, and their versions."""
    peers, versions = [Torch(options, qkv)], []
    peers += [CTranslate2(options, folder, compute_type) for compute_type in options.compute_types]
    for module, name in (("torch", "PyTorch"), ("ctranslate2", "CTranslate2")):
        version = machine.version_of(options.python, module)
        if version:
            versions.append(f"{name} {version}")
        else:
            print(f"compare.py: {name} is not compared; {options.python} cannot import {module} (see --python)", file=sys.stderr)
            peers = [peer for peer in peers if peer.module != module]
    return peers, versions


def names(known):
    """Returns the parser of a list of names with commas between them."""
    def parse(text):
        unknown = [name for name in text.split(",") if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"there is no {unknown[0]}; there are {', '.join(known)}")
        return text.split(",")
    return parse


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of qkv, and most threads of peers [%(default)s]")
    parser.add_argument("--workloads", type=names(WORKLOADS), default=list(WORKLOADS), help=f"[{','.join(WORKLOADS)}]")
    parser.add_argument("--what", type=names(["train", "text", "decode"]), help="[train,decode, and with --text also text]")
    parser.add_argument("--text", help="pairs (.tsv, .tsv.gz) to train on instead of random words")
    parser.add_argument("--seconds", type=float, default=1, help="time for a figure in a round, at least [%(default)g]")
    parser.add_argument("--steps", type=int, help="timed steps on a text "
                                                  f"[{', '.join(f'{name} {steps}' for name, steps in TEXT_STEPS.items())}]")
    parser.add_argument("--precision", choices=["float32", "bfloat16", "int8"], default="float32",
                        help="of qkv (int8: of decoding); unless float32, PyTorch is also run with torch.autocast [%(default)s]")
    parser.add_argument("--compute-types", type=lambda text: text.split(","), default=["float32"],
                        help="of CTranslate2: float32,int8 compares both [float32]")
    parser.add_argument("--clock", choices=["ms", "cpu_ms"], default="ms",
                        help="cpu_ms compares processor time, for a machine that is busy with other programs; use --threads 1")
    parser.add_argument("--bench", default=HERE.parent.parent / "build/release/tools/qkv-bench", help="path of qkv-bench")
    parser.add_argument("--python", default="/usr/bin/python3", help="interpreter that has the peers [%(default)s]")
    parser.add_argument("--markdown", action="store_true", help="print the table in Markdown")
    parser.add_argument("--json", action="store_true", help="print every single figure instead")
    options = parser.parse_args()
    options.what = options.what or ["train", "decode"] + (["text"] if options.text else [])
    if ("text" in options.what) != bool(options.text):
        parser.error("--what text and --text FILE need each other")
    return options


def main():
    options = parse_arguments()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        qkv = Qkv(options, folder)
        peers, versions = find_peers(options, qkv, folder)
        comparison = Comparison(options, qkv, peers)
        try:
            for number in range(1, options.rounds + 1):
                comparison.run_round(number)
        except Failed as failure:
            sys.exit(f"compare.py: {failure}")
    if options.json:
        print(json.dumps({"processor": machine.processor(), "versions": [qkv.version(), *versions],
                          "peak_gflops": [peak for peaks in comparison.peaks.values() for peak in peaks],
                          "rows": comparison.every_figure()}, indent=1))
        return
    print(machine.processor())
    print("; ".join([qkv.version(), *versions]))
    peaks = [peak for peaks in comparison.peaks.values() for peak in peaks]
    print(f"{plural(options.rounds, 'round')}; qkv on {plural(options.threads, 'thread')}; "
          f"float32 peak of as many: {spread(peaks, ' GFLOP/s') or 'not measured'}\n")
    print_table(comparison.table(), options.markdown)


main()
