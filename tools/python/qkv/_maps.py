"""Attention maps as arrays, and how they are shown."""

from __future__ import annotations

import ctypes
import html
import pathlib
from typing import TYPE_CHECKING, Any, Iterable

import numpy

from . import _declarations as c
from ._library import Error, StrPath, call, lib, number, text

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

KINDS = ("encoder", "decoder", "cross")  # enum qkv_attention_kind
CELL = 20  # of the maps in a notebook, pixels
COLOR, NEGATIVE = "#d95f02", "#3b7dc4"  # of weights of 1 and -1; on light and on dark ground


class Picture:
    """A picture or page that a notebook shows; save(FILE) writes it, `content` is its text (SVG or HTML)."""

    def __init__(self, content: str, kind: str = "image/svg+xml"):
        self.content, self._kind = content, kind

    def save(self, file: StrPath) -> None:
        pathlib.Path(file).write_text(self.content, encoding="utf-8")

    def __repr__(self):
        return f"<qkv.Picture {self._kind}, {len(self.content)} characters>"

    def _repr_mimebundle_(self, **_):
        return {self._kind: self.content, "text/plain": repr(self)}


class Maps:
    """The attention of one sentence. `cross`, `encoder` and `decoder` are float32 arrays [layers, heads, queries, keys], or None
    where the model has no such attention. Rows are queries: those of `cross` are the words that the decoder predicts.

    source_tokens: the tokens that the encoder reads, with </s>
    target_tokens: the tokens that the decoder predicts, with </s>
    target_input:  the tokens that the decoder reads, from <s>: rows and columns of `decoder`

    A notebook shows the heads with words. plot() makes a picture, to_bertviz() and to_circuitsvis() what those packages take."""

    encoder: numpy.ndarray | None
    decoder: numpy.ndarray | None
    cross: numpy.ndarray | None

    def __init__(self, *, encoder: ArrayLike | None = None, decoder: ArrayLike | None = None, cross: ArrayLike | None = None,
                 source_tokens: Iterable[str] = (), target_tokens: Iterable[str] = (), target_input: Iterable[str] | None = None,
                 sentence: str = ""):
        """Maps of arrays of your own: [layers, heads, queries, keys], or [queries, keys] for a single head."""
        self.source_tokens, self.target_tokens = list(source_tokens), list(target_tokens)
        self.target_input = list(target_tokens if target_input is None else target_input)
        self.sentence = sentence
        for kind, weights in zip(KINDS, (encoder, decoder, cross)):
            if weights is not None:
                weights = numpy.array(weights, "float32")
                weights = weights[None, None] if weights.ndim == 2 else weights
                rows, columns = map(len, self._labels(kind))
                if weights.ndim != 4 or weights.shape[2:] != (rows, columns) or not weights.size:
                    raise Error(f"{kind} has the shape {weights.shape}, but must be [layers, heads, {rows}, {columns}]")
            setattr(self, kind, weights)
        if encoder is decoder is cross is None:
            raise Error("there are no maps: give encoder, decoder or cross")

    @classmethod
    def _of(cls, report, sentence):
        """Copies a struct qkv_attention_report."""
        grouped = {}
        for one in report.maps[: report.map_count]:
            weights = numpy.ctypeslib.as_array(one.weights, (one.rows, one.columns)).astype("float32")
            grouped.setdefault(KINDS[one.kind], {}).setdefault(one.layer, []).append(weights)
        arrays = {kind: [layers[layer] for layer in sorted(layers)] for kind, layers in grouped.items()}
        tokens = [[token.decode() for token in (words[:count] if words else [])] for words, count in (
            (report.source, report.source_length), (report.target_output, report.target_length), (report.target_input, report.target_length))]
        return cls(**arrays, **dict(zip(("source_tokens", "target_tokens", "target_input"), tokens)), sentence=sentence)

    def _labels(self, kind):
        """The tokens of rows and columns."""
        return {"cross": (self.target_tokens, self.source_tokens), "encoder": (self.source_tokens, self.source_tokens),
                "decoder": (self.target_input, self.target_input)}[kind]

    def _kind(self, kind):
        """The array of a kind; None: the first of cross, decoder, encoder that there is."""
        if kind is None:
            kind = next(kind for kind in ("cross", "decoder", "encoder") if getattr(self, kind) is not None)
        if kind not in KINDS or getattr(self, kind) is None:
            raise Error(f"there is no {kind} attention; there is {', '.join(k for k in KINDS if getattr(self, k) is not None)}")
        return kind, getattr(self, kind)

    def __repr__(self):
        shapes = ", ".join(f"{kind} {getattr(self, kind).shape}" for kind in KINDS if getattr(self, kind) is not None)
        return f"<qkv.Maps of '{self.sentence}': {shapes}>"

    # ---- in a notebook ----

    def _head(self, kind, layer, head):
        rows, columns = self._labels(kind)
        weights = getattr(self, kind)[layer, head]
        left, top = 8 + 7 * max(map(len, rows)), 12 + 6 * max(map(len, columns))
        parts = [f'<svg width="{left + CELL * len(columns) + 30}" height="{top + CELL * len(rows) + 4}" font-size="12" '
                 'font-family="sans-serif" fill="currentColor" role="img">'
                 f"<title>{kind}, layer {layer + 1}, head {head + 1}</title>"]
        for j, word in enumerate(columns):
            parts.append(f'<text transform="translate({left + CELL * j + 13} {top - 5}) rotate(-55)">{html.escape(word)}</text>')
        for i, word in enumerate(rows):
            parts.append(f'<text x="{left - 5}" y="{top + CELL * i + 14}" text-anchor="end">{html.escape(word)}</text>')
        shades = abs(weights) / max(1, abs(weights).max())  # contributions may be negative, or above 1
        for i, j in zip(*numpy.nonzero(shades >= 0.005)):
            parts.append(
                f'<rect x="{left + CELL * j}" y="{top + CELL * i}" width="{CELL - 1}" height="{CELL - 1}" '
                f'fill="{COLOR if weights[i, j] > 0 else NEGATIVE}" fill-opacity="{shades[i, j]:.2f}"><title>{html.escape(f"{rows[i]} → {columns[j]}: {weights[i, j]:.3f}")}</title></rect>')
        parts.append(f'<rect x="{left}" y="{top}" width="{CELL * len(columns) - 1}" height="{CELL * len(rows) - 1}" fill="none" '
                     'stroke="currentColor" stroke-opacity=".3"/></svg>')
        return (f'<div style="display:inline-block;margin:0 12px 12px 0;vertical-align:top"><div style="font-weight:600">layer {layer + 1}, '
                f'head {head + 1}</div>{"".join(parts)}</div>')

    def _repr_html_(self):
        shown, parts = self._kind(None)[0], []
        for kind in sorted((kind for kind in KINDS if getattr(self, kind) is not None), key=lambda kind: kind != shown):
            layers, heads = getattr(self, kind).shape[:2]
            body = "".join(self._head(kind, layer, head) for layer in range(layers) for head in range(heads))
            parts.append(f'<details{" open" if kind == shown else ""}><summary>{kind} attention: {layers} layers of {heads} '
                         f'head{"s" * (heads != 1)}; a row is a query</summary>{body}</details>')
        title = html.escape(f"{self.sentence} → {' '.join(self.target_tokens)}" if self.cross is not None else self.sentence)
        return f'<div style="color:inherit;overflow-x:auto"><div>{title}</div>{"".join(parts)}</div>'

    def plot(self, layer: int | str | None = None, head: int | str | None = None, kind: str | None = None,
             file: StrPath | None = None, **options: object) -> Picture:
        """A Picture of the heads of one kind of attention; layer and head count from 1, None means all, "mean" their mean, and
        head="best" the one that agrees best with all. Options: annotate=True, colormap="viridis". `file`: .svg, .png, .html and other
        formats of `qkv attention`."""
        kind, array = self._kind(kind)
        layer, head = (numbers.get(value) if value in numbers else number(value, "layer or head", 1, 2**31 - 1)
                       for value, numbers in ((layer, {None: -1, "mean": 0}), (head, {None: -1, "mean": 0, "best": -2})))
        arena, selected, bytes_, size = c.qkv_arena(), c.qkv_attention_report(), ctypes.c_char_p(), ctypes.c_size_t()
        given = c.qkv_format_options()
        for name, value in options.items():
            if name not in ("colormap", "annotate", "maximum", "scale"):
                raise TypeError(f"plot has no option {name}")
            setattr(given, name, text(value, name) if name == "colormap" else value)
        kept = numpy.ascontiguousarray(array, "float64")
        maps = [c.qkv_attention_map(kind=KINDS.index(kind), layer=i + 1, head=k + 1, rows=kept.shape[2], columns=kept.shape[3],
                                    weights=kept[i, k].ctypes.data_as(ctypes.POINTER(ctypes.c_double)))
                for i in range(kept.shape[0]) for k in range(kept.shape[1])]
        source, output, read = ((ctypes.c_char_p * len(words))(*[word.encode() for word in words])
                                for words in (self.source_tokens, self.target_tokens, self.target_input))
        report = c.qkv_attention_report(
            title=self.sentence.encode(), source=source, source_length=len(source), target_input=read, target_output=output,
            target_length=len(output), maps=(c.qkv_attention_map * len(maps))(*maps), map_count=len(maps))
        try:
            call("attention_select", report, 0, layer, head, arena, selected)
            if file is not None:
                name = text(str(file), "the file")
                call("attention_write", selected, lib.format_of_path(name), given, name)
            call("attention_render", selected, lib.format_find(b"svg"), given, bytes_, size)
            return Picture(ctypes.string_at(bytes_, size.value).decode())
        finally:
            lib.arena_release(arena)
            ctypes.CDLL(None).free(bytes_)

    # ---- for other packages ----

    def to_bertviz(self) -> dict[str, Any]:
        """The arguments of bertviz: head_view(**maps.to_bertviz()), model_view(**maps.to_bertviz()). Encoder-decoder form; of a
        language model, that of self-attention. Decoder tokens are those that it reads. bertviz wants as many layers and heads on
        each side: the side with fewer repeats its own. Tensors of PyTorch, which bertviz needs."""
        import torch

        arrays = {kind: getattr(self, kind) for kind in KINDS if getattr(self, kind) is not None}
        depth, heads = (numpy.arange(max(array.shape[axis] for array in arrays.values())) for axis in (0, 1))
        layers = {kind: [torch.from_numpy(layer[None].copy()) for layer in array[depth % len(array)][:, heads % array.shape[1]]]
                  for kind, array in arrays.items()}
        if not self.source_tokens:
            return {"attention": layers["decoder"], "tokens": list(self.target_input)}
        return {**{f"{kind}_attention": maps for kind, maps in layers.items()},
                "encoder_tokens": list(self.source_tokens), "decoder_tokens": list(self.target_input)}

    def to_circuitsvis(self, layer: int = 1, kind: str | None = None) -> dict[str, Any]:
        """The arguments of circuitsvis: attention.attention_patterns(**maps.to_circuitsvis()). Self-attention of one layer: kind
        "encoder" or "decoder"; None: that which there is, first of the encoder."""
        kind, array = self._kind(kind or ("encoder" if self.encoder is not None else "decoder"))
        if kind == "cross":
            raise Error("circuitsvis shows self-attention only: kind must be encoder or decoder")
        return {"tokens": list(self._labels(kind)[0]), "attention": array[number(layer, "layer", 1, len(array)) - 1].copy()}
