"""Measures a hook: the same replay under a policy without hooks and under one whose hooks do nothing, in turns.

    python hook_cost.py [LIMIT_IN_NANOSECONDS]

The figure is the difference of the times of the processor by the number of calls. With a limit, a larger figure ends the program with status 1.
"""

import sys
import time

import vidmm

REQUESTS = [(at * at % 977, 4096) for at in range(100_000)]


class Silent:
    """No hooks: the documented order."""


class Idle:
    """Hooks that do nothing."""

    def used(self, slot, size, time):
        pass

    brought_in = released = left = used


class Counting:
    calls = 0

    def used(self, slot, size, time):
        Counting.calls += 1

    brought_in = released = left = used


def seconds(policy):
    begun = time.process_time()
    vidmm.replay({"hooks": REQUESTS}, [policy], "50%", no_bounds=True)
    return time.process_time() - begun


seconds(Counting)
rounds = [seconds(Idle) - seconds(Silent) for _ in range(5)]
cost = sorted(rounds)[len(rounds) // 2] / Counting.calls * 1e9
print(f"{Counting.calls:,} hooks: {cost:.0f} ns each")
if len(sys.argv) > 1 and cost > float(sys.argv[1]):
    sys.exit(1)
