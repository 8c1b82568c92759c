"""The transformer that torch_step.py and torch_baseline.py train: operators of PyTorch, arranged for speed.

One product computes queries, keys and values; one function computes the loss and the gradient of the logits; one Adam updates
all parameters, which are one flat block. Sentences are padded to the longest of their batch. Padding is masked in attention
and removed before the output projection.
"""
import copy
import dataclasses
import math

import torch
import torch.nn.functional as F

UNKNOWN, BEGIN, END = 0, 1, 2


class Block:
    """All parameters as views of one flat tensor."""

    def __init__(self):
        self.shapes = []

    def add(self, *shape):
        self.shapes.append(shape)
        return len(self.shapes) - 1

    def finish(self):
        count = sum(torch.Size(s).numel() for s in self.shapes)
        self.flat = torch.zeros(count)
        self.views, at = [], 0
        for shape in self.shapes:
            n = torch.Size(shape).numel()
            self.views.append(self.flat[at:at + n].view(shape).requires_grad_())
            at += n
        self.first, self.second = torch.zeros(count), torch.zeros(count)
        self.updates = 0

    @torch.no_grad()
    def adam(self, gradients, rate=1e-4, betas=(0.9, 0.98), epsilon=1e-9, clip=0):
        g = torch.cat([x.reshape(-1) for x in gradients])
        if clip:
            g *= (clip / g.norm()).clamp(max=1)
        self.updates += 1
        self.first.lerp_(g, 1 - betas[0])
        self.second.mul_(betas[1]).addcmul_(g, g, value=1 - betas[1])
        root = (self.second / (1 - betas[1] ** self.updates)).sqrt_().add_(epsilon)
        self.flat.addcdiv_(self.first, root, value=-rate / (1 - betas[0] ** self.updates))


class SmoothedLoss(torch.autograd.Function):
    """Mean cross entropy with label smoothing. Forward also computes the gradient, in few passes over the logits."""

    @staticmethod
    def forward(context, logits, labels, smoothing):
        rows, classes = logits.shape
        gradient, at = logits.softmax(1), labels[:, None]
        likelihood = gradient.gather(1, at).log_()
        # log sum exp of a row is the label's logit less its log-likelihood
        mean = logits.sum(1, keepdim=True) / classes - logits.gather(1, at) + likelihood
        loss = -((1 - smoothing) * likelihood + smoothing * mean).mean()
        torch.add(gradient.new_tensor(-smoothing / classes / rows), gradient, alpha=1 / rows, out=gradient)
        gradient.scatter_add_(1, at, torch.full_like(likelihood, -(1 - smoothing) / rows))
        context.save_for_backward(gradient)
        return loss

    @staticmethod
    def backward(context, scale):
        return context.saved_tensors[0] * scale if scale != 1 else context.saved_tensors[0], None, None


def drop(x, rate):
    """Dropout with seven random bits per number, eight numbers per draw: much cheaper than F.dropout. The rate is rounded to
    a multiple of 1/128."""
    level = max(1, round(rate * 128))
    draws = torch.empty((x.numel() + 7) // 8, dtype=torch.int64).random_()
    kept = (draws.view(torch.int8)[:x.numel()] & 127) >= level
    return x * kept.view_as(x).to(x.dtype).mul_(128 / (128 - level))


@dataclasses.dataclass
class Stack:
    width: int
    heads: int
    inner: int
    layers: int
    dropout: float = 0.1  # of residuals and inside the feed-forward layer
    attention_dropout: float = 0.1
    embedding_dropout: float = 0.1
    pre: bool = False  # pre-norm: a norm before each sub-layer, and one at the end
    epsilon: float = 1e-6


class Batch:
    """A padded batch of sentences that end with END: ids and masks."""

    def __init__(self, sources, targets=None):
        self.count = len(sources)
        self.source, hidden = pad(sources)
        self.hidden = torch.where(hidden, -math.inf, 0.0)[:, None] if hidden.any() else None
        self.masks, self.tokens = {}, sum(map(len, sources))
        if targets:
            self.words, _ = pad([[BEGIN] + t[:-1] for t in targets])
            labels, hidden = pad(targets)
            self.rows = None if not hidden.any() else (~hidden).view(-1).nonzero().view(-1)
            self.labels = labels.view(-1) if self.rows is None else labels.view(-1)[self.rows]
            self.lengths = [len(t) for t in targets]
            self.tokens += sum(self.lengths)

    def repeated(self, times):
        """Returns the batch with each sentence several times, without targets."""
        result = copy.copy(self)
        result.count, result.masks = times * self.count, {}
        result.source = self.source.repeat_interleave(times, 0)
        result.hidden = None if self.hidden is None else self.hidden.repeat_interleave(times, 0)
        return result

    def mask(self, heads):
        """Returns what is added to the scores of the source, for every head of every sentence; None: no padding."""
        if self.hidden is not None and heads not in self.masks:
            self.masks[heads] = self.hidden.repeat_interleave(heads, 0)
        return self.masks.get(heads)


def repeat(x, count, times):
    """Repeats the rows of each of `count` sentences, one behind the other."""
    return x.view(count, -1, *x.shape[1:]).repeat_interleave(times, 0).flatten(0, 1)


def pad(rows):
    longest = max(map(len, rows))
    ids = torch.tensor([row + [-1] * (longest - len(row)) for row in rows])
    return ids.clamp(min=0), ids < 0


class Transformer:
    """`attention` is "composed" of products and a softmax, or "sdpa", F.scaled_dot_product_attention. `dropout(x, rate)` is drop()
    or F.dropout."""

    def __init__(self, encoder, decoder, sources, targets, tied=False, longest=512, attention="composed", dropout=drop):
        self.encoder, self.decoder, self.training = encoder, decoder, True
        self.attention, self.dropout = attention, dropout
        self.block = Block()
        width = encoder.width
        self.embeddings = [self.block.add(sources, width), self.block.add(targets, width)]
        self.output = self.embeddings[1] if tied else self.block.add(targets, width), self.block.add(targets)
        self.layers = [[self._layer(stack, stack is decoder) for _ in range(stack.layers)]
                       for stack in (encoder, decoder)]
        self.ends = [self._norm(width) if stack.pre else None for stack in (encoder, decoder)]
        self.block.finish()
        self.P = self.block.views
        self._initialize(width)
        angle = torch.arange(longest)[:, None] * 10000.0 ** (-torch.arange(0, width, 2) / width)
        self.positions = torch.stack([angle.sin(), angle.cos()], 2).view(longest, width)
        self.causal = torch.full((longest, longest), -math.inf).triu_(1)

    def _dense(self, inputs, outputs):
        return self.block.add(outputs, inputs), self.block.add(outputs)

    def _norm(self, width):
        return self.block.add(width), self.block.add(width)

    def _layer(self, stack, is_decoder):
        d, inner = stack.width, stack.inner
        parts = {"self": self._dense(d, 3 * d), "out": self._dense(d, d), "inner": self._dense(d, inner),
                 "outer": self._dense(inner, d)}
        if is_decoder:
            parts |= {"query": self._dense(d, d), "memory": self._dense(d, 2 * d), "cross": self._dense(d, d)}
        parts["norms"] = [self._norm(d) for _ in range(3 if is_decoder else 2)]
        return parts

    @torch.no_grad()
    def _initialize(self, width):
        """Xavier for each matrix, also for those that share one product; embeddings with rows of expected norm 1."""
        for view in self.P:
            if view.dim() > 1:
                several = view.size(0) // width if view.size(1) == width and view.size(0) in (2 * width, 3 * width) else 1
                for matrix in view.chunk(several):
                    torch.nn.init.xavier_uniform_(matrix)
        for table in self.embeddings:
            torch.nn.init.normal_(self.P[table], std=width ** -0.5)
        for norms in [parts["norms"] for layers in self.layers for parts in layers] + [[e] for e in self.ends if e]:
            for gain, _ in norms:
                self.P[gain].fill_(1)

    # ---- parts ----

    def _drop(self, x, rate):
        return self.dropout(x, rate) if self.training and rate else x

    def _linear(self, x, parts):
        return F.linear(x, self.P[parts[0]], self.P[parts[1]])

    def _normed(self, x, parts, stack):
        return F.layer_norm(x, (stack.width,), self.P[parts[0]], self.P[parts[1]], stack.epsilon)

    def _around(self, x, norm, stack, part):
        """A sub-layer with residual connection, dropout and norm."""
        if stack.pre:
            return x + self._drop(part(self._normed(x, norm, stack)), stack.dropout)
        return self._normed(x + self._drop(part(x), stack.dropout), norm, stack)

    def _heads(self, x, count, stack):
        k = stack.width // stack.heads
        return x.view(count, -1, stack.heads, k).transpose(1, 2).reshape(count * stack.heads, -1, k)

    def _mix(self, query, key, value, stack, mask):
        if self.attention == "sdpa":
            query, key, value = (x.view(-1, stack.heads, *x.shape[1:]) for x in (query, key, value))
            mask = mask if mask is None or mask.dim() == 2 else mask.view(-1, stack.heads, *mask.shape[1:])
            rate = stack.attention_dropout if self.training else 0.0
            mixed = F.scaled_dot_product_attention(query, key, value, mask, rate)
            return mixed.transpose(1, 2).reshape(-1, stack.width)
        k, scale = query.size(2), query.size(2) ** -0.5
        if mask is None:
            scores = torch.bmm(query, key.transpose(1, 2)) * scale
        else:
            scores = torch.baddbmm(mask, query, key.transpose(1, 2), alpha=scale)
        weights = self._drop(torch.softmax(scores, 2), stack.attention_dropout)
        mixed = torch.bmm(weights, value)
        return mixed.view(-1, stack.heads, query.size(1), k).transpose(1, 2).reshape(-1, stack.width)

    def _embed(self, side, ids, stack, first=0):
        x = F.embedding(ids, self.P[self.embeddings[side]]) * stack.width ** 0.5
        x = x + self.positions[first:first + ids.size(1)]
        return self._drop(x, stack.embedding_dropout).view(-1, stack.width)

    def _feed(self, parts, stack):
        return lambda x: self._linear(self._drop(F.relu(self._linear(x, parts["inner"])), stack.dropout), parts["outer"])

    def _attend_self(self, parts, stack, count, mask, cache=None, at=0):
        def part(x):
            query, key, value = (self._heads(y, count, stack) for y in self._linear(x, parts["self"]).chunk(3, 1))
            if cache is not None:
                cache[0, :, at:at + 1], cache[1, :, at:at + 1] = key, value
                key, value = cache[0, :, :at + 1], cache[1, :, :at + 1]
            return self._linear(self._mix(query, key, value, stack, mask), parts["out"])
        return part

    def _attend_source(self, parts, stack, count, key, value, mask):
        def part(x):
            query = self._heads(self._linear(x, parts["query"]), count, stack)
            return self._linear(self._mix(query, key, value, stack, mask), parts["cross"])
        return part

    def _memory(self, memory, count):
        """Returns the keys and values of the source for every layer of the decoder."""
        return [[self._heads(y, count, self.decoder) for y in self._linear(memory, parts["memory"]).chunk(2, 1)]
                for parts in self.layers[1]]

    # ---- the network ----

    def encode(self, batch):
        stack, mask = self.encoder, batch.mask(self.encoder.heads)
        x = self._embed(0, batch.source, stack)
        for parts in self.layers[0]:
            x = self._around(x, parts["norms"][0], stack, self._attend_self(parts, stack, batch.count, mask))
            x = self._around(x, parts["norms"][1], stack, self._feed(parts, stack))
        return self._normed(x, self.ends[0], stack) if stack.pre else x

    def _decode(self, x, batch, memory, mask, cache=None, at=0):
        stack, hidden = self.decoder, batch.mask(self.decoder.heads)
        for i, (parts, (key, value)) in enumerate(zip(self.layers[1], memory)):
            layer_cache = None if cache is None else cache[i]
            x = self._around(x, parts["norms"][0], stack, self._attend_self(parts, stack, batch.count, mask, layer_cache, at))
            x = self._around(x, parts["norms"][1], stack,
                             self._attend_source(parts, stack, batch.count, key, value, hidden))
            x = self._around(x, parts["norms"][2], stack, self._feed(parts, stack))
        return self._normed(x, self.ends[1], stack) if stack.pre else x

    def logits(self, batch):
        """Returns a row of logits for each token of the targets, without padding."""
        memory = self._memory(self.encode(batch), batch.count)
        length = batch.words.size(1)
        x = self._decode(self._embed(1, batch.words, self.decoder), batch, memory, self.causal[:length, :length])
        return self._linear(x if batch.rows is None else x.index_select(0, batch.rows), self.output)

    def loss(self, batch, smoothing=0.0):
        return SmoothedLoss.apply(self.logits(batch), batch.labels, smoothing)

    def step(self, batch, smoothing=0.1, **adam):
        loss = self.loss(batch, smoothing)
        self.block.adam(torch.autograd.grad(loss, self.P), **adam)
        return loss

    def _cache(self, sentences, length):
        """Returns memory for the keys and values of `length` words, for each layer of the decoder."""
        stack = self.decoder
        return [torch.empty(2, sentences * stack.heads, length, stack.width // stack.heads) for _ in range(stack.layers)]

    @torch.inference_mode()
    def greedy(self, batch, length, forbidden=(), until_end=True):
        """Greedy search for up to `length` words per sentence, with cached keys and values."""
        stack, memory = self.decoder, self._memory(self.encode(batch), batch.count)
        cache = self._cache(batch.count, length)
        words, out = torch.full((batch.count, 1), BEGIN), []
        ended = torch.zeros(batch.count, dtype=torch.bool)
        for t in range(length):
            scores = self._linear(self._decode(self._embed(1, words, stack, t), batch, memory, None, cache, t), self.output)
            if forbidden:
                scores[:, list(forbidden)] = -math.inf
            words = scores.argmax(1, keepdim=True)
            out.append(words)
            ended |= words[:, 0] == END
            if until_end and ended.all():
                break
        return torch.cat(out, 1).tolist()

    @torch.inference_mode()
    def beam(self, batch, size, length):
        """Beam search for exactly `length` words per sentence: END is a word as any other. Returns the best hypotheses."""
        stack, hypotheses = self.decoder, batch.repeated(size)
        memory = [[repeat(x, batch.count, size) for x in layer] for layer in self._memory(self.encode(batch), batch.count)]
        cache = self._cache(hypotheses.count, length)
        words, out = torch.full((hypotheses.count, 1), BEGIN), torch.empty(hypotheses.count, 0, dtype=torch.long)
        totals = torch.full((batch.count, size), -math.inf)
        totals[:, 0] = 0  # at first all hypotheses of a sentence are the same
        first = size * torch.arange(batch.count)[:, None]  # hypothesis of each sentence
        for t in range(length):
            x = self._decode(self._embed(1, words, stack, t), hypotheses, memory, None, cache, t)
            scores = self._linear(x, self.output).log_softmax(1)
            classes = scores.size(1)
            totals, best = (scores.view(batch.count, size, classes) + totals[:, :, None]).flatten(1).topk(size)
            origin, words = (first + best // classes).view(-1), (best % classes).view(-1, 1)
            out = torch.cat([out[origin], words], 1)
            for layer in cache:
                slots = layer.view(2, hypotheses.count, stack.heads, length, -1)
                slots[:, :, :, :t + 1] = slots[:, origin, :, :t + 1]
        return out.view(batch.count, size, length)[:, 0].tolist()
