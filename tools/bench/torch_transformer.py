"""The transformer that torch_step.py runs: operators of PyTorch, arranged for speed.

One product computes queries, keys and values; one function computes the loss and the gradient of the logits; one Adam updates
all parameters, which are one flat block. Sentences are padded to the longest of their batch. Padding is masked in attention
and removed before the output projection.
"""
import math

import torch
import torch.nn.functional as F

BEGIN, END = 1, 2
DROPOUT = 0.1  # of embeddings, attention weights, residuals and inside the feed-forward layer


class Block:
    """All parameters as views of one flat tensor."""

    def __init__(self):
        self.shapes = []

    def add(self, *shape):
        self.shapes.append(shape)
        return len(self.shapes) - 1

    @torch.no_grad()
    def finish(self):
        """Matrices and embeddings become random, with rows of expected norm 1; everything else is 0."""
        counts = [math.prod(shape) for shape in self.shapes]
        self.flat, self.first, self.second = (torch.zeros(sum(counts)) for _ in range(3))
        self.views = [part.view(shape) for part, shape in zip(self.flat.split(counts), self.shapes)]
        for view in self.views:
            if view.dim() > 1:
                view.normal_(std=view.size(1) ** -0.5)
            view.requires_grad_()
        self.updates = 0

    @torch.no_grad()
    def adam(self, gradients, rate=1e-4, betas=(0.9, 0.98), epsilon=1e-9):
        g = torch.cat([x.reshape(-1) for x in gradients])
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


class Batch:
    """A padded batch of sentences that end with END: ids, and what is added to the scores of the source, for every head of every
    sentence (`mask`; None: no padding)."""

    def __init__(self, heads, sources, targets):
        self.count = len(sources)
        self.source, hidden = pad(sources)
        self.mask = torch.where(hidden, -math.inf, 0.0)[:, None].repeat_interleave(heads, 0) if hidden.any() else None
        self.words, _ = pad([[BEGIN] + t[:-1] for t in targets])
        labels, hidden = pad(targets)
        self.rows = None if not hidden.any() else (~hidden).view(-1).nonzero().view(-1)
        self.labels = labels.view(-1) if self.rows is None else labels.view(-1)[self.rows]
        self.tokens = sum(map(len, sources)) + sum(map(len, targets))


def pad(rows):
    longest = max(map(len, rows))
    ids = torch.tensor([row + [-1] * (longest - len(row)) for row in rows])
    return ids.clamp(min=0), ids < 0


def repeat(x, count, times):
    """Repeats the rows of each of `count` sentences, one behind the other."""
    return x.view(count, -1, *x.shape[1:]).repeat_interleave(times, 0).flatten(0, 1)


class Transformer:
    """`size` is a Workload. `attention` is "composed" of products and a softmax, or "sdpa", F.scaled_dot_product_attention.
    `dropout(x, rate)` is drop() or F.dropout."""

    def __init__(self, size, attention="composed", dropout=drop, longest=512):
        self.size, self.attention, self.dropout, self.training = size, attention, dropout, True
        self.block, d = Block(), size.width
        self.embeddings = [self.block.add(size.words, d) for _ in range(2)]
        self.output = self._dense(d, size.words)
        self.layers = [[self._layer(is_decoder) for _ in range(size.layers)] for is_decoder in (False, True)]
        self.block.finish()
        self.P = self.block.views
        with torch.no_grad():
            for parts in self.layers[0] + self.layers[1]:
                for gain, _ in parts["norms"]:
                    self.P[gain].fill_(1)
        angle = torch.arange(longest)[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)
        self.positions = torch.stack([angle.sin(), angle.cos()], 2).view(longest, d)
        self.causal = torch.full((longest, longest), -math.inf).triu_(1)

    def _dense(self, inputs, outputs):
        return self.block.add(outputs, inputs), self.block.add(outputs)

    def _layer(self, is_decoder):
        d, inner = self.size.width, self.size.inner
        parts = {"self": self._dense(d, 3 * d), "out": self._dense(d, d), "inner": self._dense(d, inner),
                 "outer": self._dense(inner, d)}
        if is_decoder:
            parts |= {"query": self._dense(d, d), "memory": self._dense(d, 2 * d), "cross": self._dense(d, d)}
        parts["norms"] = [(self.block.add(d), self.block.add(d)) for _ in range(3 if is_decoder else 2)]
        return parts

    # ---- parts ----

    def _drop(self, x):
        return self.dropout(x, DROPOUT) if self.training else x

    def _linear(self, x, parts):
        return F.linear(x, self.P[parts[0]], self.P[parts[1]])

    def _around(self, x, norm, part):
        """A sub-layer with residual connection, dropout and norm."""
        return F.layer_norm(x + self._drop(part(x)), (self.size.width,), self.P[norm[0]], self.P[norm[1]], 1e-6)

    def _heads(self, x, count):
        heads, k = self.size.heads, self.size.width // self.size.heads
        return x.view(count, -1, heads, k).transpose(1, 2).reshape(count * heads, -1, k)

    def _mix(self, query, key, value, mask):
        heads, width = self.size.heads, self.size.width
        if self.attention == "sdpa":
            query, key, value = (x.view(-1, heads, *x.shape[1:]) for x in (query, key, value))
            mask = mask if mask is None or mask.dim() == 2 else mask.view(-1, heads, *mask.shape[1:])
            mixed = F.scaled_dot_product_attention(query, key, value, mask, DROPOUT if self.training else 0.0)
            return mixed.transpose(1, 2).reshape(-1, width)
        scale = query.size(2) ** -0.5
        if mask is None:
            scores = torch.bmm(query, key.transpose(1, 2)) * scale
        else:
            scores = torch.baddbmm(mask, query, key.transpose(1, 2), alpha=scale)
        mixed = torch.bmm(self._drop(torch.softmax(scores, 2)), value)
        return mixed.view(-1, heads, query.size(1), query.size(2)).transpose(1, 2).reshape(-1, width)

    def _embed(self, side, ids, first=0):
        x = F.embedding(ids, self.P[self.embeddings[side]]) * self.size.width ** 0.5
        return self._drop(x + self.positions[first:first + ids.size(1)]).view(-1, self.size.width)

    def _feed(self, parts):
        return lambda x: self._linear(self._drop(F.relu(self._linear(x, parts["inner"]))), parts["outer"])

    def _attend_self(self, parts, count, mask, cache=None, at=0):
        def part(x):
            query, key, value = (self._heads(y, count) for y in self._linear(x, parts["self"]).chunk(3, 1))
            if cache is not None:
                cache[0, :, at:at + 1], cache[1, :, at:at + 1] = key, value
                key, value = cache[0, :, :at + 1], cache[1, :, :at + 1]
            return self._linear(self._mix(query, key, value, mask), parts["out"])
        return part

    def _attend_source(self, parts, count, key, value, mask):
        def part(x):
            query = self._heads(self._linear(x, parts["query"]), count)
            return self._linear(self._mix(query, key, value, mask), parts["cross"])
        return part

    # ---- the network ----

    def encode(self, batch):
        """Returns the keys and values of the source for every layer of the decoder."""
        x = self._embed(0, batch.source)
        for parts in self.layers[0]:
            x = self._around(x, parts["norms"][0], self._attend_self(parts, batch.count, batch.mask))
            x = self._around(x, parts["norms"][1], self._feed(parts))
        return [[self._heads(y, batch.count) for y in self._linear(x, parts["memory"]).chunk(2, 1)]
                for parts in self.layers[1]]

    def _decode(self, x, count, memory, mask=None, hidden=None, cache=None, at=0):
        """`mask` and `hidden` are what is added to the scores of the target and of the source."""
        for i, (parts, (key, value)) in enumerate(zip(self.layers[1], memory)):
            layer_cache = None if cache is None else cache[i]
            x = self._around(x, parts["norms"][0], self._attend_self(parts, count, mask, layer_cache, at))
            x = self._around(x, parts["norms"][1], self._attend_source(parts, count, key, value, hidden))
            x = self._around(x, parts["norms"][2], self._feed(parts))
        return x

    def logits(self, batch):
        """Returns a row of logits for each token of the targets, without padding."""
        memory, length = self.encode(batch), batch.words.size(1)
        x = self._decode(self._embed(1, batch.words), batch.count, memory, self.causal[:length, :length], batch.mask)
        return self._linear(x if batch.rows is None else x.index_select(0, batch.rows), self.output)

    def step(self, batch):
        loss = SmoothedLoss.apply(self.logits(batch), batch.labels, 0.1)
        self.block.adam(torch.autograd.grad(loss, self.P))
        return loss

    def _cache(self, sentences, length):
        """Returns memory for the keys and values of `length` words, for each layer of the decoder."""
        heads, width = self.size.heads, self.size.width
        return [torch.empty(2, sentences * heads, length, width // heads) for _ in range(self.size.layers)]

    @torch.inference_mode()
    def greedy(self, batch, length):
        """Greedy search for exactly `length` words per sentence, with cached keys and values. END is a word as any other. All
        sources have the same length."""
        memory, cache = self.encode(batch), self._cache(batch.count, length)
        words, out = torch.full((batch.count, 1), BEGIN), []
        for t in range(length):
            x = self._decode(self._embed(1, words, t), batch.count, memory, cache=cache, at=t)
            words = self._linear(x, self.output).argmax(1, keepdim=True)
            out.append(words)
        return torch.cat(out, 1).tolist()

    @torch.inference_mode()
    def beam(self, batch, beam, length):
        """The same by beam search. Returns the best hypotheses."""
        count = beam * batch.count
        memory = [[repeat(x, batch.count, beam) for x in layer] for layer in self.encode(batch)]
        cache = self._cache(count, length)
        words, out = torch.full((count, 1), BEGIN), torch.empty(count, 0, dtype=torch.long)
        totals = torch.full((batch.count, beam), -math.inf)
        totals[:, 0] = 0  # at first all hypotheses of a sentence are the same
        first = beam * torch.arange(batch.count)[:, None]  # hypothesis of each sentence
        for t in range(length):
            x = self._decode(self._embed(1, words, t), count, memory, cache=cache, at=t)
            scores = self._linear(x, self.output).log_softmax(1).view(batch.count, beam, -1)
            totals, best = (scores + totals[:, :, None]).flatten(1).topk(beam)
            origin, words = (first + best // self.size.words).view(-1), (best % self.size.words).view(-1, 1)
            out = torch.cat([out[origin], words], 1)
            for layer in cache:
                slots = layer.view(2, count, self.size.heads, length, -1)
                slots[:, :, :, :t + 1] = slots[:, origin, :, :t + 1]
        return out.view(batch.count, beam, length)[:, 0].tolist()
