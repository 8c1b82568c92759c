#!/usr/bin/python3
"""Compares the training of a language model in qkv and in PyTorch: the 2,000 updates of configs/characters.yaml.

    VENV/bin/python tools/bench/language_model.py TEXT [--rounds 5] [--precision bfloat16] [--seconds 3] [--bench QKV_BENCH]

VENV has PyTorch (`pip install torch==2.13.0`). TEXT is the text that qkv learns; PyTorch's windows are random characters, which
take the same time. A step is forward, backward, clipping and AdamW on 12 windows of 64 characters. The settings of PyTorch are
attention of products and a softmax ("composed") and F.scaled_dot_product_attention, each on one thread, on all, and compiled by
torch.compile; with --precision bfloat16, each also under torch.autocast. The programs run in turn. The time of a program is 2,000
times its median step, and for PyTorch that of the first three steps besides, in which torch.compile compiles. The fastest setting
of each round counts. Prints the medians, and qkv / PyTorch with the range.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError:
    sys.exit(f"language_model.py: skipped: {sys.executable} has no PyTorch; pip install torch==2.13.0")
from workloads import WARM_UP, print_times

HERE = pathlib.Path(__file__).resolve().parent
LAYERS, HEADS, WIDTH, INNER, CONTEXT, WINDOWS, CHARACTERS = 4, 4, 128, 512, 64, 12, 67
UPDATES = 2000


class Layer(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.attention = attention
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.queries_keys_values, self.output = (nn.Linear(WIDTH, n * WIDTH, bias=False) for n in (3, 1))
        self.inner, self.outer = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)
        self.register_buffer("hidden", torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).triu(1), persistent=False)

    def attend(self, x):
        q, k, v = (part.view(-1, CONTEXT, HEADS, WIDTH // HEADS).transpose(1, 2)
                   for part in self.queries_keys_values(x).split(WIDTH, 2))
        if self.attention == "sdpa":
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(2, 3) * q.size(3) ** -0.5
            mixed = scores.masked_fill(self.hidden, -torch.inf).softmax(3) @ v
        return self.output(mixed.transpose(1, 2).reshape(x.shape))

    def forward(self, x):
        x = x + self.attend(self.norms[0](x))
        return x + self.outer(F.gelu(self.inner(self.norms[1](x))))


class Model(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(CHARACTERS, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.ModuleList(Layer(attention) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, ids, labels):
        x = self.embedding(ids) + self.positions.weight
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(F.linear(self.norm(x), self.embedding.weight).flatten(0, 1), labels.flatten())


def measure(setting, seconds):
    """Prints the times of steps in PyTorch, as JSON; `first_ms` is that of the first steps together."""
    threads, *others = setting.split(",")
    torch.set_num_threads(int(threads))
    torch.set_autocast_enabled("cpu", "bfloat16" in others)
    torch.set_autocast_dtype("cpu", torch.bfloat16)
    torch.manual_seed(1)
    model = Model("sdpa" if "sdpa" in others else "composed")
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, (0.9, 0.99), weight_decay=0.1, fused=True)
    loss_of = torch.compile(model) if "compiled" in others else model
    text = torch.randint(CHARACTERS, (WINDOWS, CONTEXT + 1))

    def step(_):
        optimizer.zero_grad(set_to_none=True)
        loss_of(text[:, :-1], text[:, 1:]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
    started = time.perf_counter()
    for i in range(WARM_UP):
        step(i)
    print_times(step, 10 ** 6, seconds, first_ms=1e3 * (time.perf_counter() - started))


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"language_model.py: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", metavar="TEXT")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="of each measurement [%(default)g]")
    parser.add_argument("--bench", default=HERE.parent.parent / "build/release/tools/qkv-bench")
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--setting", help=argparse.SUPPRESS)  # what a process of its own measures
    options = parser.parse_args()
    if options.setting:
        return measure(options.setting, options.seconds)
    threads = os.cpu_count()
    settings = [f"{which},{attention}{precision}" for which in dict.fromkeys(("1", f"{threads}", f"{threads},compiled"))
                for attention in ("composed", "sdpa") for precision in ("", ",bfloat16")[:1 + (options.precision != "float32")]]
    config = HERE.parent.parent / "configs/characters.yaml"
    ours, theirs, fastest = [], [], []
    for _ in range(options.rounds):
        ours.append(UPDATES * run([options.bench, config, "-m", "train", "-t", threads, "--seconds", options.seconds, "--precision",
                                   options.precision, "--text", options.text, "--json"])["results"][0]["ms"] / 1e3)
        times = {}
        for setting in settings:
            result = run([sys.executable, __file__, options.text, "--seconds", options.seconds, "--setting", setting])
            times[setting] = (result["first_ms"] + UPDATES * result["ms"]) / 1e3
        fastest.append(min(times, key=times.get))
        theirs.append(times[fastest[-1]])
        print(f"qkv {ours[-1]:.1f} s; PyTorch {', '.join(f'{name}: {s:.1f} s' for name, s in times.items())}", file=sys.stderr)
    ratios = [our / their for their, our in zip(theirs, ours)]
    print(f"{UPDATES} updates in {options.precision}: qkv {statistics.median(ours):.1f} s, PyTorch {torch.__version__} "
          f"{statistics.median(theirs):.1f} s ({', '.join(sorted(set(fastest)))}); qkv / PyTorch {statistics.median(ratios):.2f} "
          f"({min(ratios):.2f} to {max(ratios):.2f})")


main()
