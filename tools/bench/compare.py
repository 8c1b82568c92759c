#!/usr/bin/python3
"""Compares the speed of qkv with that of PyTorch and of CTranslate2. Prints a table in Markdown.

    tools/bench/compare.py [--python PYTHON] [--rounds 5] [--workloads toy,small,base] [--what train,decode]
    tools/bench/compare.py --what text --text PAIRS.tsv.gz    # training on real text: both programs on the same batches

--python is an interpreter that has PyTorch, CTranslate2 or both, for example of a virtual environment:

    python3 -m venv VENV && VENV/bin/pip install torch==2.13.0 ctranslate2 numpy

First a trial finds the fastest settings of each peer, for each row of the table: PyTorch with one thread and with all, with
attention of products or F.scaled_dot_product_attention, and compiled (training on equal lengths only; a compilation that takes
too long does not count); CTranslate2 with one thread, all threads, or one worker per thread, on MKL and on oneDNN. Settings
within 10 % of the fastest take part in all rounds, and the fastest of them counts in each.

The speed of a machine drifts. The programs therefore run in turn, within seconds of each other, for several rounds. The table
has the median over the rounds, with the smallest and largest value. `ratio` is the time of a program divided by that of qkv.

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

from workloads import DECODING, WORKLOADS

HERE = pathlib.Path(__file__).resolve().parent
TEXT_STEPS = {"toy": 240, "small": 32, "base": 12}
NEARLY_FASTEST = 1.1  # times the fastest time of the trial
COMPILATION_SECONDS = 180
UNLIMITED = 10 ** 6


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


def processor():
    """Returns the name of the processor, as lscpu reports it, and the number of processors."""
    lines = subprocess.run(["lscpu"], capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"}).stdout.splitlines()
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("Model name:")), "unknown processor")
    return f"{name}, {plural(os.cpu_count(), 'processor')}"


def version_of_qkv(qkv):
    """Returns what `qkv --version` says about qkv, its kernels and OpenBLAS, on one line."""
    return "; ".join(subprocess.run([qkv, "--version"], capture_output=True, text=True, check=True).stdout.splitlines())


def version_of(python, module):
    """Returns the version of a Python package, or None if the interpreter cannot import it."""
    try:
        done = subprocess.run([python, "-c", f"import {module}; print({module}.__version__)"], capture_output=True, text=True)
    except OSError:
        return None
    return None if done.returncode else done.stdout.split()[-1]


def find_library(pattern):
    """Returns the first file of that name in the folders of the system's libraries, or an empty string."""
    return next((str(path) for path in sorted(pathlib.Path("/usr/lib").glob(f"*/{pattern}"))), "")


def torch_environment(threads):
    """Returns the environment in which PyTorch is fastest: with tcmalloc if it is installed, and for several threads with the
    OpenBLAS that shares the threads of PyTorch, which Debian's uses (Debian: libtcmalloc-minimal4, libopenblas0-openmp)."""
    settings = {"LD_PRELOAD": find_library("libtcmalloc_minimal.so.4"), "OMP_NUM_THREADS": str(threads)}
    if threads > 1:
        settings["LD_LIBRARY_PATH"] = find_library("openblas-openmp")
    return os.environ | settings


class Qkv:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder

    def limits(self, workload, group):
        """Returns the options that say how long to measure, of qkv-bench and torch_step.py."""
        if group == "text":
            return ["--batches", self.folder / f"{workload}.jsonl", "--steps", TEXT_STEPS[workload], "--seconds", UNLIMITED]
        return ["--steps", UNLIMITED, "--seconds", self.options.seconds]

    def measure(self, workload, group):
        """Returns {what: result} of a group of rows: train, text or decode."""
        command = [self.options.bench, workload, "-t", self.options.threads, "--json", "-m", "train" if group == "text" else group,
                   "--precision", self.options.precision, *self.limits(workload, group)]
        command += ["--text", self.options.text] if group == "text" else []
        results = run(command)["results"]
        return {group if group == "text" else result["what"]: result | {"setting": plural(result["threads"], "thread")}
                for result in results}


class Torch:
    name, module = "PyTorch", "torch"

    def __init__(self, options, qkv):
        self.options, self.qkv = options, qkv

    def settings(self, what):
        """Returns the settings that the trial compares, each as text, threads and options of torch_step.py."""
        settings = {}
        for threads in sorted({1, self.options.threads}):
            for attention in ("composed", "sdpa"):
                text = f"{plural(threads, 'thread')}, {attention}"
                settings[text] = threads, ["--attention", attention]
                if self.options.precision != "float32":
                    settings[f"{text}, bfloat16"] = threads, ["--attention", attention, "--bfloat16"]
        if what == "train":
            settings["compiled"] = self.options.threads, ["--compile"]
        return settings

    def run(self, workload, what, setting):
        threads, options = self.settings(what)[setting]
        command = [self.options.python, HERE / "torch_step.py", workload, "--what", "train" if what == "text" else what,
                   "--threads", threads, *options, *self.qkv.limits(workload, what)]
        return run(command, torch_environment(threads), COMPILATION_SECONDS if setting == "compiled" else None)


class CTranslate2:
    module = "ctranslate2"

    def __init__(self, options, qkv, compute_type):
        self.options, self.qkv, self.compute_type = options, qkv, compute_type
        self.name = f"CTranslate2 {compute_type}"

    def settings(self, what):
        """Returns the settings that the trial compares, each as text and (workers, threads, library)."""
        if what not in DECODING:
            return {}
        count = self.options.threads
        pairs = [(1, 1)] + ([(1, count)] if count > 1 else []) + ([(count, 1)] if count > 1 and DECODING[what][1] > 1 else [])
        return {f"{f'{workers} workers' if workers > 1 else plural(threads, 'thread')}, {library}": (workers, threads, library)
                for workers, threads in pairs for library in ("MKL", "oneDNN")}

    def run(self, workload, what, setting):
        workers, threads, library = self.settings(what)[setting]
        command = [self.options.python, HERE / "ctranslate2_step.py", workload, "--what", what, "--workers", workers,
                   "--threads", threads, "--compute-type", self.compute_type, "--model", self.qkv.folder / workload,
                   *self.qkv.limits(workload, what)]
        return run(command, os.environ | {"CT2_USE_MKL": str(int(library == "MKL"))})


class Comparison:
    """Runs the programs in turn and keeps the result of each round, by workload, what, and name of the program."""

    def __init__(self, options, qkv, peers):
        self.options, self.qkv, self.peers = options, qkv, peers
        self.results, self.chosen = collections.defaultdict(list), {}

    def clock(self, what):
        return "ms_mean" if what == "text" and self.options.clock == "ms" else self.options.clock

    def choose(self, peer, workload, what):
        """Returns the nearly fastest settings of a peer. Those that do not work are reported and left out."""
        times = {}
        for setting in peer.settings(what):
            try:
                times[setting] = peer.run(workload, what, setting)[self.clock(what)]
            except Failed as failure:
                print(f"compare.py: {peer.name}, {setting}: left out: {failure}", file=sys.stderr)
        return [setting for setting in times if times[setting] <= NEARLY_FASTEST * min(times.values())]

    def run_peer(self, peer, workload, what):
        """Adds the result of the peer's fastest setting, in which `setting` names it."""
        key = workload, what, peer.name
        if key not in self.chosen:
            self.chosen[key] = self.choose(peer, workload, what)
        results = [peer.run(workload, what, setting) | {"setting": setting} for setting in self.chosen[key]]
        if not results:
            return
        best, ours = min(results, key=lambda result: result[self.clock(what)]), self.results[workload, what, "qkv"][-1]
        if what == "text" and abs(best["tokens_per_step"] - ours["tokens_per_step"]) > 1e-6:
            raise Failed(f"{workload}: qkv trained on {ours['tokens_per_step']} tokens a step, {peer.name} on "
                         f"{best['tokens_per_step']}: they did not train on the same batches")
        self.results[key].append(best)

    def run_round(self, number):
        for workload in self.options.workloads:
            for group in self.options.what:
                print(f"round {number}: {workload}, {group}", file=sys.stderr, flush=True)
                measured = self.qkv.measure(workload, group)
                for what, result in measured.items():
                    self.results[workload, what, "qkv"].append(result)
                for what in measured:
                    for peer in self.peers:
                        self.run_peer(peer, workload, what)

    def print_table(self):
        lines = [["workload", "program", "fastest setting", self.options.clock, "ratio", "MB"]]
        rows = [key[:2] for key in self.results]
        for key in sorted(self.results, key=lambda key: rows.index(key[:2])):  # qkv first, then the peers
            (workload, what, name), results = key, self.results[key]
            clock, ours = self.clock(what), self.results[workload, what, "qkv"]
            title = f"text, {ours[0]['tokens_per_step']:.0f} tokens" if what == "text" else what
            times = [result[clock] for result in results]
            ratios = [] if name == "qkv" else [time / our[clock] for time, our in zip(times, ours)]
            setting = collections.Counter(result["setting"] for result in results).most_common(1)[0][0]
            memory = statistics.median(result["peak_mb"] for result in results)
            lines.append([f"{workload}, {title}", name, setting, spread(times), spread(ratios), f"{memory:.3g}"])
        widths = [max(map(len, column)) for column in zip(*lines)]
        lines.insert(1, ["-" * width if i < 3 else "-" * (width - 1) + ":" for i, width in enumerate(widths)])
        for line in lines:
            cells = [cell.ljust(width) if i < 3 else cell.rjust(width) for i, (cell, width) in enumerate(zip(line, widths))]
            print(f"| {' | '.join(cells)} |")


def spread(numbers):
    """Returns the median with its range."""
    if not numbers:
        return ""
    middle = f"{statistics.median(numbers):.3g}"
    return middle if len(numbers) == 1 else f"{middle} ({min(numbers):.3g}–{max(numbers):.3g})"


def find_peers(options, qkv):
    """Returns the peers that the interpreter has, and their versions."""
    peers, versions = [Torch(options, qkv)], []
    peers += [CTranslate2(options, qkv, compute_type) for compute_type in options.compute_types]
    for module, name in (("torch", "PyTorch"), ("ctranslate2", "CTranslate2")):
        version = version_of(options.python, module)
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
    parser.add_argument("--precision", choices=["float32", "bfloat16", "int8"], default="float32",
                        help="of qkv (int8: of decoding); unless float32, PyTorch is also run with torch.autocast [%(default)s]")
    parser.add_argument("--compute-types", type=lambda text: text.split(","), default=["float32"],
                        help="of CTranslate2: float32,int8 compares both [float32]")
    parser.add_argument("--clock", choices=["ms", "cpu_ms"], default="ms",
                        help="cpu_ms compares processor time, for a machine that is busy with other programs; use --threads 1")
    parser.add_argument("--bench", default=HERE.parent.parent / "build/release/tools/qkv-bench", help="path of qkv-bench")
    parser.add_argument("--python", default="/usr/bin/python3", help="interpreter that has the peers [%(default)s]")
    options = parser.parse_args()
    options.what = options.what or ["train", "decode"] + (["text"] if options.text else [])
    if ("text" in options.what) != bool(options.text):
        parser.error("--what text and --text FILE need each other")
    return options


def main():
    options = parse_arguments()
    with tempfile.TemporaryDirectory() as folder:
        qkv = Qkv(options, pathlib.Path(folder))
        peers, versions = find_peers(options, qkv)
        comparison = Comparison(options, qkv, peers)
        try:
            for number in range(1, options.rounds + 1):
                comparison.run_round(number)
        except Failed as failure:
            sys.exit(f"compare.py: {failure}")
    print(processor())
    print("; ".join([version_of_qkv(pathlib.Path(options.bench).with_name("qkv")), *versions]))
    print(f"{plural(options.rounds, 'round')}; qkv on {plural(options.threads, 'thread')}\n")
    comparison.print_table()


main()
