"""Plays three traces through `vidmm replay` and through libCacheSim, and prints the misses and the bytes missed of both.

    pip install libcachesim numpy
    cargo build --release && python peers/libcachesim/compare.py target/release/vidmm

Each object is a submission, sizes are whole pages, and no submission is ahead. `lru`, `clock` and the optimum have to be the same,
and the bytes of all policies within 1 %. The last lines compare speed and memory in one run on the first trace.
"""

import csv
import resource
import subprocess
import sys
import tempfile
import time

import libcachesim
import numpy

PAGE = 4096
PEERS = {
    "lru": "LRU",
    "clock": "Clock",
    "s3-fifo": "S3FIFO",
    "lfu-da": "LFUDA",
    "sieve": "Sieve",
    "lru-2": "LRUK",
    "gdsf": "GDSF",
}
EXACT = ["lru", "clock"]
WITHIN = 1.0
draws = numpy.random.default_rng(3)


def zipf(requests, objects, exponent):
    sums = numpy.cumsum(numpy.arange(1, objects + 1) ** -exponent)
    return draws.permutation(objects)[numpy.searchsorted(sums, draws.random(requests) * sums[-1])].tolist()


def popular():
    return zipf(400_000, 20_000, 0.8), draws.integers(1, 65, 20_000) * PAGE


def scanned():
    requests, ids, scan = zipf(400_000, 10_000, 1.0), [], 0
    for start in range(0, 400_000, 2_000):
        ids += requests[start : start + 2_000] + [10_000 + (scan + at) % 8_000 for at in range(500)]
        scan += 500
    return ids, draws.integers(1, 33, 18_000) * PAGE


def phased():
    """Layers in turn, then requests by popularity, four times."""
    ids = []
    for phase in range(4):
        ids += [at % 3_000 for at in range(40_000)] + [3_000 + object for object in zipf(60_000, 6_000, 0.9)]
    return ids, draws.integers(1, 33, 9_000) * PAGE


def write(path, ids, sizes):
    with open(path + ".csv", "w") as text:
        text.writelines(f"{time},{id},{sizes[id]}\n" for time, id in enumerate(ids))
    following, last = [-1] * len(ids), {}
    for at in reversed(range(len(ids))):
        following[at] = last.get(ids[at], -1)
        last[ids[at]] = at
    fields = [("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")]
    requests = zip(range(len(ids)), ids, (sizes[id] for id in ids), following)
    numpy.array(list(requests), dtype=fields).tofile(path + ".oracleGeneral")


def replayed(vidmm, path):
    options = ["--policy", ",".join(PEERS), "--ahead", "0", "--local-memory", "10%,30%,60%", "--csv", path + ".rows"]
    subprocess.run([vidmm, "replay", path, *options], check=True, stdout=subprocess.DEVNULL)
    with open(path + ".rows") as rows:
        return list(csv.DictReader(rows))


def missed(path, policy, size):
    reader = libcachesim.TraceReader(path, libcachesim.TraceType.ORACLE_GENERAL_TRACE)
    cache = getattr(libcachesim, policy)(cache_size=size)
    missed = [request.obj_size for request in reader if not cache.get(request)]
    return len(missed), sum(missed)


def main(vidmm):
    is_same = True
    for name, (ids, sizes) in {"popular": popular(), "scanned": scanned(), "phased": phased()}.items():
        path = tempfile.mkdtemp() + "/" + name
        write(path, ids, sizes)
        rows, of_text = replayed(vidmm, path + ".oracleGeneral"), replayed(vidmm, path + ".csv")
        for row, other in zip(rows, of_text, strict=True):
            size = int(row["local_memory_bytes"]) // PAGE * PAGE
            ours = int(row["misses"]), int(row["bytes_in"])
            theirs = missed(path + ".oracleGeneral", PEERS[row["policy"]], size)
            is_same &= ours == (int(other["misses"]), int(other["bytes_in"]))
            is_same &= row["policy"] not in EXACT or ours == theirs
            by = (ours[1] - theirs[1]) / theirs[1] * 100
            is_same &= abs(by) <= WITHIN
            print(f"{name:8} {row['local_memory']:4} {row['policy']:8} {ours} {theirs} {by:+.2f} % of the bytes")
            if row["policy"] == "lru":
                optimum = missed(path + ".oracleGeneral", "Belady", size)[1]
                is_same &= optimum == int(row["min_whole_bytes_in"])
                print(f"{name:8} {row['local_memory']:4} optimum  {row['min_whole_bytes_in']} {optimum}")
        if name == "popular":
            compare_speed(vidmm, path + ".oracleGeneral", len(ids))
    print("same" if is_same else "NOT the same")
    return 0 if is_same else 1


def compare_speed(vidmm, path, requests):
    """Requests a second on one thread, and the most memory; libCacheSim's loop is its own, in C."""
    for policy, peer in {"lru": "LRU", "s3-fifo": "S3FIFO"}.items():
        options = ["--policy", policy, "--local-memory", "30%", "--no-bounds", "--ahead", "0", "--jobs", "1"]
        start = time.perf_counter()
        subprocess.run([vidmm, "replay", path, *options], check=True, stdout=subprocess.DEVNULL)
        ours = time.perf_counter() - start
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        reader = libcachesim.TraceReader(path, libcachesim.TraceType.ORACLE_GENERAL_TRACE)
        cache = getattr(libcachesim, peer)(cache_size=reader.get_working_set_size()[1] * 3 // 10)
        start = time.perf_counter()
        cache.process_trace(reader)
        theirs = time.perf_counter() - start
        print(f"speed {policy:8} {requests / ours / 1e6:.2f} and {requests / theirs / 1e6:.2f} M requests/s, at most {memory} KiB here")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
