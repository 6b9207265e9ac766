"""The package as a user has it: policies in Python, traces as files and iterables, tables, logs, and mistakes of policies.

    python -m unittest discover python/tests
"""

import io
import subprocess
import sys
import tempfile
import unittest
import warnings
from collections import OrderedDict
from pathlib import Path

import polars
import pyarrow

import vidmm

PAGE = 4096


class Fifo:
    def __init__(self):
        self.arrivals, self.count = {}, 0

    def brought_in(self, slot, size, memory):
        self.count += 1
        self.arrivals[slot] = self.count

    def rank(self, slot):
        return self.arrivals[slot]


class Lru:
    """The least recently released, by a table of its own."""

    def __init__(self):
        self.order = OrderedDict()

    def released(self, slot, size, last_use):
        self.order[slot] = last_use
        self.order.move_to_end(slot)

    def victim(self, candidates):
        # An allocation without a use has a place, if the processor has locked the allocation.
        return next((slot for slot in self.order if slot in candidates), candidates.first_from())

    def left(self, slot, size, memory):
        self.order.pop(slot, None)


def requests(count=4000):
    """Objects in turn, and popular ones between them."""
    for at in range(count):
        object = at * at % 17 if at % 3 == 0 else at % 200
        yield (f"object {object}", PAGE * (1 + object % 7))


def figures(table):
    return {row["policy"]: row for row in table.to_arrow().to_pylist()}


def replayed(policies, **options):
    return vidmm.replay({"turns": requests()}, policies, "30%", **options)


class Policies(unittest.TestCase):
    def test_the_documented_order_in_python_is_lru(self):
        rows = figures(replayed(["lru", Lru]))
        self.assertGreater(rows["lru"]["evictions"], 500)
        for column in ["misses", "bytes_in", "bytes_out", "evictions", "virtual_ns"]:
            self.assertEqual(rows["Lru"][column], rows["lru"][column], column)

    def test_a_class_without_hooks_has_the_documented_order(self):
        rows = figures(replayed(["lru", ("nothing", object)]))
        self.assertEqual(rows["nothing"]["bytes_in"], rows["lru"]["bytes_in"])

    def test_the_manager_and_the_study_call_the_same_hooks(self):
        calls = []

        class Told(Fifo):
            def used(self, slot, size, time):
                calls.append(("used", slot, size, time))

            def left(self, slot, size, memory):
                calls.append(("left", slot, size))

        study = figures(replayed([Told]))["Told"]
        of_study, calls[:] = calls[:], []
        manager = figures(replayed([Told], manager=True))["Told"]
        of_manager = calls[:]
        self.assertEqual(study["bytes_in"], manager["bytes_in"])
        self.assertGreater(len(of_study), 4000)
        # The manager has tables of pages beside the objects, which are slots too: the order of sizes is the same.
        of = lambda calls: [(name, rest[1]) for name, *rest in calls]
        self.assertEqual(of(of_study), of(of_manager))

    def test_a_policy_chooses_what_comes_before_its_use(self):
        class Returns(Lru):
            """What left first comes back first."""

            def __init__(self):
                super().__init__()
                self.gone_out = {}

            def brought_in(self, slot, size, memory):
                self.gone_out.pop(slot, None)

            def left(self, slot, size, memory):
                super().left(slot, size, memory)
                self.gone_out[slot] = size

            def gone(self, slot, size):
                self.gone_out.pop(slot, None)

            def prefetch(self, memory, free):
                return next((slot for slot, size in self.gone_out.items() if size <= free), None)

        def frees():
            for at in range(2000):
                yield (f"kept {at % 40}", PAGE)
                yield (f"short {at}", 4 * PAGE)
                if at >= 3:
                    yield (f"short {at - 3}", 4 * PAGE, "delete")

        table = vidmm.replay({"frees": frees()}, ["lru", Returns], "40%")
        rows = figures(table)
        self.assertEqual((table.broken, rows["lru"]["bytes_prefetched"]), ([], 0))
        self.assertGreater(rows["Returns"]["bytes_prefetched"], 100 * PAGE)

    def test_seeds_and_names_of_policies(self):
        seeds = []

        class Drawn(Fifo):
            def __init__(self, seed):
                super().__init__()
                seeds.append(seed)

        rows = replayed([Drawn], seeds="1..3").to_arrow().to_pylist()
        self.assertEqual((seeds, [row["seed"] for row in rows]), ([1, 2, 3], [1, 2, 3]))
        with self.assertRaisesRegex(vidmm.Error, "cannot have the name `lru`"):
            replayed([("lru", Fifo)])
        with self.assertRaisesRegex(vidmm.Error, "`mru` is no policy"):
            replayed(["mru"])
        with self.assertRaisesRegex(TypeError, "is no policy"):
            replayed([3])

    def test_every_rule_holds_under_a_policy_in_python(self):
        """The property test of every policy: `crates/vidmm-cli/tests/facts/own_policy.rs` makes the same call for Rust and C."""

        class Absent(Lru):
            def victim(self, candidates):
                return 10**9

        class Raises(Fifo):
            def rank(self, slot):
                raise LookupError

        for policy, rules in [(Fifo, []), (Lru, []), (Absent, ["POL-01"]), (Raises, ["POL-03"])]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", vidmm.PolicyWarning)
                judged = vidmm.sim("1..40", policy, profile="rivals", steps=300)
            self.assertEqual([one.rule for one in judged.broken], rules)
            self.assertEqual((judged.holds, judged.text.split()[-2:]), (not rules, ["found", "0"]), judged.text)


class Mistakes(unittest.TestCase):
    """A policy that breaks a rule is named, and nothing is lost."""

    def broken(self, policy):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            table = replayed(["lru", policy])
        rows = figures(table)
        self.assertEqual(set(rows), {"lru", policy.__name__})
        self.assertTrue(all(row["bytes_in"] > 0 for row in rows.values()))
        self.assertEqual([str(one) for one in table.broken], [str(one.message) for one in caught])
        return [(one.rule, one.hook) for one in table.broken], [one.deed for one in table.broken], rows

    def test_an_exception_is_named_with_its_line(self):
        class Raises(Lru):
            def victim(self, candidates):
                raise LookupError("where is it?")

        rules, deeds, rows = self.broken(Raises)
        self.assertEqual(rules, [("POL-03", "victim")])
        self.assertRegex(deeds[0], r"raises LookupError: where is it\? \(line \d+\); the least recently used goes")
        self.assertEqual(rows["Raises"]["bytes_in"], rows["lru"]["bytes_in"])

    def test_a_class_that_cannot_be_made_is_named(self):
        class Unmade:
            def __init__(self):
                raise ValueError("no")

        self.assertEqual(self.broken(Unmade)[0], [("POL-03", "__init__")])

    def test_nonsense_is_named(self):
        class Absent(Lru):
            def victim(self, candidates):
                return 10**9

        class Text(Lru):
            def victim(self, candidates):
                return "the first"

        class Large(Fifo):
            def rank(self, slot):
                return 2**56

        class Negative(Fifo):
            def rank(self, slot):
                return -1

        class Endless(Lru):
            def victim(self, candidates):
                while candidates.first_from() is not None:
                    pass
                return 0

        class Elsewhere(Lru):
            def prefetch(self, memory, free):
                return 10**9

        class Always(Lru):
            def prefetch(self, memory, free):
                return "the next"

        for policy, right in [
            (Elsewhere, ("POL-06", "prefetch")),
            (Always, ("POL-03", "prefetch")),
            (Absent, ("POL-01", "victim")),
            (Text, ("POL-03", "victim")),
            (Large, ("POL-02", "rank")),
            (Negative, ("POL-03", "rank")),
            (Endless, ("POL-05", "victim")),
        ]:
            self.assertEqual(self.broken(policy)[0], [right], policy.__name__)

    def test_a_reference_that_is_kept_shows_nothing(self):
        kept = []

        class Keeps(Lru):
            def victim(self, candidates):
                kept.append(candidates)
                return super().victim(candidates)

            def left(self, slot, size, memory):
                if kept:
                    kept[-1].first_from()

        rules, _, _ = self.broken(Keeps)
        self.assertEqual(rules, [("POL-04", "first_from"), ("POL-03", "left")])
        with self.assertRaisesRegex(RuntimeError, "during `victim` alone"):
            kept[-1].size(0)

    def test_an_interrupt_ends_the_call(self):
        class Interrupted(Lru):
            def victim(self, candidates):
                raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            replayed([Interrupted])
        self.assertEqual(len(figures(replayed([Lru]))), 1)


class Traces(unittest.TestCase):
    def test_files_and_iterables_are_the_same_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.csv"
            path.write_text("id,size\n" + "".join(f"{id},{size}\n" for id, size in requests()))
            tables = [vidmm.replay([trace], "lru", "30%").to_arrow() for trace in [path, str(path), requests()]]
        columns = ["misses", "bytes_in", "min_split_bytes_in", "footprint_bytes"]
        first, *others = [table.select(columns) for table in tables]
        for other in others:
            self.assertEqual(first, other)

    def test_requests_have_sizes_and_operations(self):
        rows = vidmm.replay([["a", ("b", PAGE), ("a", PAGE, "write"), ("a", PAGE, "delete")]], "lru", "100%").to_arrow()
        self.assertEqual(rows["footprint_bytes"].to_pylist(), [2 * PAGE])
        for wrong, right in [([("a", 1)], "is no trace"), ([[()]], "is no request"), ([[("a", 1, "read", 1, 1)]], "is no request")]:
            with self.assertRaisesRegex(TypeError, right):
                vidmm.replay(wrong, "lru", "100%")
        with self.assertRaisesRegex(TypeError, "is no request"):
            vidmm.replay([[("a", 1, "read", "one"), ("a", 1, "read")]], "lru", "100%")
        with self.assertRaisesRegex(vidmm.Error, "trace-1.csv"):
            vidmm.replay([[("a", "large")]], "lru", "100%")

    def test_requests_of_several_processes_have_a_fairness(self):
        # The first process sleeps while the second scans, and loses its object each time.
        both = [(at, PAGE, "read", "scan") if at % 21 else ("a", PAGE, "read", "sleeper") for at in range(210)]
        row = vidmm.replay([both], Fifo, "8%").to_arrow().to_pylist()[0]
        self.assertEqual((row["processes"], row["fairness_millionths"]), (2, 100_000))

    def test_several_traces_and_a_picture(self):
        with tempfile.TemporaryDirectory() as folder:
            picture = Path(folder) / "picture.svg"
            table = vidmm.replay({"one": requests(500), "two": requests(900)}, ["lru", Fifo], ["20%", "50%"], svg=picture)
            self.assertIn("Fifo", picture.read_text())
        inputs = [Path(row["input"]).stem for row in table.to_arrow().to_pylist()]
        self.assertEqual(inputs, ["one"] * 4 + ["two"] * 4)
        self.assertIn("footprint", repr(table))


class Tables(unittest.TestCase):
    def test_a_table_is_of_arrow_of_pandas_and_of_polars(self):
        table = replayed(["lru", "clock"])
        arrow, pandas, frame = table.to_arrow(), table.to_pandas(), table.to_polars()
        self.assertEqual(arrow["misses"].to_pylist(), list(pandas["misses"]))
        self.assertEqual(arrow["misses"].to_pylist(), frame["misses"].to_list())
        self.assertEqual(polars.DataFrame(table)["policy"].to_list(), ["lru", "clock"])
        self.assertEqual(pyarrow.table(table).num_rows, 2)
        self.assertIn("<table", table._repr_html_())
        with tempfile.TemporaryDirectory() as folder:
            table.write(Path(folder) / "rows.parquet")
            self.assertEqual(polars.read_parquet(Path(folder) / "rows.parquet").height, 2)


    def test_an_interpreter_ends_right_after_a_table_is_read(self):
        for read in ["table.to_arrow()", "table.to_pandas()", "table.to_polars()", "pyarrow.table(table)"]:
            script = f"import pyarrow, vidmm; table = vidmm.replay([['a', 'b', 'a']], 'lru', '100%'); {read}"
            ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
            self.assertEqual((read, ended.returncode, ended.stderr), (read, 0, ""))


class Logs(unittest.TestCase):
    def test_a_log_is_read_explained_and_reported(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log.jsonl.gz"
            run = vidmm.run(policy=Fifo, local_memory="50%", scale=16, events=path)
            self.assertTrue(run.holds, run.text)
            log = vidmm.Log(path)
            lines = list(log)
            self.assertIn("Fifo", str(lines[0]))
            self.assertGreater(sum(line.get("event") == "evicted" for line in lines), 10)
            tables = log.tables()
            evictions = tables["evictions"].to_arrow()
            self.assertGreater(evictions.num_rows, 10)
            page = log.report(Path(folder) / "report.html")
            self.assertIn("<html", page.read_text())
            self.assertGreater(log.perfetto(Path(folder) / "run.pftrace").stat().st_size, 1000)
            chosen = next(row["allocation"] for row in evictions.to_pylist() if row["reason"] == "room_wanted")
            self.assertIn("Fifo", log.explain(chosen))
        with self.assertRaisesRegex(vidmm.Error, "no-such"):
            vidmm.Log("no-such.jsonl").explain("1")


if __name__ == "__main__":
    unittest.main()
