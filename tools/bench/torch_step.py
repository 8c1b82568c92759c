#!/usr/bin/python3
"""Runs the steps of `qkv-bench` in PyTorch, with the same sizes and the same work, as fast as its operators allow.

    torch_step.py toy --what train --threads 2 --steps 20
    torch_step.py toy --threads 2 --steps 20 --batches FILE       # batches that `qkv-bench toy --batches FILE` wrote

Prints JSON: median and mean ms per step, and the peak of memory in MB. One step is forward, backward and Adam on a post-norm
transformer (torch_transformer.py) with dropout on embeddings, attention weights, feed-forward and residuals, and smoothed
cross entropy. The batches of a file are padded before the clock starts; all but the last `--steps` warm up. Needs
Debian's python3-torch.
"""
import argparse
import json
import os
import resource
import statistics
import sys
import time

SIZES = {  # width, heads, inner, layers, vocabulary, sentences, tokens
    "toy": (64, 4, 256, 2, 200, 32, 10),
    "small": (128, 4, 256, 4, 10000, 64, 15),
    "base": (512, 8, 2048, 3, 10000, 64, 15),
}

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("workload", choices=SIZES)
parser.add_argument("--what", choices=["train", "greedy 1", "greedy 64"], default="train")
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--batches", help="file of batches, a JSON object a line, to train on")
arguments = parser.parse_args()
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # read when the library is loaded
    os.environ.setdefault(variable, str(arguments.threads))

import torch  # noqa: E402
from torch_transformer import END, Batch, Stack, Transformer  # noqa: E402

torch.set_num_threads(arguments.threads)
torch.manual_seed(1)
width, heads, inner, layers, words, sentences, length = SIZES[arguments.workload]
training = arguments.what == "train"
model = Transformer(Stack(width, heads, inner, layers), Stack(width, heads, inner, layers), words, words)
model.training = training


def random_sentences(count):
    return [ids + [END] for ids in torch.randint(3, words, (count, length - 1)).tolist()]


if arguments.batches:
    with open(arguments.batches, encoding="ascii") as file:
        batches = [Batch(row["source"], row["target"]) for row in map(json.loads, file)]
    if len(batches) < arguments.steps:
        sys.exit(f"torch_step.py: {arguments.batches}: has {len(batches)} batches, fewer than the steps")
else:
    count = sentences if training else int(arguments.what.split()[1])
    batches = [Batch(random_sentences(count), random_sentences(count))] * (arguments.steps + 2)


def step(batch):
    if training:
        model.step(batch)
    else:
        model.greedy(batch, length, until_end=False)


warm_up = len(batches) - arguments.steps
for batch in batches[:warm_up]:
    step(batch)
seconds, used = [], time.process_time()
for batch in batches[warm_up:]:
    started = time.perf_counter()
    step(batch)
    seconds.append(time.perf_counter() - started)
print(json.dumps({
    "ms": 1e3 * statistics.median(seconds),
    "ms_mean": 1e3 * statistics.mean(seconds),
    "cpu_ms": 1e3 * (time.process_time() - used) / arguments.steps,
    "tokens_per_step": sum(batch.tokens for batch in batches) / len(batches),
    "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
}))
