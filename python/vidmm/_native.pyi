from collections.abc import Callable

class Candidates:
    """The allocations of one memory that may go now. They are asked during `victim` alone."""

    @property
    def memory(self) -> int:
        """The number of the memory's segment; 0 is system memory."""

    def first_from(self, rank: int = 0) -> int | None:
        """The slot of the candidate with the lowest rank from `rank` on; of several, the one that has it for longest."""

    def __contains__(self, slot: int) -> bool: ...
    def size(self, slot: int) -> int:
        """The size of a candidate in bytes. KeyError: the slot is no candidate."""

    def rank(self, slot: int) -> int:
        """The rank of a candidate. KeyError: the slot is no candidate."""

    def set_rank(self, slot: int, rank: int) -> None:
        """Gives a candidate another rank. Does nothing if the slot has none."""

def call(
    words: list[str], own: list[tuple[str, Callable[..., object], bool]]
) -> tuple[bool, list[tuple[str, str, str, str, int]]]: ...
