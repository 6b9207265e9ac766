"""Arrays under Taichi: each round checks all words of each array, and writes other words. Prints the number of wrong words.

Arguments: the number of arrays, the MiB of each, the number of rounds.
"""

import sys

import taichi as ti

arrays, mib, rounds = map(int, sys.argv[1:4])
ti.init(arch=ti.vulkan, offline_cache=False)
assert ti.cfg.arch == ti.vulkan, "there is no Vulkan device"


@ti.kernel
def step(words: ti.types.ndarray(dtype=ti.i32, ndim=1), expected: ti.i32, new: ti.i32) -> ti.i32:
    wrong = 0
    for i in words:
        if words[i] != expected * (i % 1000 + 1):
            wrong += 1
        words[i] = new * (i % 1000 + 1)
    return wrong


everything = []
for _ in range(arrays):
    everything.append(ti.ndarray(dtype=ti.i32, shape=(mib << 18,)))
    # Without this the first zeros of all arrays are one command buffer, which uses all arrays at once.
    ti.sync()
wrong = 0
for number in range(rounds):
    for at, words in enumerate(everything):
        wrong += step(words, 0 if number == 0 else number * 100 + at, (number + 1) * 100 + at)
print("taichi", arrays, "x", mib, "MiB, rounds", rounds, "wrong", wrong)
