"""Tests of the installed Python package; tests/python/run.sh installs it first. The fuzz and the memory test make 10,000 calls."""

import _thread
import ctypes
import gc
import html.parser
import inspect
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
import warnings

import numpy
import qkv
from qkv import _declarations as declarations

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background has it ignored, which Ctrl-C tests would wait for
FOLDER = pathlib.Path(tempfile.mkdtemp())
CALLS = int(os.environ.get("QKV_PYTHON_CALLS", 10000))
CONFIG = "configs/toy_en_es.yaml"
SENTENCES = ["the red house is not small", "", "the cat sleeps", "a zebra runs", "the tall woman gives the flowers to her friends"]


def trained(name, updates=60):
    """A run that has learned a little."""
    warnings.simplefilter("ignore")
    return qkv.train(CONFIG, {"training.updates": updates, "training.validation_freq": updates, "training.model_dir": FOLDER / name},
                     overwrite=True)


def memory():
    """Resident memory in kB."""
    gc.collect()
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * (os.sysconf("SC_PAGE_SIZE") // 1024)


def setUpModule():
    global run, language_model
    run = trained("run")
    (FOLDER / "text.txt").write_text("".join(f"the cat number {i} sleeps on the mat.\n" for i in range(600)))
    (FOLDER / "text.yaml").write_text(
        "name: text\ndata: {text: running, context: 32, train: text.txt, dev_share: 0.1, trg: {lang: en, level: char}}\n"
        "model: {decoder: {type: decoder_only, num_layers: 1, num_heads: 2, hidden_size: 16, ff_size: 32}}\n"
        "training: {updates: 20, batch_size: 8, model_dir: text_run}\n")
    language_model = qkv.train(FOLDER / "text.yaml", {"training.model_dir": FOLDER / "text_run"}, overwrite=True)


def tearDownModule():
    run.close()  # Python leaves what is open at its end to the system
    language_model.close()
    shutil.rmtree(FOLDER)
    gc.collect()


class Binding(unittest.TestCase):
    @unittest.skipUnless(shutil.which("cc") and os.environ.get("QKV_SOURCE"), "needs a C compiler and the headers")
    def test_structs_and_enums_are_those_of_the_headers(self):
        lines, expected = [], []
        for struct in declarations.STRUCTS:
            if struct.__name__[-1].isdigit():
                continue  # a struct without a name
            lines.append(f'printf("%zu", sizeof(struct {struct.__name__}));')
            for field, _ in struct._fields_:
                lines.append(f'printf(" %zu", offsetof(struct {struct.__name__}, {field}));')
            lines.append('puts("");')
            expected.append(" ".join(map(str, [ctypes.sizeof(struct), *[getattr(struct, field).offset for field, _ in struct._fields_]])))
        for name, value in declarations.ENUMS.items():
            lines.append(f'printf("%lld\\n", (long long){name});')
            expected.append(str(value))
        source = pathlib.Path(os.environ["QKV_SOURCE"])
        (FOLDER / "layout.c").write_text("#include <qkv/qkv.h>\nint main(void)\n{\n" + "\n".join(lines) + "\nreturn 0;\n}\n")
        folders = [source / "framework" / part / "include" for part in ("engine", "translator")] + [os.environ["QKV_BUILT_HEADERS"]]
        subprocess.run(["cc", "-o", FOLDER / "layout", FOLDER / "layout.c", *[f"-I{folder}" for folder in folders]], check=True)
        found = subprocess.run([FOLDER / "layout"], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
        self.assertGreater(len(expected), 400)
        for line, wanted in zip(found, expected, strict=True):
            self.assertEqual(line, wanted)


class Results(unittest.TestCase):
    """Each function against the output of the command."""

    def test_translations(self):
        lines = "".join(f"{sentence}\n" for sentence in SENTENCES)
        self.assertEqual(run.translate(SENTENCES), qkv.command("translate", "-q", run.path, stdin=lines).splitlines())
        printed = [line.split("\t") for line in qkv.command("translate", "-q", run.path, "--beam=3", "--n-best=2", "--scores",
                                                           stdin=lines).splitlines()]
        found = [(str(i + 1), f"{best.score:.6f}", best.text) for i, n_best in enumerate(run.translate(SENTENCES, beam=3, n_best=2, scores=True))
                 for best in n_best]
        self.assertEqual(found, [tuple(line) for line in printed])
        sampled = qkv.command("translate", "-q", run.path, "--sample", "--seed=7", "--temperature=0.8", stdin=lines).splitlines()
        self.assertEqual(run.translate(SENTENCES, sample={"seed": 7, "temperature": 0.8}), sampled)
        self.assertEqual(run.translate(SENTENCES[0]), run.translate(SENTENCES)[0])

    def test_unknown_words_are_named(self):
        with self.assertWarnsRegex(qkv.UnknownWords, "zebra"):
            run.translate("the zebra")

    def test_attention(self):
        printed = json.loads(qkv.command("attention", "-q", run.path, SENTENCES[0], "--format=json"))
        maps = run.attention(SENTENCES[0])
        self.assertEqual(maps.source_tokens, printed["source"])
        self.assertEqual(maps.target_tokens, printed["target_output"])
        self.assertEqual(maps.target_input, printed["target_input"])
        self.assertEqual(len(printed["maps"]), sum(array.shape[0] * array.shape[1] for array in (maps.encoder, maps.decoder, maps.cross)))
        for one in printed["maps"]:
            array = getattr(maps, one["kind"])[one["layer"] - 1, one["head"] - 1]
            numpy.testing.assert_array_equal(array, numpy.array(one["weights"], "float32"))
        printed = json.loads(qkv.command("attribute", "-q", run.path, "the cat", "-t", "el gato", "-f", "json", "-m", "gradient"))
        found = run.attribute("the cat", target="el gato", method="gradient")
        self.assertEqual((found.cross.shape, found.decoder.shape), ((1, 1, 3, 3), (1, 1, 3, 3)))
        numpy.testing.assert_allclose(found.cross[0, 0], next(one["weights"] for one in printed["maps"] if one["kind"] == "cross"), 1e-6)
        self.assertIn("<svg", found._repr_html_())
        self.assertRaises(qkv.Error, run.attribute, "the cat", method="magic")
        forced = run.attention("the cat", target="el gato")
        self.assertEqual(forced.target_tokens, ["el", "gato", "</s>"])
        self.assertEqual(forced.cross.dtype, "float32")

    def test_evaluation_alignment_and_score(self):
        printed = json.loads(qkv.command("evaluate", run.path, "--json"))
        for name, value in run.evaluate().items():
            self.assertAlmostEqual(value, printed[name], msg=name)
        pairs = [("the cat sleeps", "el gato duerme"), ("the red house", "la casa roja")]
        links = qkv.command("align", run.path, "-", stdin="".join("\t".join(pair) + "\n" for pair in pairs)).splitlines()
        found = [" ".join(f"{source}-{target}" for source, target in of_pair) for of_pair in run.align(pairs)]
        self.assertEqual(found, links)
        self.assertEqual(run.translate(["the cat sleeps"], alignment=True)[0].alignment,
                         run.align([("the cat sleeps", run.translate("the cat sleeps"))])[0])
        self.assertIn("bleu", run.score(pairs))

    def test_completion(self):
        self.assertEqual(language_model.complete("the cat", max_length=20) + "\n",
                         qkv.command("complete", "-q", language_model.path, "the cat", "--max-length=20"))
        sampled = language_model.complete("a", max_length=9, sample={"seed": 3}, n=2)
        self.assertEqual("\n---\n".join(sampled) + "\n", qkv.command("complete", "-q", language_model.path, "a", "--max-length=9", "--sample",
                                                                   "--seed=3", "--n=2"))
        maps = language_model.attention("the cat")
        self.assertIsNone(maps.cross)
        self.assertIsNone(maps.encoder)
        self.assertEqual(maps.decoder.shape[:2], (1, 2))
        told = json.loads(qkv.command("attention", language_model.path, "the cat", "-q", "-f", "json"))
        self.assertEqual(maps.target_input, told["target_input"])
        numpy.testing.assert_array_equal(maps.decoder[0, 1], told["maps"][1]["weights"])

    def test_gradients(self):
        for what in ("softmax", CONFIG, run.path):
            self.assertTrue(qkv.gradcheck(what, sample=1).passed)
        graph = qkv.Graph()
        x, weight = graph.variable(numpy.arange(6.0).reshape(2, 3)), graph.variable(numpy.ones((3, 2)))
        y = graph.tanh(x @ weight * 0.1)
        y.backward()
        inner = numpy.tanh(x.value @ weight.value * 0.1)
        numpy.testing.assert_allclose(y.value, inner, rtol=1e-12)
        numpy.testing.assert_allclose(weight.gradient, x.value.T @ ((1 - inner**2) * 0.1), rtol=1e-12)
        self.assertTrue(qkv.gradcheck(lambda graph, x: graph.softmax(x), numpy.random.default_rng(0).normal(size=(3, 5))).passed)
        wrong = qkv.gradcheck(lambda graph, x: graph.multiply(x, graph.detach(x)), [1.0, 2.0])
        self.assertFalse(wrong.passed)
        self.assertIn("FAILED", repr(wrong))

    def test_parameters_and_metrics(self):
        weight = run.parameters["encoder.1.self.query.weight"]
        self.assertEqual(weight.shape, (64, 64))
        weight[:] = 0  # a copy
        self.assertTrue(run.parameters["encoder.1.self.query.weight"].any())
        self.assertTrue(len(run.metrics))
        self.assertEqual(run.source_vocabulary[:3], ["<unk>", "<s>", "</s>"])
        with self.assertRaisesRegex(qkv.Error, "must be"):
            qkv.Maps(cross=numpy.ones((2, 3)), source_tokens="abc", target_tokens="abc")


class Words(html.parser.HTMLParser):
    found, tags = "", ()

    def handle_starttag(self, tag, attributes):
        self.tags += ((tag, dict(attributes)),)

    def handle_data(self, data):
        self.found += data + " "


class Pictures(unittest.TestCase):
    def test_html_is_self_contained(self):
        words = Words()
        maps = run.attention("the cat sleeps")
        text = maps._repr_html_()
        words.feed(text)
        for word in maps.source_tokens + maps.target_tokens:
            self.assertIn(word, words.found)
        self.assertEqual(sum(tag == "svg" for tag, _ in words.tags), 12)
        for tag, attributes in words.tags:
            self.assertNotIn(tag, ("script", "link", "img", "style"))
            self.assertFalse({"id", "class", "href", "src"} & set(attributes))
        self.assertNotIn("http", text)
        hostile = qkv.Maps(decoder=[[1]], target_tokens=["<script>"], sentence="<script>")
        self.assertNotIn("<script", hostile._repr_html_())

    def test_plots(self):
        picture = run.attention("the cat sleeps").plot(layer=1, head=1, file=FOLDER / "map.svg")
        self.assertIn("cross attention, layer 1, head 1", picture.content)
        self.assertIn("<svg", (FOLDER / "map.svg").read_text())
        self.assertIn("image/svg+xml", picture._repr_mimebundle_())
        self.assertIn("<svg", run.plot().content)

    def test_other_packages(self):
        try:
            import bertviz, circuitsvis, torch
        except ImportError as error:
            self.skipTest(str(error))
        maps = run.attention("the cat sleeps")
        for view in (bertviz.head_view, bertviz.model_view):
            self.assertIn("gato", view(**maps.to_bertviz(), html_action="return").data + "gato" * (view is None))
        self.assertTrue(str(circuitsvis.attention.attention_patterns(**maps.to_circuitsvis(layer=1))))
        model = language_model.attention("the cat").to_bertviz()
        self.assertTrue(bertviz.head_view(**model, html_action="return").data)


class Life(unittest.TestCase):
    """Deleted runs, closed runs, threads, Ctrl-C and memory."""

    def test_closed_and_deleted_runs(self):
        other = trained("other", 2)
        maps, parameters = other.attention("the cat"), other.parameters
        before = maps.cross.copy()
        shutil.rmtree(other.path)
        other.translate(["the cat"])  # is in memory
        with self.assertRaisesRegex(qkv.Error, "there is no such run"):
            qkv.open(other.path)
        other.close()
        other.close()
        for work in (lambda: other.translate(["a"]), lambda: other.evaluate(), lambda: parameters["x"], lambda: other.metrics, lambda: other.page()):
            with self.assertRaisesRegex(qkv.Error, "is closed"):
                work()
        del other, parameters
        gc.collect()
        numpy.testing.assert_array_equal(before, maps.cross)
        graph = qkv.Graph()
        x = graph.variable([1.0])
        graph.close()
        for work in (lambda: x.value, lambda: x.gradient, lambda: x.shape, lambda: x + x, x.backward):
            with self.assertRaisesRegex(qkv.Error, "closed"):
                work()

    def test_wrong_arguments(self):
        for work, kind in (
            (lambda: qkv.open(3), TypeError), (lambda: qkv.open("/nothing"), qkv.Error), (lambda: run.translate(3), TypeError),
            (lambda: run.translate([b"a"]), TypeError), (lambda: run.translate(["\0"]), qkv.Error), (lambda: run.translate("\udcff"), qkv.Error),
            (lambda: run.translate(["a"], beam=2.5), TypeError), (lambda: run.translate(["a"], beam=10**30), qkv.Error),
            (lambda: run.complete("a"), qkv.Error), (lambda: language_model.translate(["a"]), qkv.Error), (lambda: run.attention(" "), qkv.Error),
            (lambda: qkv.train("nothing.yaml"), qkv.Error), (lambda: qkv.train(CONFIG, {"training.updatse": 1}), qkv.Error),
            (lambda: run.evaluate("/nothing.tsv"), qkv.Error), (lambda: qkv.gradcheck("/nothing"), qkv.Error),
            (lambda: qkv.Graph("float16"), qkv.Error), (lambda: qkv.Graph().relu("a"), TypeError), (lambda: qkv.Graph().relu(), TypeError),
            (lambda: qkv.Graph().cross_entropy(numpy.ones((3, 4)), [0]), qkv.Error),
            (lambda: qkv.Graph().add_positions(numpy.ones((4, 2)), numpy.ones((9, 2)), segments=[1, 3], first=[2]), qkv.Error),
            (lambda: qkv.Graph().matmul(numpy.ones((2, 3)), numpy.ones((2, 3))), qkv.Error), (lambda: run.parameters["x"], KeyError)):
            with self.assertRaises(kind):
                work()

    def test_threads(self):
        expected, second, failures = run.translate(SENTENCES), qkv.open(run.path), []

        def work(one):
            for _ in range(20):
                if one.translate(SENTENCES) != expected or one.attention("the cat").cross is None:
                    failures.append(one)

        threads = [threading.Thread(target=work, args=(one,)) for one in (run, run, second, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertFalse(failures)

    def test_interrupt_keeps_the_run(self):
        code = ("import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"  # a job in the background ignores it
                f"import qkv; qkv.train({CONFIG!r}, {{'training.model_dir': {str(FOLDER / 'stopped')!r}, 'training.updates': 10**6,"
                "'training.validation_freq': 10**6, 'training.logging_freq': 1})")
        process = subprocess.Popen([sys.executable, "-W", "ignore", "-c", code])
        metrics = FOLDER / "stopped" / "metrics.jsonl"
        while process.poll() is None and not (metrics.exists() and metrics.stat().st_size):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(), 0)
        self.assertTrue(qkv.open(FOLDER / "stopped").translate(["the cat"]))

    def test_interrupted_calls_end(self):
        """Ctrl-C while a call is in the library: it fails there, and its thread ends."""
        words = ["the cat"] * 100
        for name, work in (
            ("translator_run", lambda: run.translate(words)), ("attention_collect", lambda: run.attention("the cat")),
            ("links_draw", lambda: run.align(words, words)), ("evaluator_run", run.evaluate), ("complete", lambda: language_model.complete("a")),
            ("check_model", lambda: qkv.gradcheck(CONFIG)), ("check_op", lambda: qkv.gradcheck("softmax")), ("train", lambda: trained("stopped")),
            ("check_graph", lambda: qkv.gradcheck(lambda graph, x: graph.softmax(x), [[1.0, 2.0]]))):
            function, set_interrupt, flags, failed = getattr(qkv._lib, name), qkv._lib.set_interrupt, [], []

            def interrupted(*arguments):
                _thread.interrupt_main()
                while not flags[-1].value:
                    time.sleep(0)  # until the main thread has seen it
                result = function(*arguments)
                failed.append(result != 0)
                return result

            with unittest.mock.patch.multiple(qkv._lib, **{name: interrupted, "set_interrupt": lambda flag: (flags.append(flag), set_interrupt(flag))}):
                with self.assertRaises(KeyboardInterrupt, msg=name):
                    work()
            for thread in set(threading.enumerate()) - {threading.main_thread()}:
                thread.join()  # has no more to do than to end
            self.assertEqual(failed, [name != "attention_collect"], name)
        self.assertEqual(run.translate(["the cat"]), run.translate(["the cat"]))

    def test_interrupted_commands_end(self):
        children = []

        class Child(subprocess.Popen):
            def communicate(self, *_):
                children.append(self)
                raise KeyboardInterrupt  # while the command waits for its input

        with unittest.mock.patch("qkv._library.Popen", Child), self.assertRaises(KeyboardInterrupt):
            qkv.command("translate", run.path)
        self.assertEqual(children[0].returncode, -signal.SIGTERM)

    @unittest.skipIf("LD_PRELOAD" in os.environ, "AddressSanitizer keeps what is freed")
    def test_memory_does_not_grow(self):
        def work(calls):
            for i in range(calls):
                if i % 10 == 0:
                    run.attention("the cat sleeps")
                    graph = qkv.Graph()
                    graph.softmax(graph.variable(numpy.ones((20, 20)))).backward()
                try:
                    run.translate(["the cat sleeps"] if i % 20 else ["\udcff"])
                except qkv.Error:
                    pass

        work(300)
        before = memory()
        work(CALLS)
        self.assertLess(memory() - before, 4000)


class Fuzz(unittest.TestCase):
    def test_random_calls_never_crash(self):
        draw = random.Random(1)
        graph = qkv.Graph()
        closed = qkv.open(run.path)
        closed.close()
        maps = run.attention("the cat")
        texts = ["", "the cat", "a\tb", "x\ny", "\0", "\udcff", "🙂", "the " * 50, "best", "mean", "cross", "softmax", "float32", "/nothing"]
        makers = [
            lambda: None, lambda: draw.choice([True, False]), lambda: draw.choice([-1, 0, 1, 2, 3, 5, -(2**31), 2**40, 2**62, 2**63, -(2**64)]),
            lambda: draw.choice([0.0, -1.5, 1e308, float("nan"), float("inf")]), lambda: draw.choice(texts), lambda: b"bytes", lambda: object(),
            lambda: [value() for _ in range(draw.randrange(4))], lambda: {draw.choice(["heads", "causal", "seed", "x"]): value()},
            lambda: tuple(draw.choice([0, 1, 2, 3, -1]) for _ in range(draw.randrange(5))),
            lambda: numpy.ones([draw.randrange(4) for _ in range(draw.randrange(6))], draw.choice(["float32", "int64", "complex64", "bool"])),
            lambda: numpy.random.default_rng(draw.randrange(99)).normal(size=(draw.randrange(1, 4), draw.randrange(1, 4))),
            lambda: graph.variable(numpy.ones((2, 3))), lambda: qkv.Graph("float32").variable([1.0]),
            lambda: draw.choice([run, closed, maps, graph])]

        def value():
            return draw.choice(makers)()

        calls = [run.translate, run.attention, run.align, language_model.complete, language_model.attention, closed.translate, run.evaluate,
                 run.parameters.__getitem__, maps.plot, maps.to_circuitsvis, qkv.open, qkv.Graph, qkv.gradcheck, closed.score, closed.page]
        happened = {"returned": 0, "raised": 0}
        warnings.simplefilter("ignore")
        for _ in range(CALLS):
            graph = qkv.Graph()
            ops = [getattr(graph, name) for name in [*declarations.OPS, "variable", "constant", "gradcheck"]]
            call = draw.choice(ops if draw.random() < 0.8 else calls)
            names = [name for name in inspect.signature(call).parameters if name not in ("file", "max_length")]
            arguments = {name: value() for name in names if draw.random() < 0.9}
            if call == language_model.complete:
                arguments["max_length"] = 3
            try:
                result = call(**arguments)
                if isinstance(result, qkv.Tensor):
                    draw.choice([result.backward, lambda: result.value, lambda: result.gradient])()
                happened["returned"] += 1
            except Exception:
                happened["raised"] += 1
        self.assertGreater(happened["returned"], CALLS // 100)


if __name__ == "__main__":
    unittest.main()
