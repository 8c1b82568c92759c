#!/usr/bin/python3
"""Compares qkv, PyTorch and the bare matrix products: ratios with their range, as a Markdown table.

    tools/bench/compare.py [--rounds 5] [--threads 2] [--workloads toy,small,base] [--what train,decode]
    tools/bench/compare.py --text PAIRS.tsv.gz        # training on real text: both programs on the same batches

The times of a machine drift. The programs therefore run in turn, within seconds of each other, for several rounds; the
table has the median ratio of the rounds, and the smallest and largest ratio. PyTorch runs if the interpreter of --python
can import it (Debian: apt-get install python3-torch libtcmalloc-minimal4 libopenblas0-openmp; or a virtual environment
with another version), with one thread and with as many as qkv; the faster of the two counts.

With --text, qkv writes the batches that it trains on, and PyTorch pads them and trains on the same. Steps then differ in
length, so mean times are compared, and both programs must count the same number of real tokens.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
STEPS = {"toy": 60, "small": 8, "base": 3}

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--workloads", default="toy,small,base")
parser.add_argument("--what", default="train,decode", help="train, decode or both")
parser.add_argument("--text", help="pairs (.tsv, .tsv.gz) to train on instead of random words")
parser.add_argument("--steps", type=int, help=f"timed steps a round [{', '.join(f'{k} {v}' for k, v in STEPS.items())}; "
                                              "with a text four times as many]")
parser.add_argument("--clock", choices=["ms", "cpu_ms"], default="ms",
                    help="cpu_ms compares processor time, for a machine that is busy with other programs; use --threads 1")
parser.add_argument("--bench", default=HERE.parent.parent / "build/release/tools/qkv-bench", help="path of qkv-bench")
parser.add_argument("--python", default="/usr/bin/python3", help="interpreter that has PyTorch [%(default)s]")
parser.add_argument("--json", action="store_true", help="print every single figure instead")
arguments = parser.parse_args()


def run(command, environment=None):
    done = subprocess.run([str(x) for x in command], capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"compare.py: {' '.join(map(str, command))}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def steps_of(workload):
    return arguments.steps or STEPS[workload] * (4 if arguments.text else 1)


def bench(workload, measures, threads, *options):
    """Runs qkv-bench and returns {measurement: result}."""
    command = [arguments.bench, workload, "-t", threads, "--steps", steps_of(workload), "--seconds", 1e5, "--json", *options]
    for measure in measures:
        command += ["-m", measure]
    return {result["what"]: result for result in run(command)["results"]}


def find_library(pattern):
    """Returns the first file of that name in the folders of the system's libraries, or an empty string."""
    return next((str(path) for path in sorted(pathlib.Path("/usr/lib").glob(f"*/{pattern}"))), "")


def torch(workload, what, *options):
    """Runs PyTorch on one thread and on all, and returns the faster result. Uses tcmalloc if it is installed, and for
    several threads the OpenBLAS that shares the threads of PyTorch (Debian: libtcmalloc-minimal4, libopenblas0-openmp)."""
    results = []
    for threads in sorted({1, arguments.threads}):
        settings = {"LD_PRELOAD": find_library("libtcmalloc_minimal.so.4")}
        if threads > 1:
            settings["LD_LIBRARY_PATH"] = find_library("openblas-openmp")
        results.append(run([arguments.python, HERE / "torch_step.py", workload, "--what", what, "--threads", threads, "--steps",
                            steps_of(workload), *options], os.environ | settings))
    return min(results, key=lambda result: result[clock])


def compare_text(workload, folder):
    """One round on real text; both programs train on the same batches."""
    batches = pathlib.Path(folder) / f"{workload}.jsonl"
    mine = bench(workload, ["train"], arguments.threads, "--text", arguments.text, "--batches", batches)["train"]
    ours.setdefault((workload, "train"), []).append(mine)
    if not has_torch:
        return
    other = torch(workload, "train", "--batches", batches)
    peer.setdefault((workload, "train"), []).append(other)
    if abs(other["tokens_per_step"] - mine["tokens_per_step"]) > 1e-6:
        sys.exit(f"compare.py: {workload}: qkv trained on {mine['tokens_per_step']} tokens a step, PyTorch on "
                 f"{other['tokens_per_step']}: they did not train on the same batches")


def spread(ratios):
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})" if ratios else "–"


def middle(results, key):
    return f"{statistics.median(r[key] for r in results):.3g}" if results else "–"


try:
    workloads = [w for w in arguments.workloads.split(",") if STEPS[w]]
except KeyError as unknown:
    sys.exit(f"compare.py: there is no workload {unknown}; there are {', '.join(STEPS)}")
try:
    has_torch = subprocess.run([arguments.python, "-c", "import torch"], capture_output=True).returncode == 0
except OSError:
    has_torch = False
if not has_torch:
    print(f"compare.py: PyTorch is not compared; {arguments.python} cannot import it (see --python)", file=sys.stderr)
if arguments.text:
    arguments.what = "train"
clock = "ms_mean" if arguments.text and arguments.clock == "ms" else arguments.clock
kinds = [("train", "train")] if "train" in arguments.what else []
kinds += [("decode", "greedy 1"), ("decode", "greedy 64")] if "decode" in arguments.what else []
ours, floor, peer = {}, {}, {}
for _ in range(arguments.rounds):
    for workload in workloads:
        if arguments.text:
            with tempfile.TemporaryDirectory() as folder:
                compare_text(workload, folder)
            continue
        if "train" in arguments.what:
            results = bench(workload, ["train", "floor"], arguments.threads)
            floor.setdefault(workload, []).append(results["floor"])
            ours.setdefault((workload, "train"), []).append(results["train"])
        if "decode" in arguments.what:
            results = bench(workload, ["decode"], arguments.threads)
            for what in ("greedy 1", "greedy 64"):
                ours.setdefault((workload, what), []).append(results[what])
        for _, what in kinds if has_torch else []:
            peer.setdefault((workload, what), []).append(torch(workload, what))
if arguments.json:
    named = [{"program": program, "workload": key[0], "what": key[1], "results": results}
             for program, table in (("qkv", ours), ("torch", peer)) for key, results in table.items()]
    named += [{"program": "floor", "workload": key, "what": "train", "results": r} for key, r in floor.items()]
    print(json.dumps(named, indent=1))
    sys.exit()
print(f"| {arguments.threads} threads, {arguments.rounds} rounds | ms | peak MB | PyTorch's ms / ours | ours / bare products |")
print("|---|---:|---:|---:|---:|")
for workload in workloads:
    for _, what in kinds:
        mine = ours[workload, what]
        others = [b[clock] / a[clock] for a, b in zip(mine, peer.get((workload, what), []))]
        bare = [a[clock] / b[clock] for a, b in zip(mine, floor.get(workload, []))] if what == "train" else []
        named = f"{workload}, {what}" + (f" on {pathlib.Path(arguments.text).name}, {mine[0]['tokens_per_step']:.0f} tokens"
                                             if arguments.text else "")
        print(f"| {named} | {middle(mine, clock)} | {middle(mine, 'peak_mb')} | {spread(others)} | {spread(bare)} |")
