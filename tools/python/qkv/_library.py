"""The shared library: loading it, calling its functions, and running the bundled command."""

from __future__ import annotations

import ctypes
import os
import pathlib
import threading
from subprocess import PIPE, Popen
from typing import Any, Union

from . import _declarations as c

FOLDER = pathlib.Path(__file__).parent
COMMAND = FOLDER / "bin" / "qkv"
StrPath = Union[str, "os.PathLike[str]"]


class Error(ValueError):
    """A mistake in files, configs, texts or arguments; the message is that of the command line."""


class _Functions:
    """The functions of the library as attributes, without their prefix qkv_: lib.run_open is qkv_run_open."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(str(FOLDER / "libqkv.so"))

    def __getattr__(self, name: str) -> Any:
        try:
            result, parameters = c.FUNCTIONS[f"qkv_{name}"]()
        except KeyError:
            raise AttributeError(name) from None
        function = self._library[f"qkv_{name}"]
        function.restype, function.argtypes = result, [kind for _, kind in parameters]
        setattr(self, name, function)
        return function


lib = _Functions()


def call(name, *arguments):
    """Calls a function whose last argument is the error; Error with its message if the function fails."""
    error = c.qkv_error()
    result = getattr(lib, name)(*arguments, error)
    if result != 0 if isinstance(result, int) else not result:
        raise Error(error.message.decode(errors="replace"))
    return result


def text(value, what="the text"):
    """A string as the library takes it."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a string, not {type(value).__name__}")
    if "\0" in value:
        raise Error(f"{what} has a NUL character")
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise Error(f"{what} is not valid Unicode") from None


def path(value, what="the path"):
    """A path as the library takes it. A relative one that does not exist may name a shipped file, such as configs/x.yaml."""
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{what} must be a string or a path, not {type(value).__name__}")
    value = os.fspath(value)
    if isinstance(value, str) and "\0" not in value and value and not os.path.exists(value) and (FOLDER / value).is_file():
        value = str(FOLDER / value)
    return text(value, what)


def number(value, what, low=-(2**63), high=2**63 - 1):
    """An integer that C can hold."""
    try:
        value = value.__index__()
    except AttributeError:
        raise TypeError(f"{what} must be an integer, not {type(value).__name__}") from None
    if not low <= value <= high:
        raise Error(f"{what} is {value}, but must be from {low} to {high}")
    return value


def interruptible(work, tick=None, stop=None):
    """Calls work() in a thread and returns its result. Ctrl-C sets the flag that the library asks, waits until the thread has
    ended, and rises; or it calls stop(), which returns True where that suffices. `tick`: called ten times a second."""
    outcome, finished, interrupt = {}, threading.Event(), ctypes.c_bool()

    def run():
        lib.set_interrupt(interrupt)
        try:
            outcome["result"] = work()
        except BaseException as error:
            outcome["error"] = error
        finished.set()

    thread = threading.Thread(target=run, daemon=True)
    try:
        thread.start()
    except KeyboardInterrupt:
        interrupt.value = True
    while thread.ident and not finished.is_set():
        try:
            if not finished.wait(0.1) and tick:
                tick()
        except KeyboardInterrupt:
            interrupt.value = not (stop and stop())
        except Exception:
            tick = None  # a progress bar that cannot be drawn any more
    if interrupt:
        raise KeyboardInterrupt
    if "error" in outcome:
        raise outcome["error"]
    return outcome["result"]


def command(*arguments: object, stdin: str | None = None) -> str:
    """Runs the bundled command: command("init", "spa.txt"). Returns what it prints; Error with its message if it fails."""
    words = [os.fspath(word) if isinstance(word, os.PathLike) else str(word) for word in arguments]
    if any("\0" in word for word in words):
        raise Error("an argument has a NUL character")
    process = Popen([str(COMMAND), *words], stdin=PIPE, stdout=PIPE, stderr=PIPE, encoding="utf-8", errors="replace")
    try:
        printed, complaint = process.communicate(stdin)
    except BaseException:  # Ctrl-C
        process.terminate()
        process.wait()
        raise
    if process.returncode:
        raise Error(complaint.strip().removeprefix("qkv: "))
    return printed


def options(values):
    """Keyword arguments as options of the command: by_length=3 is --by-length=3, quiet=True is --quiet."""
    found = []
    for name, value in values.items():
        option = "--" + name.replace("_", "-")
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is not False and one is not None:
                found.append(option if one is True else f"{option}={one}")
    return found
