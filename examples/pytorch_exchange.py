#!/usr/bin/env python3
"""Carries the weights of a run into PyTorch's transformer, and those of PyTorch's transformer into a run.

    pytorch_exchange.py compare RUN PAIRS.tsv   # the same log-probabilities from both, within 1e-5
    pytorch_exchange.py write RUN NEW_RUN       # from PyTorch's layers back to a run of qkv

Needs the packages torch and numpy; without them it says so and exits with 77. The program qkv must be in PATH, or its path
in the variable QKV. The run is a transformer with sinusoidal or no positions and none of what PyTorch's layers lack (other
norms, windows, relative positions, grouped heads).
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
CHECKSUM = b'"qkv.crc32":"'


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
    at = data.index(CHECKSUM) + len(CHECKSUM)
    pathlib.Path(path).write_bytes(data[:at] + b"%08x" % zlib.crc32(data) + data[at + 8 :])


# What PyTorch calls the parameters of a layer. qkv: a weight is [inputs, outputs]; PyTorch: [outputs, inputs], with query,
# key and value of an attention one below the other.
ATTENTION = {"self": "self_attn", "cross": "multihead_attn"}
DENSE = {"feed_forward.inner": "linear1", "feed_forward.outer": "linear2"}
NORMS = {
    "encoder": {"self": "norm1", "feed_forward": "norm2"},
    "decoder": {"self": "norm1", "cross": "norm2", "feed_forward": "norm3"},
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
        for name, module in self.stacks.items():
            module.load_state_dict(self.to_torch(name))
            module.eval()

    def key(self, name):
        return self.metadata["config.model." + name]

    def make_stack(self, name):
        """PyTorch's own layers with the sizes of the run."""
        expected = {"type": "transformer", "norm": "layer", "attention.bias": "true"}
        for key, value in expected.items():
            if self.key(f"{name}.{key}") != value:
                sys.exit(f"pytorch_exchange.py: model.{name}.{key} is {self.key(f'{name}.{key}')}, not {value}")
        if self.key(f"{name}.positions.type") not in ("sinusoidal", "none"):
            sys.exit(f"pytorch_exchange.py: model.{name}.positions.type must be sinusoidal or none")
        layer_class = nn.TransformerEncoderLayer if name == "encoder" else nn.TransformerDecoderLayer
        stack_class = nn.TransformerEncoder if name == "encoder" else nn.TransformerDecoder
        pre = self.key(f"{name}.layer_norm") == "pre"
        width, epsilon = int(self.key(f"{name}.hidden_size")), float(self.key(f"{name}.norm_epsilon"))
        layer = layer_class(
            width, int(self.key(f"{name}.num_heads")), int(self.key(f"{name}.ff_size")), 0.0,
            self.key(f"{name}.activation"), epsilon, batch_first=True, norm_first=pre,
        )
        last = nn.LayerNorm(width, epsilon) if pre else None
        options = {"enable_nested_tensor": False} if name == "encoder" else {}
        return stack_class(layer, int(self.key(f"{name}.num_layers")), last, **options)

    def names(self, stack):
        """Pairs of PyTorch's names and qkv's: (name, [names of the parts], whether it is a transposed matrix)."""
        for layer in range(int(self.key(f"{stack}.num_layers"))):
            to, of = f"layers.{layer}", f"{stack}.{layer + 1}"
            for part in NORMS[stack].keys() & ATTENTION.keys():
                inputs = [f"{of}.{part}.{name}" for name in ("query", "key", "value")]
                yield f"{to}.{ATTENTION[part]}.in_proj_weight", [f"{name}.weight" for name in inputs], True
                yield f"{to}.{ATTENTION[part]}.in_proj_bias", [f"{name}.bias" for name in inputs], False
                yield f"{to}.{ATTENTION[part]}.out_proj.weight", [f"{of}.{part}.output.weight"], True
                yield f"{to}.{ATTENTION[part]}.out_proj.bias", [f"{of}.{part}.output.bias"], False
            for part, name in DENSE.items():
                yield f"{to}.{name}.weight", [f"{of}.{part}.weight"], True
                yield f"{to}.{name}.bias", [f"{of}.{part}.bias"], False
            for part, name in NORMS[stack].items():
                yield f"{to}.{name}.weight", [f"{of}.{part}.norm.gain"], False
                yield f"{to}.{name}.bias", [f"{of}.{part}.norm.bias"], False
        if self.key(f"{stack}.layer_norm") == "pre":
            yield "norm.weight", [f"{stack}.norm.gain"], False
            yield "norm.bias", [f"{stack}.norm.bias"], False

    def to_torch(self, stack):
        state = {}
        for name, parts, transposed in self.names(stack):
            state[name] = torch.cat([self.tensors[part].T if transposed else self.tensors[part] for part in parts])
        return state

    def from_torch(self):
        """The parameters as qkv stores them, from the modules; embeddings and output layer as they were read."""
        tensors = dict(self.tensors)
        for stack, module in self.stacks.items():
            state = module.state_dict()
            for name, parts, transposed in self.names(stack):
                for part, piece in zip(parts, state[name].chunk(len(parts))):
                    tensors[part] = (piece.T if transposed else piece).contiguous()
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
        subprocess.run(
            [QKV, "evaluate", run, pairs, "--no-translation", "--log-probs", path], check=True, stdout=subprocess.DEVNULL
        )
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
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("compare", "write"):
        sys.exit(__doc__)
    try:
        sys.exit({"compare": compare, "write": write}[sys.argv[1]](sys.argv[2], sys.argv[3]))
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"pytorch_exchange.py: {error}")
