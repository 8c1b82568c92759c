"""Tensors, autograd and the gradient check."""

from __future__ import annotations

import ctypes
import inspect
import pathlib
import weakref
from typing import TYPE_CHECKING, Any, Callable

import numpy

from . import _declarations as c
from ._library import Error, StrPath, call, interruptible, lib, number, path

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

DTYPES = {"float32": 0, "float64": 1}
TENSOR, INT32S, INT64S = ctypes.POINTER(c.qkv_tensor), ctypes.POINTER(ctypes.c_int32), ctypes.POINTER(ctypes.c_int64)
LARGEST = 2**31  # elements of a tensor; more would not fit into the memory of most machines


def _integers(values, kind, what):
    """A one-dimensional array of integers for C."""
    values = numpy.asarray(values)
    if values.size and values.dtype.kind not in "iu":
        raise TypeError(f"{what} must be integers")
    limits = numpy.iinfo(kind)
    if values.size and (values.min() < limits.min or values.max() > limits.max):
        raise Error(f"{what} do not fit into {limits.bits} bits")
    return numpy.ascontiguousarray(values.reshape(-1), kind)


def _sequence(values, what, most):
    values = [number(value, what, -(2**31), 2**62) for value in (values if isinstance(values, (tuple, list)) else [values])]
    if not 1 <= len(values) <= most:
        raise Error(f"{what} has {len(values)} axes, but must have 1 to {most}")
    return values


def _shape(values):
    sizes = _sequence(values, "the shape", 4)
    shape = c.qkv_shape(len(sizes), tuple(sizes))
    if not 0 < lib.shape_count(shape) <= LARGEST:
        raise Error(f"the shape {tuple(sizes)} is invalid or has more than {LARGEST} elements")
    return shape


class Tensor:
    """A node of a graph; its arrays are copies. Operators: + - * / between tensors of one shape, * with a number, @."""

    def __init__(self, graph, pointer):
        self._graph, self._pointer = graph, pointer

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        self._graph._open()
        shape = lib.tensor_shape(self._pointer)
        return tuple(shape.size[: shape.rank])

    @property
    def value(self) -> numpy.ndarray:
        """The numbers, of the graph's dtype; computes what is not computed yet."""
        self._graph.forward()
        return self._read(lib.tensor_value(self._pointer))

    @property
    def gradient(self) -> numpy.ndarray | None:
        """The gradient that the last backward computed; None: the tensor has none."""
        self._graph._open()
        memory = lib.tensor_gradient(self._pointer)
        return self._read(memory) if memory else None

    def backward(self, cotangent: ArrayLike | None = None) -> None:
        """Computes the gradient of sum(cotangent * this tensor) for all variables; without a cotangent: ones."""
        self._graph.forward()
        if cotangent is not None:
            cotangent = numpy.ascontiguousarray(cotangent, "float64")
            if cotangent.shape != self.shape:
                raise Error(f"the cotangent has the shape {cotangent.shape} instead of {self.shape}")
            cotangent = cotangent.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
        lib.backward(self._graph._handle, self._pointer, cotangent)
        self._graph._check()

    def _read(self, memory):
        if not memory:
            raise Error("the tensor has no numbers")
        array = numpy.empty(self.shape, self._graph.dtype)
        ctypes.memmove(array.ctypes.data, memory, array.nbytes)
        return array

    def __repr__(self):
        return f"<qkv.Tensor {lib.tensor_op(self._pointer).decode()} {self.shape}>" if self._graph._handle else "<qkv.Tensor, closed>"

    def __mul__(self, other):
        scalar = isinstance(other, (int, float)) and not isinstance(other, bool)
        return self._graph.scale(self, other) if scalar else self._graph.multiply(self, other)

    __rmul__ = __mul__
    __array_ufunc__ = None  # numpy.ndarray + Tensor comes here
    __add__ = lambda self, other: self._graph.add(self, other)
    __radd__ = __add__
    __sub__ = lambda self, other: self._graph.subtract(self, other)
    __truediv__ = lambda self, other: self._graph.divide(self, other)
    __matmul__ = lambda self, other: self._graph.matmul(self, other)
    __neg__ = lambda self: self._graph.scale(self, -1)


class Graph:
    """Tensors and their gradients. Every op of qkv is a method, with its inputs as tensors or arrays (constants):

        graph = qkv.Graph()
        x = graph.variable([[1.0, -2.0], [3.0, -4.0]])
        y = graph.softmax(x)
        y.backward([[1, 0], [0, 0]])
        print(y.value, x.gradient)

    `dtype`: float64 or float32. A graph belongs to one thread at a time."""

    def __init__(self, dtype: str = "float64"):
        if dtype not in DTYPES:
            raise Error(f"dtype is {dtype!r}, but must be float64 or float32")
        self.dtype = dtype
        self._handle = lib.graph_new(DTYPES[dtype])
        if not self._handle:
            raise MemoryError
        self._finalizer = weakref.finalize(self, lib.graph_free, self._handle)
        self._finalizer.atexit = False  # a thread may still use it

    def close(self) -> None:
        """Frees the graph and its tensors; also done when nothing refers to them any more."""
        self._finalizer()
        self._handle = None

    def _open(self):
        if not self._handle:
            raise Error("the graph is closed")

    def _check(self):
        self._open()
        call("graph_check", self._handle)

    def variable(self, values: ArrayLike) -> Tensor:
        """A tensor with a gradient, from an array of 1 to 4 axes (a number: one axis)."""
        return self._leaf(lib.variable, values)

    def constant(self, values: ArrayLike) -> Tensor:
        """A tensor without a gradient."""
        return self._leaf(lib.constant, values)

    def _leaf(self, make, values):
        self._check()
        try:
            array = numpy.atleast_1d(numpy.ascontiguousarray(values, "float64"))
        except (TypeError, ValueError):
            raise TypeError(f"cannot make a tensor of {type(values).__name__}") from None
        pointer = make(self._handle, _shape(array.shape))
        self._check()
        lib.tensor_write(pointer, array.ctypes.data_as(ctypes.POINTER(ctypes.c_double)))
        return Tensor(self, pointer)

    def forward(self) -> None:
        """Computes all tensors that are not computed yet; `value` and `backward` do it by themselves."""
        self._check()
        lib.forward(self._handle)
        self._check()

    if TYPE_CHECKING:  # the ops, which are added below
        def __getattr__(self, name: str) -> Callable[..., Tensor]: ...

    def gradcheck(self, y: Tensor, **options: float) -> GradientReport:
        """Compares the gradients of a tensor with finite differences for each variable; as qkv.gradcheck."""
        if not isinstance(y, Tensor) or y._graph is not self:
            raise TypeError("gradcheck takes a tensor of this graph")
        self._check()
        return _report(lambda report, options: call("check_graph", report, b"function", self._handle, y._pointer, options), options)

    # ---- the arguments of ops ----

    def _tensor(self, value, what, optional):
        if value is None and optional:
            return None
        if isinstance(value, Tensor):
            value._graph._open()
            return value._pointer
        if value is None or isinstance(value, (str, bytes)):
            raise TypeError(f"{what} must be a tensor or an array")
        return self.constant(value)._pointer

    def _segments(self, lengths, kept):
        """The sentences of rows, given by their lengths; None: one sentence that has all rows."""
        if lengths is None:
            return c.qkv_segments()
        lengths = _integers(lengths, "int64", "lengths of segments")
        starts = numpy.cumsum(lengths) - lengths
        kept += [lengths, starts]
        return c.qkv_segments(len(lengths), starts.ctypes.data_as(INT64S), lengths.ctypes.data_as(INT64S))

    def _attention(self, values, kept):
        if not isinstance(values, dict) or "heads" not in values:
            raise TypeError("attention must be a dict with heads=H, and causal, window, queries, keys and others of docs/python.md")
        attention = c.qkv_attention()
        attention.rule = _filled(c.qkv_attention_rule, {k: v for k, v in values.items() if k not in ("bias", "queries", "keys")})
        attention.bias = self._tensor(values.get("bias"), "bias", True)
        attention.queries, attention.keys = (self._segments(values.get(side), kept) for side in ("queries", "keys"))
        return attention

    def _argument(self, name, kind, value, kept):
        optional = name in ("bias", "gain", "initial", "mask")
        if kind is TENSOR:
            return self._tensor(value, name, optional)
        if kind is INT32S or kind is INT64S:
            if value is None and name == "first":
                return None
            kept.append(_integers(value, "int32" if kind is INT32S else "int64", name))
            return kept[-1].ctypes.data_as(kind)
        if kind is c.qkv_shape:
            return _shape(value)
        if kind is c.qkv_axes:
            axes = _sequence(value, name, 4)
            return c.qkv_axes(len(axes), tuple(number(axis, "an axis", 0, 3) for axis in axes))
        if kind in (c.qkv_segments, c.qkv_attention):
            return (self._segments if kind is c.qkv_segments else self._attention)(value, kept)
        return _scalar(kind, value, name)


def _scalar(kind, value, name):
    if kind is ctypes.c_bool:
        return bool(value)
    if kind is ctypes.c_double:
        if isinstance(value, (str, bytes)):
            raise TypeError(f"{name} must be a number")
        return float(value)
    return number(value, name)


def _filled(struct, values):
    """A struct with these fields set."""
    kinds, result = c.fields(struct), struct()
    for name, value in values.items():
        if name not in kinds:
            raise TypeError(f"there is no {name}; there are {', '.join(kinds)}")
        setattr(result, name, number(value, name, -(2**31), 2**31 - 1) if kinds[name] is ctypes.c_int else _scalar(kinds[name], value, name))
    return result


def _rows_read(name, tensors, attention):
    """How many numbers an op reads from an array whose length it does not take."""
    if name == "attention_arrange":
        lengths = [attention.queries, attention.keys]
        if not all(segments.count for segments in lengths) or lengths[0].count != lengths[1].count:
            raise Error("attention_arrange needs the segments of queries and keys")
        return sum(q * k for q, k in zip(*(s.length[: s.count] for s in lengths))) * max(attention.rule.heads, 0)
    rows = {"scatter_rows": 0, "store_rows": 1}.get(name, 0)
    return lib.tensor_shape(tensors[rows]).size[0]


def _op(name):
    _, parameters = c.FUNCTIONS[f"qkv_{name}"]()
    parameters = parameters[1:]
    arrays = [parameter for parameter, kind in parameters if kind is INT32S]
    counted = bool(arrays) and "count" in dict(parameters)
    shown = [(parameter, kind) for parameter, kind in parameters if not (counted and parameter == "count")]
    defaults = {"axis": -1, "first": None, "segments": None, "bias": None, "gain": None, "mask": None, "initial": None, "epsilon": 1e-5,
                "smoothing": 0.0, "factor": 1.0, "consistency": 0.0}
    if name in ("concat", "slice", "cumulative_sum"):
        del defaults["axis"]
    if name in ("scale", "neighbours"):
        defaults = {"segments": None}
    signature = [inspect.Parameter(
        parameter, inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=defaults.get(parameter, False if kind is ctypes.c_bool else inspect.Parameter.empty)) for parameter, kind in shown]
    ordered = all(a.default is a.empty or b.default is not b.empty for a, b in zip(signature, signature[1:]))
    if not ordered:  # what follows an optional argument is given by name
        first = next(i for i, parameter in enumerate(signature) if parameter.default is not parameter.empty)
        signature[first:] = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in signature[first:]]
    signature = inspect.Signature([inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY), *signature])

    def op(self, *given, **named):
        bound = signature.bind(self, *given, **named)
        bound.apply_defaults()
        self._check()
        kept, values = [], []
        for parameter, kind in shown:
            values.append(self._argument(parameter, kind, bound.arguments[parameter], kept))
            if counted and parameter in arrays:
                values.append(kept[-1].size)
        if arrays and not counted:
            rows = _rows_read(name, values, next((value for value in values if isinstance(value, c.qkv_attention)), None))
            array = next(array for array in kept if array.dtype == "int32")
            if array.size != rows:
                raise Error(f"{name}: {arrays[0]} has {array.size} numbers instead of {rows}")
        if ("first", INT64S) in shown and bound.arguments["first"] is not None:  # a number for each segment
            size, segments = numpy.size(bound.arguments["first"]), max(1, next(v.count for v in values if isinstance(v, c.qkv_segments)))
            if size != segments:
                raise Error(f"{name}: first has {size} numbers, but there are {segments} segments")
        result = getattr(lib, name)(self._handle, *values)
        self._check()
        return Tensor(self, result)

    op.__name__, op.__qualname__, op.__doc__, op.__signature__ = name, f"Graph.{name}", c.OPS[name], signature
    return op


for _name in c.OPS:
    setattr(Graph, _name, _op(_name))


class GradientReport:
    """The result of a gradient check: `passed`, and `rows`, a list of dicts with a row for each tensor that was checked."""

    def __init__(self, rows: list[dict[str, Any]]):
        self.rows = rows
        self.failures = [row for row in rows if row["failure"]]
        self.passed = not self.failures

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self):
        lines = [f"{row['subject']}: {row['tensor']}: {row['failure']}" for row in self.failures]
        verdict = "passed" if self.passed else f"FAILED: {len(self.failures)} of"
        return "\n".join([*lines, f"{verdict} {len(self.rows)} checks"])


def _report(check, options):
    """Runs check(report, options) and copies the rows."""
    report, given, found = c.qkv_check_report(), _filled(c.qkv_check_options, {"seed": 1, **options}), []
    try:
        interruptible(lambda: check(report, given))
        for row in report.rows[: report.count]:
            record = {name: getattr(row, name) for name in c.fields(c.qkv_check_row)}
            record["shape"] = tuple(row.shape.size[: row.shape.rank])
            found.append({name: value.decode() if isinstance(value, bytes) else value for name, value in record.items()})
    finally:
        lib.check_release(report)
    return GradientReport(found)


def gradcheck(what: Callable[..., Tensor] | StrPath, *inputs: ArrayLike, sentences: int = 4, overrides: dict[str, Any] | None = None,
              **options: float) -> GradientReport:
    """Compares analytic gradients with finite differences in float64. Returns a GradientReport.

    `what`: a config, a run folder, or the name of an op or a layer; or a function(graph, *tensors) that returns a tensor,
    checked at `inputs`, arrays that become variables:

        qkv.gradcheck(lambda graph, x: graph.softmax(x), numpy.random.randn(3, 5))

    Options: tolerance, seed, sample (elements of each tensor; of a config or run: 16)."""
    from ._run import _read_config, _opened

    if callable(what):
        graph = Graph("float64")
        tensors = [graph.variable(values) for values in inputs]
        return graph.gradcheck(what(graph, *tensors), **options)
    if inputs:
        raise TypeError("inputs are for a function")
    name = path(what, "what to check")
    for kind, most in (("op", c.ENUMS["QKV_OP_COUNT"]), ("layer", c.ENUMS["QKV_LAYER_COUNT"])):
        found = getattr(lib, f"{kind}_find")(name)
        if found != most:
            return _report(lambda report, given: call(f"check_{kind}", report, found, given), options)
    folder = pathlib.Path(name.decode())
    is_run = folder.is_dir()
    run = _opened(name, None, DTYPES["float64"]) if is_run else None
    try:
        with _read_config(folder / "config.yaml" if is_run else what, overrides) as config:
            model = c.qkv_checked_model(subject=name, config=ctypes.pointer(config), sentences=number(sentences, "sentences"),
                                        run=ctypes.pointer(run) if run else None)
            return _report(lambda report, given: call("check_model", report, model, given), {"sample": 16, **options})
    finally:
        if run:
            lib.run_release(run)
