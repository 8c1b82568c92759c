#!/usr/bin/env python3
"""Figures that tests/kernels/recurrent.c is held against: recurrent cells over sentences of different lengths as PyTorch
computes them in float64. Run once with Debian's python3-torch; the result is committed:

    python3 tests/figures/recurrent.py > tests/figures/recurrent.json

As in attention.py beside it, every number that goes in follows from number(family, i), and parameters bear qkv's names
and layout ([inputs, outputs]). PyTorch has a second bias on each recurrent product; it stays 0 where qkv has none."""

import json
import sys

import torch
from torch import nn
from torch.nn.utils import rnn

from attention import COTANGENT, INPUT, filled, flat

INPUTS, WIDTH = 5, 4
LENGTHS = [3, 1, 5]  # tokens of each sentence
GATES = {"tanh": 1, "gru": 3, "lstm": 4}
MODULES = {"tanh": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


def cell_weights(leaf, cell, name, inputs, suffix):
    """The parameters of one layer and direction under PyTorch's names; declared in qkv's order."""
    def get(part, *shape):
        leaf[f"{name}.{part}"] = filled(len(leaf), *shape, scale=0.4).requires_grad_()
        return leaf[f"{name}.{part}"]

    columns = GATES[cell] * WIDTH
    weights = {"weight_ih": get("input.weight", inputs, columns).T, "bias_ih": get("input.bias", columns),
               "weight_hh": get("recurrent.weight", WIDTH, columns).T}
    zeros = torch.zeros(columns, dtype=torch.float64)
    weights["bias_hh"] = (torch.cat([zeros[:2 * WIDTH], get("recurrent.bias", WIDTH)]) if cell == "gru" else zeros)
    return {f"{key}_{suffix}": value for key, value in weights.items()}


def run(cell, layers, both_ways, initial):
    leaf, weights = {}, {}
    for layer in range(layers):
        inputs = INPUTS if layer == 0 else WIDTH * (2 if both_ways else 1)
        for name, suffix in (("forward", ""), ("backward", "_reverse"))[: 2 if both_ways else 1]:
            weights |= cell_weights(leaf, cell, f"{layer + 1}.{name}", inputs, f"l{layer}{suffix}")
    given = [filled(INPUT, sum(LENGTHS), INPUTS).requires_grad_()]
    state = ()
    if initial:
        given.append(filled(INPUT + 1, len(LENGTHS), (2 if cell == "lstm" else 1) * WIDTH).requires_grad_())
        parts = [part.unsqueeze(0) for part in given[1].split(WIDTH, 1)]
        state = (tuple(parts),) if cell == "lstm" else (parts[0],)
    module = MODULES[cell](INPUTS, WIDTH, layers, batch_first=True, bidirectional=both_ways, dtype=torch.float64)
    module._flat_weights = [weights[name] for name in module._flat_weights_names]  # keeps their way to the leaves
    padded = rnn.pad_sequence(torch.split(given[0], LENGTHS), batch_first=True)
    packed = rnn.pack_padded_sequence(padded, LENGTHS, batch_first=True, enforce_sorted=False)
    output, _ = rnn.pad_packed_sequence(module(packed, *state)[0], batch_first=True)
    output = torch.cat([output[i, :n] for i, n in enumerate(LENGTHS)])
    output.backward(filled(COTANGENT, *output.shape))
    return {"output": flat(output), "inputs": [flat(x.grad) for x in given],
            "parameters": [{"name": name, "gradient": flat(p.grad)} for name, p in leaf.items()]}


figures = {"origin": f"tests/figures/recurrent.py with PyTorch {torch.__version__}, float64"}
for cell in GATES:
    figures[f"{cell}, from a state"] = run(cell, 1, False, True)
    figures[f"{cell}, two layers, both ways"] = run(cell, 2, True, False)
json.dump(figures, sys.stdout, indent=0, separators=(",", ":"))
print()
