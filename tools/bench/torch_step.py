#!/usr/bin/python3
"""The steps of `qkv-bench` in PyTorch, as fast as its own operators make them: same sizes, same work.

    torch_step.py toy --what train --threads 2 --steps 20

Prints JSON: median ms a step, and the peak of memory in MB. One step is forward, backward and Adam on a post-norm
transformer with dropout on embeddings, attention weights, feed-forward and residuals, and smoothed cross entropy. Queries,
keys and values are one product, the parameters one flat block. Needs Debian's python3-torch.
"""
import argparse
import json
import os
import resource
import statistics
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
arguments = parser.parse_args()
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # read when the library is loaded
    os.environ.setdefault(variable, str(arguments.threads))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

torch.set_num_threads(arguments.threads)
torch.manual_seed(1)
D, H, INNER, LAYERS, C, B, T = SIZES[arguments.workload]
if arguments.what != "train":
    B = int(arguments.what.split()[1])
K, RATE, SMOOTHING = D // H, 0.1, 0.1


class Block:
    """All parameters in one flat tensor, each a view of it."""

    def __init__(self):
        self.shapes = []

    def add(self, *shape):
        self.shapes.append(shape)
        return len(self.shapes) - 1

    def finish(self):
        count = sum(torch.Size(s).numel() for s in self.shapes)
        self.flat = torch.empty(count)
        self.views, at = [], 0
        for shape in self.shapes:
            n = torch.Size(shape).numel()
            view = self.flat[at:at + n].view(shape)
            torch.nn.init.xavier_uniform_(view) if len(shape) > 1 else view.zero_()
            self.views.append(view.requires_grad_())
            at += n
        self.first, self.second = torch.zeros(count), torch.zeros(count)
        self.updates = 0

    @torch.no_grad()
    def adam(self, gradients, rate=1e-4, b1=0.9, b2=0.98, epsilon=1e-9):
        g = torch.cat([x.reshape(-1) for x in gradients])
        self.updates += 1
        self.first.lerp_(g, 1 - b1)
        self.second.mul_(b2).addcmul_(g, g, value=1 - b2)
        root = (self.second / (1 - b2 ** self.updates)).sqrt_().add_(epsilon)
        self.flat.addcdiv_(self.first, root, value=-rate / (1 - b1 ** self.updates))


block = Block()


def dense(inputs, outputs):
    return block.add(outputs, inputs), block.add(outputs)


def layer(decoder):
    parts = {"self": dense(D, 3 * D), "out": dense(D, D), "inner": dense(D, INNER), "outer": dense(INNER, D)}
    if decoder:
        parts |= {"query": dense(D, D), "memory": dense(D, 2 * D), "cross": dense(D, D)}
    parts["norms"] = [(block.add(D), block.add(D)) for _ in range(3 if decoder else 2)]
    return parts


SOURCE, TARGET, OUTPUT = block.add(C, D), block.add(C, D), dense(D, C)
ENCODER, DECODER = [layer(False) for _ in range(LAYERS)], [layer(True) for _ in range(LAYERS)]
block.finish()
P = block.views
angle = torch.arange(T)[:, None] * 10000.0 ** (-torch.arange(0, D, 2) / D)
POSITIONS = torch.stack([angle.sin(), angle.cos()], 2).view(T, D)
CAUSAL = torch.full((T, T), float("-inf")).triu_(1)
training = arguments.what == "train"
with torch.no_grad():
    for stack in (ENCODER, DECODER):
        for parts in stack:
            for gain, _ in parts["norms"]:
                P[gain].fill_(1)


def drop(x):
    return F.dropout(x, RATE, training)


def linear(x, parts):
    return F.linear(x, P[parts[0]], P[parts[1]])


def norm(x, parts):
    return F.layer_norm(x, (D,), P[parts[0]], P[parts[1]], 1e-6)


def heads(x):
    return x.view(B, -1, H, K).transpose(1, 2).reshape(B * H, -1, K)


def attend(query, key, value, mask=None):
    scores = torch.bmm(query, key.transpose(1, 2)) * K ** -0.5
    weights = drop(torch.softmax(scores if mask is None else scores + mask, 2))
    return torch.bmm(weights, value).view(B, H, -1, K).transpose(1, 2).reshape(-1, D)


def embed(table, ids, first=0):
    return drop(F.embedding(ids, P[table]) * D ** 0.5 + POSITIONS[first:first + ids.size(1)]).view(-1, D)


def feed(x, parts, where):
    inside = drop(F.relu(linear(x, parts["inner"])))
    return norm(x + drop(linear(inside, parts["outer"])), parts["norms"][where])


def attend_self(x, parts, mask=None):
    query, key, value = (heads(y) for y in linear(x, parts["self"]).chunk(3, 1))
    return norm(x + drop(linear(attend(query, key, value, mask), parts["out"])), parts["norms"][0])


def encode(source):
    x = embed(SOURCE, source)
    for parts in ENCODER:
        x = feed(attend_self(x, parts), parts, 1)
    return x


def attend_cross(x, key, value, parts):
    query = heads(linear(x, parts["query"]))
    return norm(x + drop(linear(attend(query, key, value), parts["cross"])), parts["norms"][1])


def loss_of(source, words, labels):
    memory, x = encode(source), embed(TARGET, words)
    for parts in DECODER:
        x = attend_self(x, parts, CAUSAL)
        key, value = (heads(y) for y in linear(memory, parts["memory"]).chunk(2, 1))
        x = feed(attend_cross(x, key, value, parts), parts, 2)
    return F.cross_entropy(linear(x, OUTPUT), labels.view(-1), label_smoothing=SMOOTHING)


@torch.inference_mode()
def greedy(source):
    """T tokens for every sentence, keys and values kept."""
    memory, words = encode(source), torch.ones(B, 1, dtype=torch.long)
    cross = [[heads(y) for y in linear(memory, parts["memory"]).chunk(2, 1)] for parts in DECODER]
    kept = [torch.empty(2, B * H, T, K) for _ in DECODER]
    for t in range(T):
        x = embed(TARGET, words, t)
        for parts, (key, value), cache in zip(DECODER, cross, kept):
            query, new_key, new_value = (heads(y) for y in linear(x, parts["self"]).chunk(3, 1))
            cache[0, :, t:t + 1], cache[1, :, t:t + 1] = new_key, new_value
            mixed = attend(query, cache[0, :, :t + 1], cache[1, :, :t + 1])
            x = norm(x + linear(mixed, parts["out"]), parts["norms"][0])
            x = feed(attend_cross(x, key, value, parts), parts, 2)
        words = linear(x, OUTPUT).argmax(1, keepdim=True)


def ids():
    return torch.randint(3, C, (B, T))


def step():
    if training:
        block.adam(torch.autograd.grad(loss_of(source, words, labels), P))
    else:
        greedy(source)


source, words, labels = ids(), ids(), ids()
for _ in range(2):
    step()
seconds, used = [], time.process_time()
for _ in range(arguments.steps):
    started = time.perf_counter()
    step()
    seconds.append(time.perf_counter() - started)
print(json.dumps({
    "ms": 1e3 * statistics.median(seconds),
    "cpu_ms": 1e3 * (time.process_time() - used) / arguments.steps,
    "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
}))
