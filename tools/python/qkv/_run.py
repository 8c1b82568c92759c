"""Runs: training, translating, evaluating and everything else that the commands do with a trained model."""

from __future__ import annotations

import collections.abc
import contextlib
import ctypes
import html
import json
import os
import pathlib
import tempfile
import threading
import warnings
import weakref
from typing import Any, Iterable

import numpy

from . import _declarations as c
from ._library import Error, StrPath, call, command, interruptible, lib, number, options, path, text
from ._maps import Maps, Picture
from ._progress import Progress

Translation = collections.namedtuple("Translation", "text score tokens alignment")
Translation.__doc__ = """A translation: its text; score (log-probability divided by the length penalty); tokens; and alignment, a list of
pairs (source word, target word) from 0. What was not asked for is None."""

BATCHES = 64  # that are translated at a time, as the command does


class UnknownWords(UserWarning):
    """Words that a run does not know and reads as <unk>."""


def _table(rows):
    """Records as a pandas.DataFrame, or as a list of dicts where pandas is not installed."""
    try:
        import pandas
    except ImportError:
        return rows
    return pandas.DataFrame(rows)


def _texts(values, what="the sentences"):
    if isinstance(values, (str, bytes)) or not isinstance(values, collections.abc.Iterable):
        raise TypeError(f"{what} must be a list of strings, not {type(values).__name__}")
    return [text(value, "a sentence") for value in values]


def _setting(value):
    """A value of a config as YAML has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_setting, value))}]"
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


@contextlib.contextmanager
def _read_config(config, overrides):
    """A config that is read from a file, with keys that replace those of the file."""
    if overrides is not None and not isinstance(overrides, dict):
        raise TypeError("the overrides must be a dict, such as {'training.updates': 2000}")
    settings = [text(f"{key}={_setting(value)}", "an override") for key, value in (overrides or {}).items()]
    result, arena, messages = c.qkv_config(), c.qkv_arena(), c.qkv_messages()
    try:
        if lib.config_read(result, arena, path(config, "the config"), (ctypes.c_char_p * len(settings))(*settings), len(settings), messages):
            raise Error("\n".join(message.decode(errors="replace") for message in messages.text[: messages.count]))
        yield result
    finally:
        lib.arena_release(arena)


def _opened(folder, checkpoint, dtype=0):
    run = c.qkv_run()
    call("run_open", run, folder, checkpoint, dtype)
    return run


def train(config: StrPath, overrides: dict[str, Any] | None = None, *, resume: bool = False, overwrite: bool = False, threads: int = 0,
          progress: bool = True) -> Run:
    """Trains the model of a config (a path; shipped ones are found everywhere: "configs/toy_en_es.yaml") and opens its run.

    `overrides` replace keys: {"training.updates": 2000, "training.model_dir": "runs/mine"}. Ctrl-C saves the run, which
    train(..., resume=True) continues. `overwrite` replaces an existing run. `threads`: 0 means all."""
    bar = Progress(progress)
    state: dict[str, Any] = {"stop": False, "line": "", "dev": "", "notices": []}
    kinds = c.fields(c.qkv_train_listener)

    def show(_, pointer):
        now = pointer.contents
        state["done"] = now.update / max(now.updates, 1)
        left = f"  {now.seconds_left:.0f} s left" if now.seconds_left == now.seconds_left else ""
        state["line"] = f"update {now.update}  loss {now.loss:.4f}{left}"

    def validated(_, pointer):
        value = pointer.contents.scores.value
        state["dev"] = f"  dev: loss {value[c.ENUMS['QKV_METRIC_LOSS']]:.4f}  BLEU {value[c.ENUMS['QKV_METRIC_BLEU']]:.2f}"

    listener = c.qkv_train_listener(
        stop=kinds["stop"](lambda _: state["stop"]), progress=kinds["progress"](show), validation=kinds["validation"](validated),
        notice=kinds["notice"](lambda _, sentence: state["notices"].append(sentence.decode(errors="replace"))))
    given = c.qkv_train_options(resume=bool(resume), overwrite=bool(overwrite), threads=number(threads, "threads", 0, 1024),
                                listener=ctypes.pointer(listener))
    result = c.qkv_train_result()
    with _read_config(config, overrides) as read:
        folder = read.training.model_dir.decode()
        try:
            interruptible(lambda: call("train", read, given, result), lambda: bar.show(state["line"] + state["dev"], state.get("done", 0)),
                          lambda: state.update(stop=True) or "done" in state)
        finally:
            bar.end()
    for sentence in state["notices"]:
        warnings.warn(sentence, stacklevel=2)
    bar.show(f"{folder}: {result.updates} updates" + (f", best {result.best:.4g} at update {result.best_update}" if result.validated else ""), 1)
    bar.end()
    if result.end == c.ENUMS["QKV_TRAIN_STOPPED"]:
        warnings.warn(f"{folder}: training was stopped after {result.updates} updates; resume=True continues it", stacklevel=2)
    return Run(folder)


def open(folder: StrPath, checkpoint: str | None = None, *, threads: int = 0) -> Run:
    """Opens a run folder. `checkpoint`: a name such as "last" or "snapshot-0"; None: the best. `threads`: 0 means all."""
    return Run(folder, checkpoint, threads=threads)


def init(pairs: StrPath, target: StrPath | None = None, **named: object) -> str:
    """Makes a config for your sentence pairs, as `qkv init` does; options by name: minutes=20, columns="2,1", output="mine.yaml".
    Prints what the command reports and returns the path of the config."""
    found = command("init", *options(named), "--", *([pairs] if target is None else [pairs, target]))
    print(found, end="")
    return str(named.get("output") or next(word for word in found.replace(",", " ").split() if word.endswith(".yaml")))


def _release(run, handles):
    lib.translator_free(handles.get("translator"))
    lib.workers_free(handles.get("workers"))
    lib.run_release(run)


class Parameters(collections.abc.Mapping):
    """The parameters of a run by name."""

    def __init__(self, run):
        self._run = run

    def _list(self):
        self._run._check()
        parameters = self._run._run.model.contents.parameters
        return parameters, {one.contents.name.decode(): one.contents for one in parameters.list[: parameters.count]}

    def __getitem__(self, name: str) -> numpy.ndarray:
        parameters, found = self._list()
        one = found[name]
        values = numpy.empty(tuple(one.shape.size[: one.shape.rank]), "float32")
        ctypes.memmove(values.ctypes.data, parameters.values + 4 * one.offset, values.nbytes)
        return values

    def __iter__(self):
        return iter(self._list()[1])

    def __len__(self):
        return len(self._list()[1])


class Run:
    """A trained model. Several threads may call the same run: its calls wait for each other. `with qkv.open(...) as run` or
    close() frees its memory, else Python does."""

    def __init__(self, folder: StrPath, checkpoint: str | None = None, *, threads: int = 0):
        self.path = os.fspath(folder) if isinstance(folder, os.PathLike) else folder
        name = None if checkpoint is None else text(checkpoint, "the checkpoint")
        self._lock, self._closed = threading.RLock(), False
        threads = number(threads, "threads", 0, 1024)
        self._run = _opened(text(self.path, "the folder"), name)
        self._handles: dict[str, Any] = {}
        self._finalizer = weakref.finalize(self, _release, self._run, self._handles)
        self._finalizer.atexit = False  # another thread may still use it
        self._workers = self._handles["workers"] = call("workers_new", threads)

    @property
    def parameters(self) -> Parameters:
        """The parameters by name, as copies: run.parameters["encoder.1.self.query.weight"]."""
        return Parameters(self)

    def close(self) -> None:
        """Frees the memory; later calls raise qkv.Error."""
        with self._lock:
            self._closed = True
            self._finalizer()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        return f"<qkv.Run {self.path}{', closed' if self._closed else ''}>"

    def _check(self):
        if self._closed:
            raise Error(f"{self.path}: the run is closed")

    @contextlib.contextmanager
    def _use(self):
        with self._lock:
            self._check()
            yield self._run

    def _call(self, work):
        """Calls work() while no other thread uses the run; Ctrl-C stops it."""
        def locked():
            with self._use():
                return work()

        return interruptible(locked)

    @property
    def is_language_model(self) -> bool:
        """Whether the run completes texts instead of translating them."""
        self._check()
        return not self._run.sides.has_source

    @property
    def source_vocabulary(self) -> list[str]:
        """The tokens that the encoder knows, by id."""
        return self._vocabulary(self._run.source)

    @property
    def target_vocabulary(self) -> list[str]:
        """The tokens that the decoder knows, by id."""
        return self._vocabulary(self._run.target)

    def _vocabulary(self, vocabulary):
        with self._use():
            return [lib.vocabulary_token(vocabulary, i).decode() for i in range(vocabulary.size)]

    def _require(self, translator):
        if translator == self.is_language_model:
            raise Error(f"{self.path}: is a language model, which does not translate" if translator else
                        f"{self.path}: is a translator, which does not continue a text: use translate")

    # ---- texts to ids ----

    def _encode(self, sentence, line, is_target, unknown):
        """Encodes a line into a struct qkv_sentence; adds the words that the run does not know to a list."""
        side = self._run.config.data.trg if is_target else self._run.config.data.src
        vocabulary = self._run.target if is_target else self._run.source
        call("sentence_encode", sentence, side, vocabulary, line, len(line))
        if sentence.unknown:
            unknown += [sentence.tokens.token[i].decode() for i in range(sentence.tokens.count) if sentence.ids[i] == 0]

    @staticmethod
    def _warn(unknown):
        if unknown:
            words = list(dict.fromkeys(unknown))
            named = ", ".join(f"'{word}'" for word in words[:5]) + (", ..." if len(words) > 5 else "")
            warnings.warn(f"the run does not know and reads as <unk>: {named}", UnknownWords, stacklevel=3)

    def _detokenized(self, count, tokens, arena):
        line = lib.detokenize(self._run.config.data.trg, count, tokens, arena)
        if line is None:
            raise MemoryError
        return line.decode()

    def _search_options(self, beam, n_best, sampling):
        search = lib.search_options_from_config(self._run.config.testing)
        if beam:
            search.beam_size = number(beam, "beam", 1, 2**31)
        search.n_best = number(n_best, "n_best", 1, 2**31)
        search.sampling = _sampling(sampling)
        return search

    def translate(self, sentences: str | Iterable[str], *, beam: int = 0, n_best: int = 1, scores: bool = False, tokens: bool = False,
                  alignment: bool = False, sample: dict[str, Any] | None = None) -> Any:
        """Translates a list of sentences into a list of texts, or one string into a text. A line without words gives "".

        `beam`: hypotheses of the search (0: as the config says). `n_best` > 1: a list of the best ones for each sentence.
        `scores`, `tokens`, `alignment`: translations become tuples Translation(text, score, tokens, alignment).
        `sample`: dict of temperature, top_k, top_p, seed: draws instead of searching."""
        one = isinstance(sentences, str)
        lines = _texts([sentences] if one else sentences)
        with self._use():
            self._require(translator=True)
            search = self._search_options(beam, n_best, sample)
            search.skip_scores = not scores and n_best == 1
            if "translator" not in self._handles:
                self._handles["translator"] = call("translator_new", self._run.model, self._workers)
        block = BATCHES * self._run.config.testing.batch_size
        unknown: list[str] = []
        found = self._call(lambda: [best for first in range(0, len(lines), block)
                                    for best in self._translate(lines[first : first + block], first, search, unknown, alignment)])
        self._warn(unknown)
        is_plain = not (scores or tokens or alignment)
        found = [[best.text if is_plain else best._replace(score=best.score if scores else None, tokens=best.tokens if tokens else None)
                  for best in translations] for translations in found]
        found = [translations[0] if n_best == 1 else translations for translations in found]
        return found[0] if one else found

    def _translate(self, lines, first, search, unknown, alignment):
        """A list of the translations of each line of a block."""
        count, arena, best = len(lines), c.qkv_arena(), ctypes.POINTER(c.qkv_hypothesis)()
        sentences = (c.qkv_sentence * count)()
        try:
            for sentence, line in zip(sentences, lines):
                self._encode(sentence, line, False, unknown)
            filled = [i for i in range(count) if sentences[i].tokens.count]
            ids = (c.qkv_ids * len(filled))(*[(sentences[i].tokens.count, sentences[i].ids) for i in filled])
            numbers = (ctypes.c_int64 * len(filled))(*[first + i + 1 for i in filled])
            search.numbers = numbers
            call("translator_run", self._handles["translator"], len(filled), ids, self._run.config.testing.batch_size, search, best)
            found = [[Translation("", 0.0, [], [] if alignment else None)] for _ in lines]
            for k, i in enumerate(filled):
                hypotheses = [h for h in best[k * search.n_best : (k + 1) * search.n_best] if h.ids]
                found[i] = [self._translation(h, arena) for h in hypotheses] or found[i]
            if alignment:
                pairs = [(lines[i], best.text.encode()) for i in range(count) for best in found[i]]
                links = iter(self._links(pairs))
                found = [[best._replace(alignment=next(links)) for best in translations] for translations in found]
            return found
        finally:
            for sentence in sentences:
                lib.sentence_release(sentence)
            lib.arena_release(arena)

    def _translation(self, hypothesis, arena):
        tokens = lib.vocabulary_tokens(self._run.target, hypothesis.length, hypothesis.ids, arena)
        if not tokens:
            raise MemoryError
        return Translation(self._detokenized(hypothesis.length, tokens, arena), hypothesis.score,
                           [token.decode() for token in tokens[: hypothesis.length]], None)

    def attention(self, sentence: str, target: str | None = None, *, beam: int = 0, words: bool = False) -> Maps:
        """The attention of every layer and head, as Maps: while the run translates a sentence, or reads a given translation
        `target`; of a language model, while it reads the sentence. `words`: merges the pieces of a word."""
        unknown: list[str] = []
        line, forced = text(sentence, "the sentence"), None if target is None else text(target, "the target")
        maps = self._call(lambda: self._collect(line, forced, beam, words, unknown))
        self._warn(unknown)
        return maps

    def _collect(self, line, forced, beam, words, unknown):
        is_model = self.is_language_model
        if is_model and (forced is not None or beam):
            raise Error(f"{self.path}: is a language model, which does not translate: leave out target and beam")
        source, target, arena = c.qkv_sentence(), c.qkv_sentence(), c.qkv_arena()
        collector, translator = None, None
        pair, report, merged = c.qkv_attention_pair(), c.qkv_attention_report(), c.qkv_attention_words()
        try:
            if not is_model:
                self._encode(source, line, False, unknown)
                pair.source, pair.source_tokens = c.qkv_ids(source.tokens.count, source.ids), source.tokens.token
                merged.source = source.tokens.word
            if is_model or forced is not None:
                self._encode(target, line if is_model else forced, True, unknown)
                pair.target, pair.target_tokens = c.qkv_ids(target.tokens.count, target.ids), target.tokens.token
                merged.target = target.tokens.word
                if self._run.sides.runs_on:
                    pair.before = ctypes.pointer(ctypes.c_int32(c.ENUMS["QKV_END"]))
            if not (pair.target if is_model else pair.source).length or (forced is not None and not target.tokens.count):
                raise Error("the sentence has no words")
            if not is_model and forced is None:
                translator = call("translator_new", self._run.model, self._workers)
                best = ctypes.POINTER(c.qkv_hypothesis)()
                call("translator_run", translator, 1, pair.source, 1, self._search_options(beam, 1, None), best)
                pair.target, pair.unfinished = c.qkv_ids(best[0].length, best[0].ids), not best[0].finished
                pair.target_tokens = lib.vocabulary_tokens(self._run.target, best[0].length, best[0].ids, arena)
                merged.target = lib.token_words(self._run.config.data.trg, best[0].length, pair.target_tokens, arena)
            collector = call("attention_collector_new", self._run.model)
            call("attention_collect", collector, 1, pair, 0, report)
            if words:
                call("attention_merge_words", report, merged, arena, report)
            return Maps._of(report, line.decode())
        finally:
            lib.attention_collector_free(collector)
            lib.translator_free(translator)
            lib.sentence_release(source)
            lib.sentence_release(target)
            lib.arena_release(arena)

    def attribute(self, sentence: str, target: str | None = None, method: str = "erasure", **named: object) -> Maps:
        """How much each word contributed to each word of the output, by a method of `qkv attribute`: `cross` has the source, `decoder`
        the words before. Options by name: steps=100, words=True."""
        self._check()
        given = options({**named, "target": target, "method": method})
        found = json.loads(command("attribute", "--quiet", "--format=json", *given, "--", self.path, sentence))
        return Maps(**{one["kind"]: one["weights"] for one in found["maps"]}, source_tokens=found["source"],
                    target_tokens=found["target_output"], target_input=found["target_input"], sentence=sentence)

    def align(self, pairs: Iterable, target: Iterable[str] | None = None, *, layer: int = 0, head: int = 0, threshold: float = 0.0,
              reverse: Run | None = None) -> list[list[tuple[int, int]]]:
        """Links between the words of sentence pairs: [("the cat", "el gato"), ...], or two lists. For each pair a list of
        (source word, target word), from 0. `reverse`: a Run in the other direction, which makes links better."""
        if target is not None:
            pairs = list(zip(_texts(pairs), _texts(target, "the targets")))
        else:
            pairs = [tuple(_texts(pair, "a pair")) for pair in pairs]
        if any(len(pair) != 2 for pair in pairs):
            raise Error("a pair must have a source and a target")
        if reverse is not None and not isinstance(reverse, Run):
            raise TypeError("reverse must be a qkv.Run")
        self._require(translator=True)
        layer, head = number(layer, "layer", 0, 1000), number(head, "head", 0, 1000)
        return self._call(lambda: self._links(pairs, layer, head, float(threshold), reverse))

    def _links(self, pairs, layer=0, head=0, threshold=0.0, reverse=None):
        arena, linked = c.qkv_arena(), (c.qkv_linked_texts * len(pairs))(*[c.qkv_linked_texts(*pair) for pair in pairs])
        given = c.qkv_links_options(layer=layer, head=head, threshold=threshold, workers=self._workers,
                                    reverse=ctypes.pointer(reverse._run) if reverse else None)
        try:
            with reverse._use() if reverse else contextlib.nullcontext():
                call("links_draw", self._run, len(pairs), linked, given, arena)
            return [[tuple(map(int, link.split(b"-"))) for link in pair.links.split()] for pair in linked]
        finally:
            lib.arena_release(arena)

    def complete(self, beginning: str = "", *, max_length: int = 500, sample: dict[str, Any] | None = None, n: int = 1) -> str | list[str]:
        """What a language model writes after a text, the text included. `sample`: dict of temperature, top_k, top_p, seed;
        None: the most probable token each time. `n` > 1: a list of samples."""
        lines = text(beginning, "the text").split(b"\n")
        n, max_length = number(n, "n", 1, 1000), number(max_length, "max_length", 1, 10**6)
        if n > 1 and sample is None:
            raise Error("n above 1 needs sample: without, all texts are the same")
        self._require(translator=False)
        texts = self._call(lambda: [self._complete(lines, i, max_length, _sampling(sample)) for i in range(n)])
        return texts if n > 1 else texts[0]

    def _complete(self, lines, index, max_length, sampling):
        """One text: lines of tokens, which </s> ends."""
        runs_on = self._run.sides.runs_on
        if len(lines) > 1 and not runs_on:
            raise Error("the text has several lines, but the model was trained on single ones")
        sentence, arena, unknown, ids, rows = c.qkv_sentence(), c.qkv_arena(), [], [], [[]]

        def add(_, token):
            rows.append([]) if token == c.ENUMS["QKV_END"] else rows[-1].append(lib.vocabulary_token(self._run.target, token))

        try:
            for i, line in enumerate(lines):
                if i:
                    rows.append([])
                    ids.append(c.ENUMS["QKV_END"])
                self._encode(sentence, line, True, unknown)
                ids += sentence.ids[: sentence.tokens.count]
                rows[-1] += sentence.tokens.token[: sentence.tokens.count]

            given = c.qkv_completion(model=self._run.model, runs_on=runs_on, window=self._run.config.data.context, max_length=max_length,
                                     sampling=sampling, number=index, token=c.fields(c.qkv_completion)["token"](add))
            call("complete", given, c.qkv_ids(len(ids), (ctypes.c_int32 * len(ids))(*ids)))
            self._warn(unknown)
            return "\n".join(self._detokenized(len(row), (ctypes.c_char_p * len(row))(*row), arena) for row in rows)
        finally:
            lib.sentence_release(sentence)
            lib.arena_release(arena)

    # ---- measures ----

    def evaluate(self, test: StrPath | None = None, *, beam: int = 0, translation: bool = True) -> dict[str, float]:
        """Scores the run on a file of pairs (default: data.test of its config); a dict of loss, perplexity, token_accuracy,
        sequence_accuracy, bleu, chrf, and the counts. Without `translation`: only what needs no translations."""
        name = None if test is None else path(test, "the test text")
        return self._call(lambda: self._evaluate(name, beam, translation and not self.is_language_model))

    def _evaluate(self, test, beam, translation):
        run, corpus, evaluator, scores = self._run, c.qkv_corpus(), None, c.qkv_scores()
        test, testing = test or run.config.data.test, c.qkv_testing_config.from_buffer_copy(run.config.testing)
        if not test:
            raise Error(f"{self.path}/config.yaml: data.test is empty: set it, or name a text")
        testing.beam_size = number(beam, "beam", 0, 2**31) or testing.beam_size
        try:
            call("corpus_read", corpus, test, run.config.data, c.qkv_corpus_options(keep_raw=True))
            call("corpus_encode", corpus, run.source, run.target)
            evaluator = call("evaluator_new", run.model, corpus, run.config.data.trg, run.target, self._workers, testing)
            call("evaluator_run" if translation else "evaluator_run_references", evaluator, scores)
            found = {"sentences": scores.counts.sentences, "tokens": scores.counts.tokens}
            for metric in range(c.ENUMS["QKV_METRIC_COUNT"]):
                info = lib.metric_info(metric).contents
                if not info.on_request and (translation or not info.of_texts) and scores.value[metric] == scores.value[metric]:
                    found[info.key.decode()] = scores.value[metric]
            return found
        finally:
            lib.evaluator_free(evaluator)
            lib.corpus_release(corpus)

    def score(self, pairs: Iterable[tuple[str, str]], **named: object) -> dict[str, Any]:
        """Translates the sources of pairs (source, reference) and scores the translations with `qkv score`; options by name:
        metrics="bleu,chrf,ter", confidence=True. Returns its JSON object as a dict."""
        given = [tuple(pair) for pair in pairs]
        if any(len(pair) != 2 or "\n" in "".join(pair) for pair in given):
            raise Error("a pair must be a source and a reference, each of one line")
        translations = self.translate([source for source, _ in given])
        with tempfile.TemporaryDirectory() as folder:
            files = [pathlib.Path(folder, name) for name in ("translations", "references")]
            for file, lines in zip(files, (translations, [reference for _, reference in given])):
                file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            return json.loads(command("score", *files, "--json", *options(named)))

    def heads(self, pairs: StrPath | None = None, **named: object) -> Any:
        """Measures every head on a file of pairs (default: data.test), as `qkv heads` does; options by name: norms=True,
        no_translation=True, links="test.align". A table with a row for each head."""
        self._check()
        test = (self._run.config.data.test if pairs is None else path(pairs, "the pairs")).decode()
        return _table(json.loads(command("heads", self.path, test, "--format=json", *options(named)))["heads"])

    @property
    def metrics(self) -> Any:
        """The log of training (metrics.jsonl): a table with a row for each logged update and each validation."""
        self._check()
        return _table([json.loads(line) for line in pathlib.Path(self.path, "metrics.jsonl").read_text(encoding="utf-8").splitlines()])

    # ---- pictures ----

    def _made(self, what, name, named, file=None):
        """The text of the file that a command makes of the run."""
        self._check()
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(file or pathlib.Path(folder, name))
            command(what, self.path, "-o", output, *options(named))
            return output.read_text(encoding="utf-8")

    def page(self, file: StrPath | None = None, *, height: int = 760, **named: object) -> Picture:
        """The live page of the run, shown in a notebook; needs no network. `file`: also writes it there. Options of `qkv page` by
        name: sentence="the cat is sleeping"."""
        page = html.escape(self._made("page", "page.html", named, file), quote=True)
        return Picture(f'<iframe srcdoc="{page}" style="width:100%;height:{int(height)}px;border:0"></iframe>', "text/html")

    def plot(self, **named: object) -> Picture:
        """The curves of training as a picture (`qkv plot`)."""
        return Picture(self._made("plot", "curves.svg", named))


def _sampling(values):
    if values is None:
        return c.qkv_sampling_options()
    known = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "seed": 42}
    if not isinstance(values, dict) or set(values) - set(known):
        raise TypeError(f"sample must be a dict of {', '.join(known)}")
    known.update(values)
    return c.qkv_sampling_options(enabled=True, temperature=float(known["temperature"]), top_k=number(known["top_k"], "top_k", 0),
                                  top_p=float(known["top_p"]), seed=number(known["seed"], "seed", 0))
