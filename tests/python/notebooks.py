"""Runs notebooks, and fails at the first cell that raises: notebooks.py [--write] FILE...  --write stores the outputs in them."""

import pathlib
import sys
import tempfile

import nbclient
import nbformat

for name in sys.argv[1:]:
    if name == "--write":
        continue
    notebook = nbformat.read(name, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        nbclient.NotebookClient(notebook, timeout=1800, resources={"metadata": {"path": folder}}).execute()
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":  # without warnings, which name temporary files
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    if "--write" in sys.argv:
        nbformat.write(notebook, name)
    print(f"{name}: {len(notebook.cells)} cells, {pathlib.Path(name).stat().st_size // 1024} kB")
