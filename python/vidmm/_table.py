"""Tables of rows, for pyarrow, pandas and polars."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class Table:
    """Rows, held as Parquet. Libraries that take Arrow streams, such as polars and DuckDB, take a table as it is."""

    def __init__(self, parquet: bytes) -> None:
        self.parquet = parquet

    def to_arrow(self) -> pyarrow.Table:
        """The table of pyarrow, which needs the package pyarrow."""
        import pyarrow.parquet

        # `read_table` would leave the file to the threads of pyarrow. A thread that drops a Python object while the interpreter ends aborts
        # the process, so this thread reads, from memory that belongs to no Python object.
        with pyarrow.parquet.ParquetFile(pyarrow.BufferReader(self.parquet)) as file:
            return file.read(use_threads=False)

    def to_pandas(self) -> pandas.DataFrame:
        """The table of pandas, which needs the packages pyarrow and pandas."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """The table of polars, which needs the package polars."""
        import polars

        return polars.read_parquet(io.BytesIO(self.parquet))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the Parquet file."""
        Path(path).write_bytes(self.parquet)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str | None:
        try:
            return str(self.to_pandas()._repr_html_())
        except ImportError:
            return None
