"""Event logs: their lines, what they say about an allocation, the report, and the tables."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from collections.abc import Iterator
from operator import index
from pathlib import Path
from typing import Any, SupportsIndex

from ._calls import called
from ._table import Table


class Log:
    """A log that `vidmm.run(..., events=PATH)` or `vidmm run --events` wrote."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"Log({str(self.path)!r})"

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The lines of the log; the first is the header. docs/reference/events.md explains them."""
        opened = gzip.open(self.path, "rt") if self.path.suffix == ".gz" else open(self.path)
        with opened as lines:
            yield from map(json.loads, lines)

    def explain(self, allocation: SupportsIndex | str) -> str:
        """The fate of an allocation, and who benefited, in sentences. An allocation is an id of the tables, or `"7"`."""
        if not isinstance(allocation, str):
            id = index(allocation)
            allocation = f"{id & 0xFFFF_FFFF}.{id >> 32}"
        return called(["explain", str(self.path), allocation]).text

    def report(self, output: str | os.PathLike[str] = "report.html") -> Path:
        """Writes the page that shows the run, and returns its path."""
        called(["report", str(self.path), "--output", os.fspath(output)])
        return Path(output)

    def perfetto(self, output: str | os.PathLike[str]) -> Path:
        """Writes a trace for Perfetto, and returns its path."""
        called(["export", str(self.path), "--perfetto", os.fspath(output)])
        return Path(output)

    def tables(self) -> dict[str, Table]:
        """The tables of docs/guides/export.md, by their names."""
        with tempfile.TemporaryDirectory() as folder:
            called(["export", str(self.path), "--parquet", folder])
            return {file.stem: Table(file.read_bytes()) for file in sorted(Path(folder).glob("*.parquet"))}
