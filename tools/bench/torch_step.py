#!/usr/bin/python3
"""Runs the steps of `qkv-bench` in PyTorch, with the same sizes and the same work, as fast as its operators allow.

    torch_step.py toy --what train --threads 2 --attention sdpa
    torch_step.py toy --threads 2 --steps 20 --batches FILE       # batches that `qkv-bench toy --batches FILE` wrote

Prints JSON (workloads.py). A training step is forward, backward and Adam on a post-norm transformer (torch_transformer.py) with
dropout on embeddings, attention weights, feed-forward and residuals, and smoothed cross entropy. The batches of a file are
padded before the clock starts; all but the last `--steps` warm up. Needs PyTorch.
"""
import json
import os
import sys

from workloads import DECODING, WARM_UP, WORKLOADS, argument_parser, print_times

parser = argument_parser(__doc__, ["train", *DECODING])
parser.add_argument("--attention", choices=["composed", "sdpa"], default="composed",
                    help="products and softmax, or F.scaled_dot_product_attention [%(default)s]")
parser.add_argument("--compile", action="store_true", help="compile forward and backward of training by torch.compile")
parser.add_argument("--bfloat16", action="store_true", help="products of bfloat16 numbers, chosen by torch.autocast")
parser.add_argument("--batches", help="file of batches, a JSON object a line, to train on")
arguments = parser.parse_args()
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # read when the library is loaded
    os.environ.setdefault(variable, str(arguments.threads))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch_transformer import END, Batch, Transformer, drop  # noqa: E402

torch.set_num_threads(arguments.threads)
torch.set_autocast_enabled("cpu", arguments.bfloat16)
torch.set_autocast_dtype("cpu", torch.bfloat16)
torch.manual_seed(1)
size = WORKLOADS[arguments.workload]
training = arguments.what == "train"
# torch.compile cannot compile the calls of drop().
model = Transformer(size, arguments.attention, F.dropout if arguments.compile else drop)
model.training = training
if arguments.compile:
    model.logits = torch.compile(model.logits)


def random_sentences(count):
    return [ids + [END] for ids in torch.randint(3, size.words, (count, size.tokens - 1)).tolist()]


def read_batches(path):
    with open(path, encoding="ascii") as file:
        batches = [Batch(size.heads, row["source"], row["target"]) for row in map(json.loads, file)]
    if len(batches) < arguments.steps:
        sys.exit(f"torch_step.py: {path}: has {len(batches)} batches, fewer than the steps")
    return batches


if arguments.batches:
    batches = read_batches(arguments.batches)
    tokens = sum(batch.tokens for batch in batches) / len(batches)
    print_times(lambda i: model.step(batches[i]), arguments.steps, float("inf"), len(batches) - arguments.steps,
                tokens_per_step=tokens)
    sys.exit()
beam, count = (1, size.sentences) if training else DECODING[arguments.what]
batch = Batch(size.heads, random_sentences(count), random_sentences(count))
if training:
    print_times(lambda _: model.step(batch), arguments.steps, arguments.seconds, WARM_UP, tokens_per_step=batch.tokens)
elif beam == 1:
    print_times(lambda _: model.greedy(batch, size.tokens), arguments.steps, arguments.seconds)
else:
    print_times(lambda _: model.beam(batch, beam, size.tokens), arguments.steps, arguments.seconds)
