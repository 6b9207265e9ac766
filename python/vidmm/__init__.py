"""A GPU video memory manager: policies of eviction of your own on traces of your own.

    import vidmm

    class Fifo:
        def __init__(self):
            self.arrivals = {}

        def brought_in(self, slot, size, memory):
            self.arrivals[slot] = len(self.arrivals)

        def rank(self, slot):
            return self.arrivals[slot]

    vidmm.replay(["trace.csv"], ["lru", Fifo], local_memory="10%", svg="trace.svg").to_pandas()
"""

from ._calls import Broken, Called, Error, PolicyWarning, Replayed, Requests, replay, run, sim
from ._log import Log
from ._native import Candidates
from ._policy import Policy
from ._table import Table

__all__ = [
    "Broken",
    "Called",
    "Candidates",
    "Error",
    "Log",
    "Policy",
    "PolicyWarning",
    "Replayed",
    "Requests",
    "Table",
    "replay",
    "run",
    "sim",
]
