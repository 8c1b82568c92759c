#!/usr/bin/env python3
"""Figures that tests/models/decoder_only.c is held against: a language model of two layers over windows of different lengths,
as the layers of PyTorch compute it in float64. Run once; the result is committed:

    python3 tests/figures/gpt.py > tests/figures/gpt.json

As in attention.py beside it, every number that goes in follows from number(family, i), and parameters bear qkv's names
and layout ([inputs, outputs])."""

import json
import sys

import torch
from torch import nn

from attention import filled, flat

SIZE, WIDTH, HEADS, INNER, LAYERS, POSITIONS = 7, 8, 2, 12, 2, 8
TEXT = [2, 3, 4, 5, 2, 6, 6, 3, 5, 2]  # 2 is </s>
WINDOWS = [(1, 4), (5, 4), (2, 3)]  # first token to predict, number of tokens

leaf = {}


def get(name, *shape):
    numbers = filled(len(leaf), *shape, scale=0.4)
    leaf[name] = (numbers + 1 if name.endswith("gain") else numbers).requires_grad_()
    return leaf[name]


def weights_of(layer):
    """The weights of a layer under the names of nn.TransformerEncoderLayer."""
    name = f"decoder.{layer}"
    projections = [(get(f"{name}.self.{part}.weight", WIDTH, WIDTH), get(f"{name}.self.{part}.bias", WIDTH))
                   for part in ("query", "key", "value")]
    return {
        "self_attn.in_proj_weight": torch.cat([weight.T for weight, _ in projections]),
        "self_attn.in_proj_bias": torch.cat([bias for _, bias in projections]),
        "self_attn.out_proj.weight": get(f"{name}.self.output.weight", WIDTH, WIDTH).T,
        "self_attn.out_proj.bias": get(f"{name}.self.output.bias", WIDTH),
        "norm1.weight": get(f"{name}.self.norm.gain", WIDTH),
        "norm1.bias": get(f"{name}.self.norm.bias", WIDTH),
        "linear1.weight": get(f"{name}.feed_forward.inner.weight", WIDTH, INNER).T,
        "linear1.bias": get(f"{name}.feed_forward.inner.bias", INNER),
        "linear2.weight": get(f"{name}.feed_forward.outer.weight", INNER, WIDTH).T,
        "linear2.bias": get(f"{name}.feed_forward.outer.bias", WIDTH),
        "norm2.weight": get(f"{name}.feed_forward.norm.gain", WIDTH),
        "norm2.bias": get(f"{name}.feed_forward.norm.bias", WIDTH),
    }


table, positions = get("decoder.embeddings.table", SIZE, WIDTH), get("decoder.positions.table", POSITIONS, WIDTH)
layers = [weights_of(i + 1) for i in range(LAYERS)]
norm = get("decoder.norm.gain", WIDTH), get("decoder.norm.bias", WIDTH)
bias = get("output.bias", SIZE)
layer = nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, 0.0, "gelu", 1e-5, batch_first=True, norm_first=True,
                                   dtype=torch.float64)
hidden, loss = [], 0
for first, length in WINDOWS:
    ids = torch.tensor(TEXT[first - 1:first + length - 1])
    x = (table[ids] + positions[:length]).unsqueeze(0)
    mask = nn.Transformer.generate_square_subsequent_mask(length, dtype=torch.float64)
    for weights in layers:
        x = torch.func.functional_call(layer, weights, (x,), {"src_mask": mask, "is_causal": True})
    x = nn.functional.layer_norm(x[0], (WIDTH,), *norm, 1e-5)
    hidden.append(x)
    labels = torch.tensor(TEXT[first:first + length])
    loss = loss + nn.functional.cross_entropy(x @ table.T + bias, labels, reduction="sum")
loss.backward()
json.dump({"origin": f"tests/figures/gpt.py with PyTorch {torch.__version__}, float64",
           "gpt": {"hidden": flat(torch.cat(hidden)), "loss": [loss.item()],
                   "parameters": [{"name": name, "gradient": flat(p.grad)} for name, p in leaf.items()]}},
          sys.stdout, indent=0, separators=(",", ":"))
print()
