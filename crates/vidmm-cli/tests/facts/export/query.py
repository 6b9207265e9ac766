"""Runs a query of DuckDB in the folder that the first argument names, and prints its result as a table of Markdown."""

import os
import sys

import duckdb

os.chdir(sys.argv[1])
result = duckdb.sql(sys.argv[2])
for cells in [result.columns, ["---"] * len(result.columns), *result.fetchall()]:
    print("| " + " | ".join("" if cell is None else str(cell) for cell in cells) + " |")
