#!/usr/bin/python3
"""Measures the seconds of training until 99 of 100 sentences of the dev set are translated without a mistake, in qkv and in
PyTorch.

    tools/bench/time_to_accuracy.py [configs/toy_en_es.yaml] [--accuracy 99] [--every 250] [--threads 2]

Both train the model of the config on its text with its batches, optimizer and schedule, and validate at the same interval.
Both have sinusoidal positions, whatever the config says: torch_transformer.py knows no others.
The first validation that reaches the accuracy ends the training. Prints updates and seconds since the start of the
program, the seconds of validations, and the ratios. A trial of some updates finds out whether PyTorch (torch_baseline.py)
is faster with one thread or with all. Needs PyTorch and PyYAML (Debian: python3-torch, python3-yaml).
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import yaml

import machine

HERE = pathlib.Path(__file__).resolve().parent
TRIAL = 60  # updates

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("config", nargs="?", default="configs/toy_en_es.yaml")
parser.add_argument("--accuracy", type=float, default=99, help="percent of the dev set's sentences")
parser.add_argument("--every", type=int, help="updates from one validation to the next [the config's]")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--set", "-s", action="append", default=[], help="a key of the config, as `qkv train -s`")
parser.add_argument("--qkv", default=HERE.parent.parent / "build/release/tools/qkv", help="path of qkv")
parser.add_argument("--python", default="/usr/bin/python3", help="interpreter that has PyTorch and PyYAML [%(default)s]")
arguments = parser.parse_args()


def train(name, command):
    """Reads the output of a training program until a validation reaches the accuracy. The time of a validation is the time
    between the line of its update and its own line.

    Returns (update, seconds, seconds of validations), or None if the program ended before."""
    started = last = time.perf_counter()
    validating, reached, last_lines = 0.0, None, []
    with subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:
        for line in child.stdout:
            now, last_lines = time.perf_counter(), last_lines[-9:] + [line]
            if match := re.match(r"update (\d+)\s+dev:.* sequences ([\d.]+) %", line):
                validating += now - last
                print(f"{name}: {line.rstrip()}  ({now - started:.1f} s)", file=sys.stderr, flush=True)
                if float(match[2]) >= arguments.accuracy:
                    reached = int(match[1]), now - started, validating
                    child.terminate()
                    break
            last = now
        child.communicate()
    if not reached and child.returncode:
        sys.exit(f"time_to_accuracy.py: {name} failed:\n{''.join(last_lines)}")
    return reached


def milliseconds_of_trial(command):
    """Returns the ms of an update in PyTorch."""
    done = subprocess.run([str(c) for c in command + ["--updates", TRIAL, "--every", 10 ** 9]], capture_output=True, text=True)
    found = re.findall(r"([\d.]+) ms an update", done.stderr)
    if done.returncode or not found:
        sys.exit(f"time_to_accuracy.py: PyTorch failed:\n{done.stderr}")
    return float(found[-1])


def report(name, result):
    if not result:
        print(f"{name:8} never reached {arguments.accuracy:g} %")
        return
    update, seconds, validating = result
    print(f"{name:8} {update:7} updates {seconds:9.1f} s, validations {validating:7.1f} s, training {seconds - validating:9.1f} s")


with tempfile.TemporaryDirectory() as folder:
    run = pathlib.Path(folder) / "run"
    forced = [f"training.model_dir={run}"] + [f"model.{side}.positions.type=sinusoidal" for side in ("encoder", "decoder")]
    settings = [x for pair in arguments.set + forced for x in ("-s", pair)]
    if arguments.every:
        settings += ["-s", f"training.validation_freq={arguments.every}", "-s", f"training.logging_freq={arguments.every}"]
    qkv = train("qkv", [arguments.qkv, "train", arguments.config, "-j", arguments.threads, *settings])
    config = yaml.safe_load(open(run / "config.yaml", encoding="utf-8"))
    baseline = [arguments.python, HERE / "torch_baseline.py", run, machine.data_path(config, "train"),
                machine.data_path(config, "dev"), "--until", arguments.accuracy]
    threads = min(sorted({1, arguments.threads}), key=lambda n: milliseconds_of_trial(baseline + ["--threads", n]))
    print(f"PyTorch: {threads} of {arguments.threads} threads are faster", file=sys.stderr)
    torch = train("PyTorch", baseline + ["--threads", threads])
report("qkv", qkv)
report("PyTorch", torch)
if qkv and torch:
    print(f"ratio    {torch[1] / qkv[1]:.2f}, of training alone {(torch[1] - torch[2]) / (qkv[1] - qkv[2]):.2f}")
