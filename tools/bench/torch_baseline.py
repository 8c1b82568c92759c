#!/usr/bin/python3
"""Trains the model of a qkv run in PyTorch on the same text: for the same number of updates, to compare translation quality,
or until its translations are as good, to compare time (time_to_accuracy.py).

    qkv train configs/tatoeba_mini.yaml -s data.train=TRAIN.tsv -s data.dev=DEV.tsv
    torch_baseline.py runs/tatoeba_mini TRAIN.tsv DEV.tsv > torch.txt
    cut -f2 DEV.tsv | qkv score torch.txt -

Reads the config and the vocabularies of the run. Trains transformers with relu, sinusoidal positions, Adam and a cosine
schedule with warm-up. Needs Debian's python3-torch and python3-yaml.
"""
import argparse
import math
import os
import random
import re
import sys
import time
import unicodedata

import yaml

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("run", help="run folder")
parser.add_argument("train", help="pairs to train on (.tsv)")
parser.add_argument("dev", help="pairs to validate on (.tsv)")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--until", type=float, help="end at the first validation with this percentage of correct sentences, "
                                                "and translate nothing")
parser.add_argument("--every", type=int, help="updates from one validation to the next [the config's]")
parser.add_argument("--updates", type=int, help="end after this many updates of the schedule, and translate nothing")
arguments = parser.parse_args()
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # read when the library is loaded
    os.environ.setdefault(variable, str(arguments.threads))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch_transformer import BEGIN, END, UNKNOWN, Batch, Stack, Transformer  # noqa: E402

DEV_BATCH = 64


# ---- text ----

def tokenize(line, text):
    line = unicodedata.normalize("NFC", line)
    if text["lowercase"]:
        line = line.lower()
    if text["split_punctuation"]:
        return re.findall(r"\w+(?:['.·’]\w+)*-?|[^\w\s]", line)
    return line.split()


def detokenize(tokens):
    line = " ".join(tokens)
    line = re.sub(r" ([.,!?;:…)»])", r"\1", line)
    return re.sub(r"([¿¡(«]) ", r"\1", line)


def read(path, data, source, target, drop_long):
    """Reads pairs of ids; each sentence ends with END."""
    pairs = []
    for line in open(path, encoding="utf-8"):
        s, t = line.rstrip("\n").split("\t")
        s, t = tokenize(s, data["src"]), tokenize(t, data["trg"])
        if drop_long and (len(s) > data["src"]["max_length"] or len(t) > data["trg"]["max_length"]):
            continue
        pairs.append(([source.get(w, UNKNOWN) for w in s] + [END], [target.get(w, UNKNOWN) for w in t] + [END]))
    return pairs


def cut(pairs, size, by_tokens):
    """Cuts pairs into batches of `size` sentences, or of `size` tokens on the longer side."""
    batches, tokens = [[]], [0, 0]
    for pair in pairs:
        tokens = [have + len(side) for have, side in zip(tokens, pair)]
        if batches[-1] and (max(tokens) > size if by_tokens else len(batches[-1]) == size):
            batches.append([])
            tokens = [len(side) for side in pair]
        batches[-1].append(pair)
    return batches


def epoch(pairs, training):
    """Makes the batches of an epoch as qkv does: shuffle, sort by length within pools of 64 batches, cut, shuffle within pools."""
    random.shuffle(pairs)
    by_tokens = training["batch_type"] == "token"
    average = sum(len(t) for _, t in pairs) / len(pairs) if by_tokens else 1
    pool = max(1, int(64 * training["batch_size"] / average))
    batches = []
    for i in range(0, len(pairs), pool):
        part = sorted(pairs[i:i + pool], key=lambda p: (len(p[0]), len(p[1])))
        part = cut(part, training["batch_size"], by_tokens)
        random.shuffle(part)
        batches += part
    return batches


def make(pairs):
    return Batch([s for s, _ in pairs], [t for _, t in pairs])


# ---- model ----

def stack_of(model, side):
    c = model[side]
    for key, value, wanted in (
            ("type", c["type"], "transformer"), ("activation", c["activation"], "relu"), ("norm", c["norm"], "layer"),
            ("positions.type", c["positions"]["type"], "sinusoidal"), ("embeddings.scale", c["embeddings"]["scale"], True),
            ("attention.bias", c["attention"]["bias"], True), ("attention.window", c["attention"]["window"], 1000000),
            ("attention.key_value_heads", c["attention"]["key_value_heads"], c["num_heads"]),
            ("attention.key_width", c["attention"]["key_width"], c["hidden_size"] // c["num_heads"]),
            ("attention.value_width", c["attention"]["value_width"], c["hidden_size"] // c["num_heads"])):
        demand(f"model.{side}.{key}", value, wanted)
    return Stack(c["hidden_size"], c["num_heads"], c["ff_size"], c["num_layers"], c["dropout"], c["attention"]["dropout"],
                 c["embeddings"]["dropout"], c["layer_norm"] == "pre", float(c["norm_epsilon"]))


def demand(key, value, wanted):
    if value != wanted:
        sys.exit(f"torch_baseline.py: {arguments.run}: {key} is {value}, but this program knows only {wanted}")


@torch.no_grad()
def evaluate(model, batches):
    """Returns the loss per token and the percentage of sentences without a wrong word, which greedy search would find."""
    model.training, loss, tokens, right, sentences = False, 0.0, 0, 0, 0
    for batch in batches:
        logits = model.logits(batch)
        loss += float(F.cross_entropy(logits, batch.labels, reduction="sum"))
        tokens += len(batch.labels)
        logits[:, [UNKNOWN, BEGIN]] = -math.inf
        good = (logits.argmax(1) == batch.labels) & (batch.labels != UNKNOWN)
        right += sum(bool(sentence.all()) for sentence in good.split(batch.lengths))
        sentences += batch.count
    model.training = True
    return loss / tokens, 100 * right / sentences


def translate(model, pairs, words):
    model.training = False
    for source, _ in pairs:
        ids = model.greedy(Batch([source]), 2 * (len(source) - 1) + 10, forbidden=(UNKNOWN, BEGIN))[0]
        yield detokenize(words[i] for i in (ids[:ids.index(END)] if END in ids else ids))


def main():
    torch.set_num_threads(arguments.threads)
    config = yaml.safe_load(open(f"{arguments.run}/config.yaml", encoding="utf-8"))
    t, tied = config["training"], config["model"]["tied_softmax"]
    for key, wanted in (("optimizer", "adam"), ("scheduling", "cosine"), ("weight_decay", 0), ("batch_multiplier", 1),
                        ("clip_grad_val", 0), ("learning_rate_min", 0), ("epochs", 0)):
        demand(f"training.{key}", t[key], wanted)
    torch.manual_seed(t["random_seed"])
    random.seed(t["random_seed"])
    words = [open(f"{arguments.run}/{side}.vocabulary", encoding="utf-8").read().split("\n")[:-1]
             for side in ("source", "target")]
    ids = [{w: i for i, w in enumerate(side)} for side in words]
    train = read(arguments.train, config["data"], *ids, True)
    dev = read(arguments.dev, config["data"], *ids, False)
    validation = [make(part) for part in cut(sorted(dev, key=lambda p: len(p[0])), DEV_BATCH, False)]
    model = Transformer(stack_of(config["model"], "encoder"), stack_of(config["model"], "decoder"), *map(len, words), tied)
    peak, warmup, updates = t["learning_rate"], t["learning_rate_warmup"], t["updates"]
    every, last = arguments.every or t["validation_freq"], min(updates, arguments.updates or updates)
    best, kept, update, started, losses = math.inf, None, 0, time.perf_counter(), []
    while update < last:
        for part in epoch(train, t)[:last - update]:
            update += 1
            done = (update - warmup) / max(1, updates - warmup)
            rate = peak * (update / warmup if update < warmup else (1 + math.cos(math.pi * done)) / 2)
            losses.append(model.step(make(part), t["label_smoothing"], rate=rate, betas=t["adam_betas"],
                                     epsilon=float(t["adam_epsilon"]), clip=t["clip_grad_norm"]).detach())
            if update % t["logging_freq"] == 0 or update % every == 0 or update == last:
                print(f"update {update}  loss {float(sum(losses)) / len(losses):.4f}  "
                      f"{1e3 * (time.perf_counter() - started) / len(losses):.2f} ms an update", file=sys.stderr, flush=True)
                started, losses = time.perf_counter(), []
            if update % every == 0 or update == last:
                loss, right = evaluate(model, validation)
                print(f"update {update}  dev: loss {loss:.4f}  sequences {right:.2f} %", file=sys.stderr, flush=True)
                if loss < best:
                    best, kept = loss, model.block.flat.clone()
                if arguments.until and right >= arguments.until:
                    return
                started = time.perf_counter()
    if not arguments.until and not arguments.updates:
        model.block.flat.copy_(kept)
        print("\n".join(translate(model, dev, words[1])))


main()
