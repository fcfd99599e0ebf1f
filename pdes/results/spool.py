"""Rows of a result table while the run lasts: filled cell by cell, in any order, by any rank, out of core.

Each rank appends what it is given to a file of its own (a part); rank 0 scatters all parts into one sparse file when
the rows are read. Ranks therefore share a folder but never a file: one file mapped by all ranks would be shorter, but
loses cells where the file system keeps mapped pages per machine (NFS). A part is closed after each write, which is what
makes it visible there. Reads and writes of parts are sequential.

It is not a table format: see `pdes.results.tables`.
"""

import mmap
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from pdes.errors import CapacityError, SimError
from pdes.units import format_size

MEMORY_ROWS = 1_000_000  # a single rank keeps a table of up to this many rows in memory
GROUP_ROWS = 1 << 16
_MAX_COLUMNS = 62  # the columns of a block are the bits of one int64
_DROP_BYTES = 1 << 26  # mapped pages are handed back to the system after this much has been merged


class RowSpool:
    """n_row rows of int64 columns, written by cell and read in row order.

    A cell that nobody wrote reads as `fill`. Cells are kept as value XOR fill, so that the zero bytes of a sparse file
    mean "unwritten" and every int64 value is representable.

    All ranks construct it with the same arguments but their own number; `folder` must exist and be shared by all ranks.
    Each cell has one writer; where a rank writes a cell twice, the later value stays. Use: `scatter` on any rank, a
    barrier, `read_groups` on rank 0. Up to MEMORY_ROWS rows on a single rank stay in memory and make no file. Rows that
    nobody writes take neither memory nor disk.
    SimError, on rank 0: the disk has no room for all rows.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        n_row: int,
        columns: Sequence[str],
        fill: int = -1,
        ranks: tuple[int, int] = (0, 1),
        memory_rows: int = MEMORY_ROWS,
        least_rows: int | None = None,
    ) -> None:
        """ranks: (this one's number, how many there are). least_rows: rows that there will be in any case, if
        `truncate` may leave fewer than n_row.
        """
        assert len(set(columns)) == len(columns) <= _MAX_COLUMNS
        self.name, self.n_row, self.columns, self.fill = name, n_row, tuple(columns), fill
        self._folder, (rank, self._n_rank) = Path(folder), ranks
        self._i_column = {column: i for i, column in enumerate(columns)}
        self._merged_bytes = [0] * self._n_rank
        self._cells: np.ndarray | None = None  # int64[n_row, n_column], value XOR fill
        self._map: mmap.mmap | None = None
        self._part: Path | None = None
        if self._n_rank == 1 and n_row <= memory_rows:
            self._cells = np.zeros((n_row, len(columns)), np.int64)
        else:
            self._part = self._part_path(rank)
            self._part.write_bytes(b"")
            if rank == 0:
                self._check_space(n_row if least_rows is None else least_rows)

    def scatter(self, row_id: np.ndarray, columns: Mapping[str, np.ndarray]) -> None:
        """Write the given columns at rows row_id, int64[n], 0..n_row-1. The arrays are copied.

        CapacityError: a row id out of range. SimError: the disk is full or refuses.
        """
        n = len(row_id)
        if n == 0 or not columns:
            return
        if int(row_id.min()) < 0 or int(row_id.max()) >= self.n_row:
            bad = row_id[(row_id < 0) | (row_id >= self.n_row)][0]
            raise CapacityError(f"table {self.name} has rows 0..{self.n_row - 1}, but row {bad} was written")
        order = sorted(columns, key=self._i_column.__getitem__)
        i_columns = [self._i_column[column] for column in order]
        block = np.empty((1 + len(order), n), np.int64)
        block[0] = row_id
        for i, column in enumerate(order):
            block[1 + i] = columns[column]
        if self._part is None:
            self._put(i_columns, block)
        else:
            self._append(self._part, i_columns, block)

    def read_groups(self, group: int = GROUP_ROWS) -> Iterator[dict[str, np.ndarray]]:
        """Yield all rows in id order as {column: int64[at most group rows]}, owned by the reader.

        On rank 0, after a barrier. May be called again, also after more has been written. Memory is bounded by the
        group and by the largest single `scatter`. SimError: a part is missing or cut short.
        """
        self._merge()
        for start in range(0, self.n_row, group):
            assert self._cells is not None
            rows = self._cells[start : start + group]
            yield {column: rows[:, i] ^ self.fill for i, column in enumerate(self.columns)}
            self._drop_pages()

    def amend(self, change: Callable[[np.ndarray, int, list[int]], None], columns: Sequence[str]) -> None:
        """Let `change` write cells before anyone reads: it gets all of them, the fill, and the numbers of columns.

        Cells are int64[n_row, n_column], value XOR fill, 0 where nobody has written. On rank 0, after a barrier.
        """
        self._merge()
        if self.n_row:
            assert self._cells is not None
            change(self._cells, self.fill, [self._i_column[column] for column in columns])
            self._drop_pages()

    def truncate(self, n_row: int) -> None:
        """Leave the first n_row rows, and nothing was written behind them. On every rank, before anyone reads."""
        assert n_row <= self.n_row and self._map is None
        self.n_row = n_row
        if self._cells is not None:
            self._cells = self._cells[:n_row]

    def save(self, stream: BinaryIO) -> None:
        """Write the cells that this rank has, as a part, for `load`. Before anyone reads. OSError as it comes."""
        assert self._map is None
        if self._part is not None:
            with open(self._part, "rb") as part:
                shutil.copyfileobj(part, stream, _DROP_BYTES)
            return
        assert self._cells is not None
        for start in range(0, self.n_row, GROUP_ROWS):
            cells = self._cells[start : start + GROUP_ROWS]
            rows = np.flatnonzero(cells.any(axis=1))
            if len(rows):
                header = np.array([len(rows), (1 << len(self.columns)) - 1], np.int64)
                stream.write(header.tobytes())
                stream.write(np.vstack([rows + start, cells[rows].T ^ self.fill]).tobytes())

    def load(self, stream: BinaryIO) -> None:
        """Take over what some rank has saved. SimError: the disk is full or refuses."""
        while header := stream.read(16):
            n, mask = (int(x) for x in np.frombuffer(header, np.int64))
            i_columns = [i for i in range(len(self.columns)) if mask >> i & 1]
            block = np.frombuffer(stream.read(8 * n * (1 + len(i_columns))), np.int64).reshape(-1, n)
            if self._part is None:
                self._put(i_columns, block)
            else:
                self._append(self._part, i_columns, block)

    def absorb(self, rank: int) -> None:
        """Take over what another rank has written and will not write any more. Before anyone reads.

        That rank `forget`s it then. SimError: the disk is full or refuses.
        """
        with open(self._part_path(rank), "rb") as part:
            self.load(part)

    def forget(self) -> None:
        """Have nothing written: another rank has it now."""
        assert self._part is not None
        self._part.write_bytes(b"")

    def close(self) -> None:
        """Drop the rows; what lies in the folder stays until the folder goes."""
        self._cells = None
        if self._map is not None:
            self._map.close()
            self._map = None

    def _part_path(self, rank: int) -> Path:
        return self._folder / f"{self.name}.part{rank}"

    def _check_space(self, n_row: int) -> None:
        """A full disk would end the process without a word when a mapped page is written, so look first."""
        need_bytes, free_bytes = 8 * n_row * len(self.columns), shutil.disk_usage(self._folder).free
        if need_bytes > free_bytes:
            raise SimError(
                f"table {self.name} needs {format_size(need_bytes)} in {self._folder}, where {format_size(free_bytes)} "
                "are free. Set [output] dir to a larger disk"
            )

    def _append(self, path: Path, i_columns: list[int], block: np.ndarray) -> None:
        header = np.array([block.shape[1], sum(1 << i for i in i_columns)], np.int64)
        try:
            with open(path, "ab") as part:
                part.write(header.tobytes())
                part.write(block.data)
        except OSError as error:
            raise SimError(f"cannot write {path}: {error.strerror}. Free space or set [output] dir") from error

    def _put(self, i_columns: list[int], block: np.ndarray) -> None:
        assert self._cells is not None
        for i, i_column in enumerate(i_columns):
            self._cells[block[0], i_column] = block[1 + i] ^ self.fill

    def _merge(self) -> None:
        if self._part is None or self.n_row == 0:
            return
        if self._cells is None:
            self._map_rows()
        for rank in range(self._n_rank):
            try:
                with open(self._part_path(rank), "rb") as part:
                    self._merge_part(rank, part)
            except OSError as error:
                raise SimError(f"cannot read rows of rank {rank}, {error.filename}: {error.strerror}") from error

    def _merge_part(self, rank: int, part: BinaryIO) -> None:
        part.seek(self._merged_bytes[rank])
        n_undropped_bytes = 0
        while header := part.read(16):
            n, mask = (int(x) for x in np.frombuffer(header, np.int64))
            i_columns = [i for i in range(len(self.columns)) if mask >> i & 1]
            n_word = n * (1 + len(i_columns))
            block = np.fromfile(part, np.int64, n_word)
            if len(block) < n_word:
                raise SimError(f"{self._part_path(rank)} is cut short: was there a barrier before rank 0 read?")
            self._put(i_columns, block.reshape(-1, n))
            self._merged_bytes[rank] += 16 + 8 * n_word
            n_undropped_bytes += 8 * n_word
            if n_undropped_bytes > _DROP_BYTES:
                self._drop_pages()
                n_undropped_bytes = 0
        self._drop_pages()

    def _map_rows(self) -> None:
        self._check_space(self.n_row)
        n_byte = 8 * self.n_row * len(self.columns)
        with open(self._folder / f"{self.name}.rows", "w+b") as file:
            file.truncate(n_byte)
            self._map = mmap.mmap(file.fileno(), n_byte)
        self._cells = np.frombuffer(self._map, np.int64).reshape(self.n_row, len(self.columns))

    def _drop_pages(self) -> None:
        """Let the system take mapped pages back; they stay in the file."""
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)
