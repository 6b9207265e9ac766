"""The hooks of a policy, for type checkers and for readers. A policy needs no base class, and has the hooks that it wants."""

from typing import Protocol

from ._native import Candidates


class Policy(Protocol):
    """An order of eviction. A slot is the number of an allocation among all that exist now.

    The class is called without arguments for each run; a class whose `__init__` takes `seed` is called with one. The hooks must do the
    same for the same calls.
    """

    def used(self, slot: int, size: int, time: int) -> None:
        """A use: the allocation joins the list of a device. Times count submissions."""

    def brought_in(self, slot: int, size: int, memory: int) -> None:
        """The allocation gets a place in a memory."""

    def released(self, slot: int, size: int, last_use: int) -> None:
        """No list names the allocation any more; `last_use` is the number of the last submission under which one did."""

    def rank(self, slot: int) -> int:
        """The rank of an allocation that becomes a candidate, below 2**56. Without this hook the rank is `last_use`."""
        ...

    def victim(self, candidates: Candidates) -> int:
        """The slot of the candidate that goes. Without this hook the candidate of the lowest rank goes."""
        ...

    def cleans(self, slot: int, rank: int, size: int) -> bool:
        """Whether the content of a candidate may be copied out before the eviction. Without this hook it may."""
        ...

    def announced(self, slot: int, size: int, time: int) -> None:
        """The device of the allocation has announced that it needs the allocation soon."""

    def prefetch(self, memory: int, free: int) -> int | None:
        """The slot of an allocation that comes into `free` bytes of `memory` before its use, or None. Nothing is evicted for it.

        The hook is called while engines leave the bus alone. Without this hook nothing comes before its use.
        """
        ...

    def left(self, slot: int, size: int, memory: int) -> None:
        """The allocation has left a memory."""

    def gone(self, slot: int, size: int) -> None:
        """The allocation is no more, and another may have the slot."""
