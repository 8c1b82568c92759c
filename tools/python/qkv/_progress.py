"""A progress bar: in a notebook a line of output that changes, on a terminal the last line."""

import sys

WIDTH = 24


class Progress:
    def __init__(self, enabled):
        shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
        self._in_notebook = bool(enabled and shell and hasattr(shell, "kernel"))
        self._on_terminal = bool(enabled and not self._in_notebook and sys.stderr and sys.stderr.isatty())
        self._shown, self._display = "", None

    def show(self, line, done):
        if not line or not (self._in_notebook or self._on_terminal):
            return
        full = round(WIDTH * min(max(done, 0), 1))
        line = f"[{'#' * full}{'.' * (WIDTH - full)}] {line}"
        if line == self._shown:
            return
        if self._on_terminal:
            sys.stderr.write("\r" + line.ljust(len(self._shown)))
            sys.stderr.flush()
        elif self._display:
            self._display.update({"text/plain": line}, raw=True)
        else:
            from IPython.display import display

            self._display = display({"text/plain": line}, raw=True, display_id=True)
        self._shown = line

    def end(self):
        """Leaves the line as it is."""
        if self._on_terminal and self._shown:
            sys.stderr.write("\n")
            self._shown = ""
