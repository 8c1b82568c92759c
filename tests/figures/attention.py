#!/usr/bin/env python3
"""Figures that tests/models/agreement.c is held against: attention, transformer layers, loss and a whole model as
PyTorch computes them in float64. Run once with Debian's python3-torch; the result is committed:

    python3 tests/figures/attention.py > tests/figures/attention.json

Every number that goes in follows from a closed formula, number(family, i), which the test repeats; so only what comes out
is written. Parameters bear qkv's names and layout ([inputs, outputs]) and are rearranged into PyTorch's on the way, so
that their gradients come back in qkv's. Sentences are padded and masked, as PyTorch wants them; the rows of the figures
are the real tokens only, packed."""

import json
import math
import sys

import torch
from torch import nn
from torch.nn.utils.stateless import functional_call

WIDTH, HEADS, INNER, EPSILON = 6, 2, 10, 1e-5
SOURCE, TARGET = [3, 1, 5], [4, 2, 3]  # tokens of each sentence
SOURCE_TYPES, TARGET_TYPES = 11, 9  # sizes of the vocabularies
INPUT, COTANGENT = 100, 200  # families of numbers that are no parameters


def number(family, i):
    return math.sin(0.1 * i * i + 0.7 * i + 1.3 * family + 0.5)


def filled(family, *shape, scale=1.0, offset=0.0):
    values = [offset + scale * number(family, i) for i in range(math.prod(shape))]
    return torch.tensor(values, dtype=torch.float64).reshape(shape)


class Parameters:
    """The parameters of one case, in the order in which they are asked for: that is their family."""

    def __init__(self):
        self.leaf = {}

    def get(self, name, *shape):
        if name not in self.leaf:
            offset = 1.0 if name.endswith("gain") else 0.0
            self.leaf[name] = filled(len(self.leaf), *shape, scale=0.4, offset=offset).requires_grad_()
        return self.leaf[name]

    def figures(self):
        return [{"name": name, "gradient": flat(leaf.grad)} for name, leaf in self.leaf.items()]


def flat(tensor):
    return [float(x) for x in tensor.detach().reshape(-1)]


def padded(packed, lengths):
    return nn.utils.rnn.pad_sequence(torch.split(packed, lengths), batch_first=True)


def packed(batch, lengths):
    return torch.cat([batch[i, :n] for i, n in enumerate(lengths)])


def is_padding(lengths):
    return torch.tensor([[j >= n for j in range(max(lengths))] for n in lengths])


def later(lengths):
    return torch.ones(max(lengths), max(lengths), dtype=torch.bool).triu(1)


# ---- modules with parameters in qkv's names ----


def attention_weights(p, name):
    parts = {part: (p.get(f"{name}.{part}.weight", WIDTH, WIDTH), p.get(f"{name}.{part}.bias", WIDTH))
             for part in ("query", "key", "value", "output")}
    three = [parts[part] for part in ("query", "key", "value")]
    return {
        "in_proj_weight": torch.cat([weight.T for weight, _ in three]),
        "in_proj_bias": torch.cat([bias for _, bias in three]),
        "out_proj.weight": parts["output"][0].T,
        "out_proj.bias": parts["output"][1],
    }


def norm_weights(p, name):
    return {"weight": p.get(f"{name}.gain", WIDTH), "bias": p.get(f"{name}.bias", WIDTH)}


def below(name, weights):
    return {f"{name}.{key}": value for key, value in weights.items()}


def layer_weights(p, prefix, decoder):
    """nn.TransformerEncoderLayer or nn.TransformerDecoderLayer."""
    attentions = [("self", "self_attn")] + ([("cross", "multihead_attn")] if decoder else [])
    weights = {}
    for number_of_norm, (ours, theirs) in enumerate(attentions, 1):
        weights |= below(theirs, attention_weights(p, f"{prefix}{ours}"))
        weights |= below(f"norm{number_of_norm}", norm_weights(p, f"{prefix}{ours}.norm"))
    for ours, theirs, inputs, outputs in (("inner", "linear1", WIDTH, INNER), ("outer", "linear2", INNER, WIDTH)):
        weights[f"{theirs}.weight"] = p.get(f"{prefix}feed_forward.{ours}.weight", inputs, outputs).T
        weights[f"{theirs}.bias"] = p.get(f"{prefix}feed_forward.{ours}.bias", outputs)
    return weights | below(f"norm{len(attentions) + 1}", norm_weights(p, f"{prefix}feed_forward.norm"))


def layer_module(decoder, before):
    kind = nn.TransformerDecoderLayer if decoder else nn.TransformerEncoderLayer
    return kind(WIDTH, HEADS, INNER, dropout=0.0, activation="relu", layer_norm_eps=EPSILON, batch_first=True,
                norm_first=before, dtype=torch.float64)


def encode(p, prefix, before, x):
    mask = {"src_key_padding_mask": is_padding(SOURCE)}
    return functional_call(layer_module(False, before), layer_weights(p, prefix, False), (x,), mask)


def decode(p, prefix, before, y, memory):
    masks = {"tgt_mask": later(TARGET), "tgt_key_padding_mask": is_padding(TARGET),
             "memory_key_padding_mask": is_padding(SOURCE)}
    return functional_call(layer_module(True, before), layer_weights(p, prefix, True), (y, memory), masks)


# ---- cases ----


def inputs(*counts):
    return [filled(INPUT + i, n, WIDTH).requires_grad_() for i, n in enumerate(counts)]


def finish(p, given, output, **more):
    """Sends the cotangent back from packed `output`."""
    output.backward(filled(COTANGENT, *output.shape))
    return {"output": flat(output), "inputs": [flat(x.grad) for x in given], "parameters": p.figures()} | more


def multi_head(kind):
    p = Parameters()
    queries, keys = (TARGET, SOURCE) if kind == "cross" else (SOURCE, SOURCE)
    given = inputs(sum(queries), sum(keys))[: 2 if kind == "cross" else 1]
    x, memory = padded(given[0], queries), padded(given[-1], keys)
    module = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, dtype=torch.float64)
    masks = {"key_padding_mask": is_padding(keys), "attn_mask": later(keys) if kind == "causal" else None,
             "average_attn_weights": False}
    output, weights = functional_call(module, attention_weights(p, "attention"), (x, memory, memory), masks)
    maps = [flat(weights[i, :, :n, :m]) for i, (n, m) in enumerate(zip(queries, keys))]  # heads, queries, keys
    return finish(p, given, packed(output, queries), weights=maps)


def encoder_layer(before):
    p = Parameters()
    given = inputs(sum(SOURCE))
    return finish(p, given, packed(encode(p, "", before, padded(given[0], SOURCE)), SOURCE))


def decoder_layer(before):
    p = Parameters()
    given = inputs(sum(TARGET), sum(SOURCE))
    return finish(p, given, packed(decode(p, "", before, padded(given[0], TARGET), padded(given[1], SOURCE)), TARGET))


def labels(count, classes):
    return torch.tensor([(5 * i + 2) % classes for i in range(count)])


def loss(smoothing):
    given = inputs(sum(TARGET))
    output = nn.functional.cross_entropy(given[0], labels(sum(TARGET), WIDTH), label_smoothing=smoothing, reduction="sum")
    (output * 0.25).backward()
    return {"output": [float(output * 0.25)], "inputs": [flat(given[0].grad)], "parameters": []}


def sinusoids(length):
    table = torch.zeros(length, WIDTH, dtype=torch.float64)
    for position in range(length):
        for j in range(0, WIDTH, 2):
            angle = position / 10000 ** (j / WIDTH)
            table[position, j], table[position, j + 1] = math.sin(angle), math.cos(angle)
    return table


def embed(table, ids, lengths):
    x = padded(nn.functional.embedding(ids, table) * math.sqrt(WIDTH), lengths)
    return x + sinusoids(max(lengths))


def stack_norm(p, name, x):
    norm = norm_weights(p, name)
    return nn.functional.layer_norm(x, [WIDTH], norm["weight"], norm["bias"], EPSILON)


def model(before, tied):
    """Two encoder and two decoder layers; ids as the test makes them."""
    p = Parameters()
    x = embed(p.get("encoder.embeddings.table", SOURCE_TYPES, WIDTH), labels(sum(SOURCE), SOURCE_TYPES), SOURCE)
    for i in (1, 2):
        x = encode(p, f"encoder.{i}.", before, x)
    memory = stack_norm(p, "encoder.norm", x) if before else x
    table = p.get("decoder.embeddings.table", TARGET_TYPES, WIDTH)
    y = embed(table, labels(sum(TARGET), TARGET_TYPES), TARGET)
    for i in (1, 2):
        y = decode(p, f"decoder.{i}.", before, y, memory)
    hidden = packed(stack_norm(p, "decoder.norm", y) if before else y, TARGET)
    weight = table.T if tied else p.get("output.weight", WIDTH, TARGET_TYPES)
    logits = hidden @ weight + p.get("output.bias", TARGET_TYPES)
    said = labels(sum(TARGET) + 1, TARGET_TYPES)[1:]
    output = nn.functional.cross_entropy(logits, said, label_smoothing=0.1)
    output.backward()
    return {"output": [float(output)], "inputs": [], "parameters": p.figures()}


CASES = {
    "multi_head self": lambda: multi_head("self"),
    "multi_head causal": lambda: multi_head("causal"),
    "multi_head cross": lambda: multi_head("cross"),
    "encoder pre": lambda: encoder_layer(True),
    "encoder post": lambda: encoder_layer(False),
    "decoder pre": lambda: decoder_layer(True),
    "decoder post": lambda: decoder_layer(False),
    "loss": lambda: loss(0.0),
    "smoothed loss": lambda: loss(0.1),
    "model pre": lambda: model(True, False),
    "model post": lambda: model(False, False),
    "model tied": lambda: model(True, True),
}

if __name__ == "__main__":
    figures = {"origin": f"tests/figures/attention.py with PyTorch {torch.__version__}, float64"}
    figures |= {name: case() for name, case in CASES.items()}
    json.dump(figures, sys.stdout, indent=0, separators=(",", ":"))
    sys.stdout.write("\n")
