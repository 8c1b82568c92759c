#!/usr/bin/python3
"""Compares the time of a training in qkv and in Joey NMT: the model of configs/toy_en_es.yaml on its text, 1,000 updates.

    python3 -m venv VENV && VENV/bin/pip install torch==2.13.0 joeynmt importlib_metadata pyyaml
    tools/bench/compare_joeynmt.py --python VENV/bin/python [--updates 1000] [--threads 2]

Both train with sinusoidal positions, the only ones of Joey NMT. Joey NMT gets the sizes, dropout, batch size, optimizer and
vocabularies of the run that qkv has just trained. It has no cosine schedule and takes its inverse square root with the same warm-up,
which takes the same time. Its batches are of sentences of any length, with padding, as it always makes them. It does not validate;
qkv does so once, at the end, within its time. A trial of some updates finds out whether Joey NMT is faster with one thread or with
all. Prints, for both, seconds from start to end of the program and ms of an update (without start, first updates and validation),
then the ratios.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import machine

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CONFIG = ROOT / "configs/toy_en_es.yaml"
INTERVALS = 10  # progress is printed so often; the first interval warms up
TRIAL = 40  # updates
NEVER = 10 ** 9


def train(name, command, update, environment=None):
    """Runs a training program. `update` is the pattern of the lines that report progress. Returns the seconds from start to end,
    and the ms of an update between the first and the last of those lines."""
    started, reports, last_lines = time.perf_counter(), [], []
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=environment) as child:
        for line in child.stdout:
            last_lines = last_lines[-9:] + [line]
            if match := re.search(update, line):
                reports.append((time.perf_counter(), int(match[1])))
    seconds = time.perf_counter() - started
    if child.returncode or len(reports) < 2:
        sys.exit(f"compare_joeynmt.py: {name} failed:\n{''.join(last_lines)}")
    (begin, first), (end, last) = reports[0], reports[-1]
    return seconds, 1e3 * (end - begin) / (last - first)


def train_qkv(options, run):
    command = [options.qkv, "train", CONFIG, "-j", options.threads]
    for key, value in (("model_dir", run), ("updates", options.updates), ("validation_freq", NEVER),
                       ("logging_freq", options.updates // INTERVALS)):
        command += ["-s", f"training.{key}={value}"]
    for side in ("encoder", "decoder"):
        command += ["-s", f"model.{side}.positions.type=sinusoidal"]
    return train("qkv", command, r"^update (\d+)  epoch ")


def read_config(python, run):
    """Returns the complete config of a run. Joey NMT needs a reader of YAML, so its interpreter has one."""
    program = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1], encoding='utf-8'))))"
    done = subprocess.run([python, "-c", program, run / "config.yaml"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def write_text(config, folder):
    """Writes each side of the pairs to a file of its own, as Joey NMT reads them."""
    for part in ("train", "dev"):
        with open(machine.data_path(config, part), encoding="utf-8") as file:
            pairs = [line.rstrip("\n").split("\t")[:2] for line in file]
        for side, lines in zip(("src", "trg"), zip(*pairs)):
            (folder / f"{part}.{config['data'][side]['lang']}").write_text("\n".join(lines) + "\n", encoding="utf-8")


def joey_config(config, run, folder, updates):
    """Returns the config of Joey NMT that trains the same model on the same text."""
    training = config["training"]
    stack = ("type", "num_layers", "num_heads", "hidden_size", "ff_size", "dropout", "layer_norm", "activation")
    embeddings = ("embedding_dim", "scale", "dropout")
    same = ("optimizer", "adam_betas", "learning_rate", "learning_rate_warmup", "batch_size", "batch_type", "label_smoothing",
            "clip_grad_norm")
    sides = {side: {"lang": config["data"][side]["lang"], "level": "word", "max_length": config["data"][side]["max_length"],
                    "voc_file": str(run / f"{name}.vocabulary")} for side, name in (("src", "source"), ("trg", "target"))}
    return {
        "name": "toy", "model_dir": str(folder / "joeynmt"), "use_cuda": False, "random_seed": training["random_seed"],
        "data": {"train": str(folder / "train"), "dev": str(folder / "dev"), "dataset_type": "plain", **sides},
        "testing": {"beam_size": 1},
        "training": {key: training[key] for key in same} | {
            "scheduling": "warmupinversesquareroot", "updates": updates, "epochs": NEVER, "overwrite": True,
            "logging_freq": updates // INTERVALS, "validation_freq": updates // INTERVALS * NEVER},
        "model": {"initializer": config["model"]["initializer"]} | {
            side: {key: config["model"][side][key] for key in stack} | {
                "embeddings": {key: config["model"][side]["embeddings"][key] for key in embeddings}}
            for side in ("encoder", "decoder")}}


def train_joeynmt(options, config, run, updates, threads):
    folder = run.parent
    path = folder / "joeynmt.yaml"  # JSON is YAML
    path.write_text(json.dumps(joey_config(config, run, folder, updates)), encoding="utf-8")
    return train("Joey NMT", [options.python, "-m", "joeynmt", "train", path, "--skip-test"], r"Step:\s+(\d+),",
                 machine.torch_environment(threads))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=1000, help="at least 20 [%(default)s]")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of qkv, and most threads of Joey NMT [%(default)s]")
    parser.add_argument("--qkv", default=ROOT / "build/release/tools/qkv", help="path of qkv")
    parser.add_argument("--python", default="/usr/bin/python3", help="interpreter that has Joey NMT [%(default)s]")
    options = parser.parse_args()
    if options.updates < 2 * INTERVALS:
        parser.error(f"--updates is {options.updates}, but must be at least {2 * INTERVALS}")
    return options


def main():
    options = parse_arguments()
    version = machine.version_of(options.python, "joeynmt.training", "joeynmt")
    if not version:
        print(f"compare_joeynmt.py: Joey NMT is not compared; {options.python} cannot import joeynmt (see --python)", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder) / "qkv"
        qkv = train_qkv(options, run)
        config = read_config(options.python, run)
        write_text(config, run.parent)
        threads = min(sorted({1, options.threads}), key=lambda n: train_joeynmt(options, config, run, TRIAL, n)[1])
        joey = train_joeynmt(options, config, run, options.updates, threads)
    print(machine.processor())
    print(f"qkv {machine.version_of_qkv(options.qkv)}; Joey NMT {version}; PyTorch {machine.version_of(options.python, 'torch')}")
    for name, count, (seconds, milliseconds) in (("qkv", options.threads, qkv), ("Joey NMT", threads, joey)):
        print(f"{name:8}  threads {count}  {options.updates} updates in {seconds:.1f} s  {milliseconds:.2f} ms an update")
    print(f"ratio {joey[0] / qkv[0]:.2f}, of an update {joey[1] / qkv[1]:.2f}")


main()
