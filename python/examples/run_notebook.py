"""Runs a notebook in a folder of its own. A cell that fails ends the program.

    python run_notebook.py own_policy.ipynb
"""

import sys
import tempfile

import nbclient
import nbformat

with tempfile.TemporaryDirectory() as folder:
    notebook = nbformat.read(sys.argv[1], as_version=4)
    nbclient.NotebookClient(notebook, timeout=100, resources={"metadata": {"path": folder}}).execute()
cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
print(f"{len(cells)} cells of {sys.argv[1]} ran")
