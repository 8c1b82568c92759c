#!/usr/bin/python3
"""Compares the time of a training step of a stack of LSTM layers, forward and backward, in qkv and in PyTorch.

    cmake --build --preset release && tools/bench/lstm.py [--threads 2] [--library build/release/framework/libqkv.so]

Each program runs in a separate process with its own threads. They run in turn, step by step, so that other load of the
machine affects both. qkv is called through its shared library; with T threads it computes T parts of the batch, as
`qkv train` does, and sums their gradients. Both compute the gradients of the input and of all parameters for a given
gradient of the result. Needs Debian's python3-torch and python3-numpy.
"""
import argparse
import ctypes
import statistics
import subprocess
import sys
import threading
import time

import numpy


class Shape(ctypes.Structure):
    _fields_ = [("rank", ctypes.c_int), ("size", ctypes.c_int64 * 4)]


class Segments(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int64), ("start", ctypes.c_void_p), ("length", ctypes.c_void_p)]


class Initial(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("gain", ctypes.c_double)]


class Parameters(ctypes.Structure):
    """The first fields of struct qkv_parameters; `rest` has room for all others."""
    _fields_ = [("dtype", ctypes.c_int), ("count", ctypes.c_int64), ("room", ctypes.c_int64),
                ("list", ctypes.c_void_p), ("elements", ctypes.c_int64), ("values", ctypes.c_void_p),
                ("rest", ctypes.c_char * 256)]


def shape(*sizes):
    return Shape(len(sizes), (ctypes.c_int64 * 4)(*sizes))


class Qkv:
    def __init__(self, options):
        self.options = options
        self.calls = ctypes.CDLL(options.shared_object)
        for name in ("graph_new", "variable", "graph_parameter", "linear", "lstm", "slice", "parameters_add"):
            getattr(self.calls, "qkv_" + name).restype = ctypes.c_void_p
        self.parameters = Parameters()
        width, self.layers = options.width, []
        for layer in range(options.layers):
            parts = (("input.weight", (width, 4 * width)), ("input.bias", (4 * width,)),
                     ("recurrent.weight", (width, 4 * width)))
            self.layers.append([self.add(layer, name, sizes) for name, sizes in parts])
        error = ctypes.create_string_buffer(4096)
        assert self.calls.qkv_parameters_allocate(ctypes.byref(self.parameters), 0, error) == 0
        self.calls.qkv_parameters_initialize(ctypes.byref(self.parameters), ctypes.c_uint64(1))
        self.parts = [self.part() for _ in range(options.threads)]

    def add(self, layer, name, sizes):
        xavier = Initial(0, 1.0)
        return ctypes.c_void_p(self.calls.qkv_parameters_add(
            ctypes.byref(self.parameters), shape(*sizes), xavier, f"{layer}.{name}".encode()))

    def part(self):
        """Returns the graph, gradients and data of one thread."""
        o, sentences = self.options, self.options.sentences // self.options.threads
        rows = sentences * o.steps
        start = (ctypes.c_int64 * sentences)(*range(0, rows, o.steps))
        length = (ctypes.c_int64 * sentences)(*[o.steps] * sentences)
        gradients = numpy.zeros(self.parameters.elements, numpy.float32)
        graph = ctypes.c_void_p(self.calls.qkv_graph_new(0))
        self.calls.qkv_graph_bind(graph, ctypes.byref(self.parameters),
                                    gradients.ctypes.data_as(ctypes.c_void_p), False)
        generator = numpy.random.default_rng(1)
        return {"graph": graph, "rows": rows, "segments": Segments(sentences, ctypes.addressof(start),
                                                                   ctypes.addressof(length)),
                "gradients": gradients, "kept": (start, length),
                "x": generator.standard_normal(rows * o.width), "dy": generator.standard_normal(rows * o.width)}

    def run(self, part):
        q, graph, width = self.calls, part["graph"], self.options.width
        rows = part["rows"]
        q.qkv_graph_reset(graph)
        x = ctypes.c_void_p(q.qkv_variable(graph, shape(rows, width)))
        q.qkv_tensor_write(x, part["x"].ctypes.data_as(ctypes.c_void_p))
        for weight, bias, recurrent in self.layers:
            weight, bias, recurrent = [ctypes.c_void_p(q.qkv_graph_parameter(graph, p)) for p in (weight, bias, recurrent)]
            gates = ctypes.c_void_p(q.qkv_linear(graph, x, weight, bias, False))
            states = ctypes.c_void_p(q.qkv_lstm(graph, gates, recurrent, None, part["segments"], False))
            x = ctypes.c_void_p(q.qkv_slice(graph, states, ctypes.c_int64(1), ctypes.c_int64(0),
                                            ctypes.c_int64(width)))
        error = ctypes.create_string_buffer(4096)
        assert q.qkv_graph_check(graph, error) == 0, error.value
        q.qkv_forward(graph)
        q.qkv_backward(graph, x, part["dy"].ctypes.data_as(ctypes.c_void_p))

    def step(self):
        threads = [threading.Thread(target=self.run, args=(part,)) for part in self.parts[1:]]
        for thread in threads:
            thread.start()
        self.run(self.parts[0])
        for thread in threads:
            thread.join()
        for part in self.parts[1:]:
            self.parts[0]["gradients"] += part["gradients"]


class Torch:
    def __init__(self, options):
        import torch
        torch.set_num_threads(options.threads)
        torch.manual_seed(1)
        self.lstm = torch.nn.LSTM(options.width, options.width, options.layers)
        size = (options.steps, options.sentences, options.width)
        self.x, self.dy = torch.randn(*size, requires_grad=True), torch.randn(*size)

    def step(self):
        self.lstm.zero_grad()
        self.x.grad = None
        self.lstm(self.x)[0].backward(self.dy)


def serve(side, options):
    """Runs a worker: for each line of input it computes a step and prints its seconds."""
    side = {"qkv": Qkv, "torch": Torch}[side](options)
    for _ in sys.stdin:
        begin = time.perf_counter()
        side.step()
        print(time.perf_counter() - begin, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, value in (("layers", 2), ("width", 256), ("sentences", 64), ("steps", 20), ("threads", 1), ("turns", 60)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--library", dest="shared_object", default="build/release/framework/libqkv.so")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve, options)
    workers, times = {}, {"qkv": [], "torch": []}
    for side in times:
        workers[side] = subprocess.Popen([sys.executable, *sys.argv, "--serve", side], text=True,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for turn in range(options.turns + 5):
        for side, worker in workers.items():
            worker.stdin.write("\n")
            worker.stdin.flush()
            seconds = float(worker.stdout.readline())
            if turn >= 5:  # the first turns warm up
                times[side].append(seconds)
    for worker in workers.values():
        worker.communicate()
    print(f"{options.layers} layers of {options.width}, {options.sentences} sentences of {options.steps} steps, "
          f"{options.threads} threads, {options.turns} turns")
    for side, list_ in times.items():
        print(f"{side:6} median {1000 * statistics.median(list_):7.2f} ms, least {1000 * min(list_):7.2f} ms")
    ratio = statistics.median(t / q for q, t in zip(times["qkv"], times["torch"]))
    print(f"PyTorch takes {ratio:.2f} times as long (median over the turns)")


main()
