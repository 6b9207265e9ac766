"""Plays two traces through `vidmm replay` and through libCacheSim, and prints the misses and the bytes missed of both.

    pip install libcachesim numpy
    cargo build --release && python peers/libcachesim/compare.py target/release/vidmm

Each object is a submission, sizes are whole pages, and no submission is ahead. `lru`, `clock` and the optimum have to be the same.
"""

import csv
import subprocess
import sys
import tempfile

import libcachesim
import numpy

PAGE = 4096
PEERS = {"lru": "LRU", "clock": "Clock", "s3-fifo": "S3FIFO", "lfu-da": "LFUDA"}
EXACT = ["lru", "clock"]
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
    for name, (ids, sizes) in {"popular": popular(), "scanned": scanned()}.items():
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
            print(f"{name:8} {row['local_memory']:4} {row['policy']:8} {ours} {theirs} {by:+.2f} % of the bytes")
            if row["policy"] == "lru":
                optimum = missed(path + ".oracleGeneral", "Belady", size)[1]
                is_same &= optimum == int(row["min_whole_bytes_in"])
                print(f"{name:8} {row['local_memory']:4} optimum  {row['min_whole_bytes_in']} {optimum}")
    print("same" if is_same else "NOT the same")
    return 0 if is_same else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
