#!/usr/bin/env python3
"""Carries the weights of a run into PyTorch's transformer, and those of PyTorch's transformer into a run.

    pytorch_exchange.py compare RUN PAIRS.tsv   # the same log-probabilities from both, within 1e-5
    pytorch_exchange.py write RUN NEW_RUN       # from PyTorch's layers back to a run of qkv

Needs the packages torch and numpy; without them it says so and exits with 77. The program qkv must be in PATH, or its path
in the variable QKV. The run is a transformer with sinusoidal or no positions and nothing that PyTorch's layers lack.
"""
import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

try:
    import numpy
    import torch
    from torch import nn
except ImportError as missing:
    print(f"pytorch_exchange.py: skipped: there is no package {missing.name}", file=sys.stderr)
    sys.exit(77)

TOLERANCE = 1e-5
QKV = os.environ.get("QKV", "qkv")


def read_checkpoint(path):
    """Returns the parameters of a safetensors file and its metadata, which hold the config."""
    data = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    metadata = header.pop("__metadata__")
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        tensors[name] = torch.tensor(numpy.frombuffer(data[begin:end], "<f4").reshape(entry["shape"]))
    return tensors, metadata


def write_checkpoint(path, tensors, metadata):
    """Writes what read_checkpoint returns. The checksum is that of the file with zeros in its place."""
    header, offset = {"__metadata__": dict(metadata, **{"qkv.crc32": "00000000"})}, 0
    for name, tensor in tensors.items():
        end = offset + 4 * tensor.numel()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    data = struct.pack("<Q", len(text)) + text
    data += b"".join(tensor.detach().numpy().astype("<f4").tobytes() for tensor in tensors.values())
    checksum = b'"qkv.crc32":"%08x"'
    pathlib.Path(path).write_bytes(data.replace(checksum % 0, checksum % zlib.crc32(data), 1))


# The sublayers of a layer; and of each, what PyTorch calls its matrices, and which of qkv's each holds, one below the other. A
# weight is [inputs, outputs] in qkv, and [outputs, inputs] in PyTorch.
SUBLAYERS = {"encoder": ("self", "feed_forward"), "decoder": ("self", "cross", "feed_forward")}
MATRICES = {
    "self": {"self_attn.in_proj_": ("query", "key", "value"), "self_attn.out_proj.": ("output",)},
    "cross": {"multihead_attn.in_proj_": ("query", "key", "value"), "multihead_attn.out_proj.": ("output",)},
    "feed_forward": {"linear1.": ("inner",), "linear2.": ("outer",)},
}


class Translator:
    """A run in PyTorch."""

    def __init__(self, run):
        self.tensors, self.metadata = read_checkpoint(pathlib.Path(run) / "best.safetensors")
        self.words = {}
        for side in ("source", "target"):
            lines = (pathlib.Path(run) / f"{side}.vocabulary").read_text(encoding="utf-8").splitlines()
            self.words[side] = {word: i for i, word in enumerate(lines)}
        self.stacks = {name: self.make_stack(name) for name in ("encoder", "decoder")}

    def key(self, name):
        return self.metadata["config.model." + name]

    def make_stack(self, name):
        """PyTorch's own layers with the sizes and the parameters of the run."""
        needed = {"type": "transformer", "norm": "layer", "attention.bias": "true", "positions.type": "sinusoidal or none",
                  "ff_gated": "false", "attention.output_gate": "false", "attention.qk_norm": "false",
                  "attention.soft_cap": "0", "attention.sink": "none"}
        for key, values in needed.items():
            if (value := self.metadata.get(f"config.model.{name}.{key}", values)) not in values.split(" or "):
                sys.exit(f"pytorch_exchange.py: model.{name}.{key} is {value}, not {values}")
        inner = int(self.key(f"{name}.ff_size")) or sys.exit("pytorch_exchange.py: PyTorch's layers have a feed-forward part")
        kind, pre = f"Transformer{name.capitalize()}", self.key(f"{name}.layer_norm") == "pre"
        width, epsilon = int(self.key(f"{name}.hidden_size")), float(self.key(f"{name}.norm_epsilon"))
        layer = getattr(nn, kind + "Layer")(
            width, int(self.key(f"{name}.num_heads")), inner, 0.0,
            self.key(f"{name}.activation"), epsilon, batch_first=True, norm_first=pre)
        last = nn.LayerNorm(width, epsilon) if pre else None
        options = {"enable_nested_tensor": False} if name == "encoder" else {}
        stack = getattr(nn, kind)(layer, int(self.key(f"{name}.num_layers")), last, **options)
        stack.load_state_dict(self.to_torch(name))
        return stack.eval()

    def names(self, stack):
        """Pairs of PyTorch's name of a parameter and qkv's names of its parts."""
        for layer in range(int(self.key(f"{stack}.num_layers"))):
            for number, sublayer in enumerate(SUBLAYERS[stack], 1):
                to, of = f"layers.{layer}", f"{stack}.{layer + 1}.{sublayer}"
                for matrix, parts in MATRICES[sublayer].items():
                    yield f"{to}.{matrix}weight", [f"{of}.{part}.weight" for part in parts]
                    yield f"{to}.{matrix}bias", [f"{of}.{part}.bias" for part in parts]
                yield f"{to}.norm{number}.weight", [f"{of}.norm.gain"]
                yield f"{to}.norm{number}.bias", [f"{of}.norm.bias"]
        if self.key(f"{stack}.layer_norm") == "pre":
            yield "norm.weight", [f"{stack}.norm.gain"]
            yield "norm.bias", [f"{stack}.norm.bias"]

    def to_torch(self, stack):
        """The parameters of a stack as PyTorch stores them: matrices transposed, vectors as they are."""
        return {name: torch.cat([self.tensors[part].t() for part in parts]) for name, parts in self.names(stack)}

    def from_torch(self):
        """The parameters as qkv stores them, from the modules; embeddings and output layer as they were read."""
        tensors = dict(self.tensors)
        for stack, module in self.stacks.items():
            state = module.state_dict()
            for name, parts in self.names(stack):
                for part, piece in zip(parts, state[name].chunk(len(parts))):
                    tensors[part] = piece.t().contiguous()
        return tensors

    def embed(self, stack, ids):
        table = self.tensors[self.table(stack)]
        width = table.shape[1]
        x = table[ids] * (math.sqrt(width) if self.key(f"{stack}.embeddings.scale") == "true" else 1)
        if self.key(f"{stack}.positions.type") == "none":
            return x
        frequency = float(self.key(f"{stack}.positions.base")) ** (-torch.arange(0, width, 2).double() / width)
        angles = torch.arange(len(ids)).double()[:, None] * frequency
        return x + torch.stack((angles.sin(), angles.cos()), 2).flatten(1)[:, :width].float()

    def table(self, stack):
        return f"{'encoder' if self.key('tied_embeddings') == 'true' else stack}.embeddings.table"

    def log_probabilities(self, source, target):
        """Of each word of the target and </s>, for texts of words between blanks."""
        source = self.ids("source", source) + [self.words["source"]["</s>"]]
        words = self.ids("target", target)
        inputs, outputs = [self.words["target"]["<s>"]] + words, words + [self.words["target"]["</s>"]]
        with torch.no_grad():
            memory = self.stacks["encoder"](self.embed("encoder", source)[None])
            mask = nn.Transformer.generate_square_subsequent_mask(len(inputs))
            hidden = self.stacks["decoder"](self.embed("decoder", inputs)[None], memory, tgt_mask=mask)[0]
            tied = self.key("tied_softmax") == "true"
            weight = self.tensors[self.table("decoder")].T if tied else self.tensors["output.weight"]
            logits = hidden @ weight + self.tensors["output.bias"]
            return torch.log_softmax(logits, 1)[range(len(outputs)), outputs].tolist()

    def ids(self, side, text):
        return [self.words[side].get(word, 0) for word in text.split()]


def compare(run, pairs):
    """Prints the greatest difference of the log-probabilities; exits with 1 where it exceeds TOLERANCE."""
    translator = Translator(run)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "log_probs.json"
        command = [QKV, "evaluate", run, pairs, "--no-translation", "--log-probs", path]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        sentences = json.loads(path.read_text(encoding="utf-8"))["sentences"]
    lines = pathlib.Path(pairs).read_text(encoding="utf-8").splitlines()
    greatest = tokens = 0
    for sentence in sentences:
        source, target = lines[sentence["line"] - 1].split("\t")[:2]
        ours = translator.log_probabilities(source, target)
        if len(ours) != len(sentence["log_probs"]):
            sys.exit(f"pytorch_exchange.py: line {sentence['line']}: {len(ours)} tokens, but qkv has other ones")
        tokens += len(ours)
        greatest = max([greatest] + [abs(a - b) for a, b in zip(ours, sentence["log_probs"])])
    print(f"{tokens} tokens: log-probabilities differ by at most {greatest:.1e}")
    return 0 if tokens and greatest <= TOLERANCE else 1


def write(run, new_run):
    """Makes NEW_RUN: the files of RUN, with the parameters that PyTorch's layers hold."""
    translator = Translator(run)
    shutil.copytree(run, new_run)
    for old in pathlib.Path(new_run).glob("*.safetensors"):
        old.unlink()
    write_checkpoint(pathlib.Path(new_run) / "best.safetensors", translator.from_torch(), translator.metadata)


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("compare", "write"):
        sys.exit(__doc__)
    try:
        sys.exit({"compare": compare, "write": write}[sys.argv[1]](sys.argv[2], sys.argv[3]))
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"pytorch_exchange.py: {error}")
