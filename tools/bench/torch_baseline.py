#!/usr/bin/python3
"""The model of a qkv run, trained in PyTorch on the same text for as long, to compare translation quality.

    qkv train configs/tatoeba_mini.yaml -s data.train=TRAIN.tsv -s data.dev=DEV.tsv
    torch_baseline.py runs/tatoeba_mini TRAIN.tsv DEV.tsv > torch.txt
    cut -f2 DEV.tsv | qkv score torch.txt -

Reads sizes, dropout and training settings from the run's config.yaml, and its vocabularies. What it knows: pre-norm
transformers with relu, tied_softmax, adam, cosine with warm-up, batches by sentences. Needs Debian's python3-torch and
python3-yaml.
"""
import argparse
import math
import random
import re
import sys
import time
import unicodedata

import torch
import torch.nn as nn
import torch.nn.functional as F
import yaml

UNKNOWN, BEGIN, END = 0, 1, 2
PAD = -1  # never an id: replaced by END and masked


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


def read(path, config, source, target):
    pairs = []
    for line in open(path, encoding="utf-8"):
        s, t = line.rstrip("\n").split("\t")
        s, t = tokenize(s, config["src"]), tokenize(t, config["trg"])
        pairs.append(([source.get(w, UNKNOWN) for w in s] + [END], [target.get(w, UNKNOWN) for w in t]))
    return pairs


def pad(rows):
    longest = max(map(len, rows))
    ids = torch.full((len(rows), longest), PAD)
    for i, row in enumerate(rows):
        ids[i, :len(row)] = torch.tensor(row)
    return ids.clamp(min=0), ids < 0


def positions(length, width):
    angle = torch.arange(length)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    table = torch.zeros(length, width)
    table[:, 0::2], table[:, 1::2] = torch.sin(angle), torch.cos(angle)
    return table


class Model(nn.Module):
    def __init__(self, c, sources, targets):
        super().__init__()
        e, width = c["encoder"], c["encoder"]["hidden_size"]
        self.width = width
        self.source, self.target = nn.Embedding(sources, width), nn.Embedding(targets, width)
        self.transformer = nn.Transformer(width, e["num_heads"], e["num_layers"], c["decoder"]["num_layers"],
                                          e["ff_size"], e["dropout"], "relu", batch_first=True, norm_first=True)
        self.bias = nn.Parameter(torch.zeros(targets))
        self.dropout = nn.Dropout(e["embeddings"]["dropout"])
        self.register_buffer("table", positions(512, width))
        for p in self.transformer.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)
        for table in (self.source, self.target):
            nn.init.normal_(table.weight, std=width ** -0.5)

    def embed(self, table, ids):
        return self.dropout(table(ids) * math.sqrt(self.width) + self.table[:ids.size(1)])

    def encode(self, ids, padding):
        return self.transformer.encoder(self.embed(self.source, ids), src_key_padding_mask=padding)

    def decode(self, ids, memory, padding):
        mask = torch.full((ids.size(1), ids.size(1)), float("-inf")).triu(1)
        h = self.transformer.decoder(self.embed(self.target, ids), memory, tgt_mask=mask,
                                     memory_key_padding_mask=padding)
        return F.linear(h, self.target.weight, self.bias)


def loss_of(model, batch, smoothing):
    ids, padding = pad([s for s, _ in batch])
    inputs, _ = pad([[BEGIN] + t for _, t in batch])
    outputs, hidden = pad([t + [END] for _, t in batch])
    logits = model.decode(inputs, model.encode(ids, padding), padding)
    return F.cross_entropy(logits.flatten(0, 1), outputs.masked_fill(hidden, -100).flatten(),
                           label_smoothing=smoothing)


@torch.no_grad()
def translate(model, pairs, words):
    model.eval()
    lines = []
    for s, _ in pairs:
        ids, padding = pad([s])
        memory, out = model.encode(ids, padding), [BEGIN]
        while len(out) < 2 * len(s) + 10:
            scores = model.decode(torch.tensor([out]), memory, padding)[0, -1]
            scores[[UNKNOWN, BEGIN]] = -math.inf
            out.append(int(scores.argmax()))
            if out[-1] == END:
                break
        lines.append(detokenize(words[i] for i in out[1:] if i != END))
    model.train()
    return lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("run")
    parser.add_argument("train")
    parser.add_argument("dev")
    parser.add_argument("--threads", type=int, default=2)
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    config = yaml.safe_load(open(f"{a.run}/config.yaml", encoding="utf-8"))
    t = config["training"]
    torch.manual_seed(t["random_seed"])
    random.seed(t["random_seed"])
    words = [open(f"{a.run}/{side}.vocabulary", encoding="utf-8").read().split("\n")[:-1] for side in ("source", "target")]
    ids = [{w: i for i, w in enumerate(side)} for side in words]
    train, dev = (read(path, config["data"], *ids) for path in (a.train, a.dev))
    model = Model(config["model"], len(words[0]), len(words[1]))
    adam = torch.optim.Adam(model.parameters(), lr=1, betas=t["adam_betas"], eps=float(t["adam_epsilon"]))
    peak, warmup, updates = t["learning_rate"], t["learning_rate_warmup"], t["updates"]
    best, kept, update, started = math.inf, None, 0, time.time()
    while update < updates:
        random.shuffle(train)
        pool = 64 * t["batch_size"]
        batches = []
        for i in range(0, len(train), pool):
            part = sorted(train[i:i + pool], key=lambda p: (len(p[0]), len(p[1])))
            batches += [part[j:j + t["batch_size"]] for j in range(0, len(part), t["batch_size"])]
        random.shuffle(batches)
        for batch in batches[:updates - update]:
            update += 1
            done = (update - warmup) / (updates - warmup)
            adam.param_groups[0]["lr"] = peak * (update / warmup if update < warmup else (1 + math.cos(math.pi * done)) / 2)
            adam.zero_grad(set_to_none=True)
            loss_of(model, batch, t["label_smoothing"]).backward()
            nn.utils.clip_grad_norm_(model.parameters(), t["clip_grad_norm"])
            adam.step()
            if update % t["validation_freq"] == 0:
                model.eval()
                with torch.no_grad():
                    loss = sum(float(loss_of(model, [p], 0)) * (len(p[1]) + 1) for p in dev) / sum(len(p[1]) + 1 for p in dev)
                model.train()
                if loss < best:
                    best, kept = loss, {k: v.clone() for k, v in model.state_dict().items()}
                print(f"update {update} dev loss {loss:.4f} best {best:.4f} {time.time() - started:.0f} s", file=sys.stderr)
    model.load_state_dict(kept)
    print("\n".join(translate(model, dev, words[1])))


main()
