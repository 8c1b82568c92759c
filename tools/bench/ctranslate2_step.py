#!/usr/bin/python3
"""Runs the decoding of `qkv-bench` in CTranslate2, with the same sizes and the same work.

    ctranslate2_step.py toy --what "greedy 64" --threads 1 --workers 2 --compute-type int8

Prints JSON (workloads.py). The model is post-norm with relu and random weights; its decoder outputs exactly as many words as the
sentences have. Each of --workers decodes a part of the sentences on --threads. Needs CTranslate2 and NumPy.
"""
import contextlib
import os
import pathlib
import sys
import tempfile

from workloads import DECODING, WORKLOADS, argument_parser, print_times

parser = argument_parser(__doc__, list(DECODING))
parser.add_argument("--workers", type=int, default=1)
parser.add_argument("--compute-type", default="float32", help="float32, int8, ... [%(default)s]")
parser.add_argument("--model", help="folder of the model; it is built there if the folder does not exist")
arguments = parser.parse_args()
os.environ.setdefault("OMP_NUM_THREADS", str(arguments.threads))  # read when the library is loaded

import ctranslate2  # noqa: E402
import numpy  # noqa: E402
from ctranslate2.specs import common_spec, transformer_spec  # noqa: E402

SPECIALS = ["<unk>", "<s>", "</s>"]


class Builder:
    """Fills the parts of a specification with random weights."""

    def __init__(self, size):
        self.size, self.random = size, numpy.random.default_rng(1)

    def matrix(self, rows, columns):
        return self.random.standard_normal((rows, columns), numpy.float32) / numpy.float32(columns ** 0.5)

    def dense(self, part, outputs, inputs):
        part.weight, part.bias = self.matrix(outputs, inputs), numpy.zeros(outputs, numpy.float32)

    def norm(self, part):
        part.gamma, part.beta = numpy.ones(self.size.width, numpy.float32), numpy.zeros(self.size.width, numpy.float32)

    def attention(self, part, outputs):
        """`outputs` are the widths of the products of x, those of the last one included."""
        for dense, width in zip(part.linear, outputs, strict=True):
            self.dense(dense, width, self.size.width)
        self.norm(part.layer_norm)

    def feed_forward(self, part):
        self.dense(part.linear_0, self.size.inner, self.size.width)
        self.dense(part.linear_1, self.size.width, self.size.inner)
        self.norm(part.layer_norm)

    def transformer(self):
        size, d = self.size, self.size.width
        spec = transformer_spec.TransformerSpec.from_config((size.layers, size.layers), size.heads, pre_norm=False,
                                                            activation=common_spec.Activation.RELU)
        for stack, embeddings in ((spec.encoder, spec.encoder.embeddings[0]), (spec.decoder, spec.decoder.embeddings)):
            embeddings.weight = self.matrix(size.words, d)
            stack.scale_embeddings = True
            for layer in stack.layer:
                self.attention(layer.self_attention, (3 * d, d))
                self.feed_forward(layer.ffn)
        for layer in spec.decoder.layer:
            self.attention(layer.attention, (d, 2 * d, d))
        self.dense(spec.decoder.projection, size.words, d)
        return spec


def build(size, folder):
    spec = Builder(size).transformer()
    words = SPECIALS + [f"w{i}" for i in range(size.words - len(SPECIALS))]
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.config.add_source_eos = False  # the sentences have it
    spec.validate()
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))


def random_sentences(size, count):
    ids = numpy.random.default_rng(2).integers(size.words - len(SPECIALS), size=(count, size.tokens - 1))
    return [[f"w{i}" for i in row] + [SPECIALS[2]] for row in ids]


with tempfile.TemporaryDirectory() if not arguments.model else contextlib.nullcontext(arguments.model) as model:
    size, (beam, count) = WORKLOADS[arguments.workload], DECODING[arguments.what]
    if not (pathlib.Path(model) / "model.bin").exists():
        build(size, model)
    try:
        translator = ctranslate2.Translator(str(model), device="cpu", compute_type=arguments.compute_type,
                                            inter_threads=arguments.workers, intra_threads=arguments.threads)
    except ValueError as error:
        sys.exit(f"ctranslate2_step.py: {error}")
    sentences = random_sentences(size, count)

    def step(_):
        return translator.translate_batch(sentences, beam_size=beam, min_decoding_length=size.tokens,
                                          max_decoding_length=size.tokens, max_batch_size=-(-count // arguments.workers))

    lengths = {len(result.hypotheses[0]) for result in step(0)}
    if lengths != {size.tokens}:
        sys.exit(f"ctranslate2_step.py: translations have {lengths} words instead of {size.tokens}")
    print_times(step, arguments.steps, arguments.seconds)
