"""Reads the tables of logs with DuckDB, and compares them with the logs, which it reads by itself.

Arguments: EVENTS.jsonl PARQUET_FOLDER CSV_FOLDER, as often as there are logs. Prints the rows of each table in JSON.
"""

import collections
import itertools
import json
import pathlib
import sys

import duckdb

NAMES = {
    "events": {"event"},
    "operations": {"operation"},
    "packets": {"content", "end"},
    "waits": {"waited_for"},
    "page_ins": {"content"},
    "evictions": {"reason"},
    "occupancy": {"holding"},
    "budgets": {"group"},
}
TEXTS = {"events": {"fields"}}
IDS = ["process", "device", "context", "queue", "allocation", "plan"]
totals = collections.Counter()


def typed_columns(db, table, path):
    columns = db.sql(f"DESCRIBE SELECT * FROM '{path}'").fetchall()
    for name, kind, *_ in columns:
        is_text = name in NAMES.get(table, set()) | TEXTS.get(table, set())
        assert kind == ("VARCHAR" if is_text else "BIGINT"), f"{table}.{name} is {kind}"
    encodings = db.sql(f"SELECT path_in_schema, encodings FROM parquet_metadata('{path}')").fetchall()
    for column, encoding in encodings:
        has_dictionary = "DICTIONARY" in encoding
        assert has_dictionary == (column in NAMES.get(table, set())), f"{table}.{column}: {encoding}"
    return [name for name, *_ in columns]


def same_in_both(db, table, parquet, csv, columns):
    assert open(csv).readline().strip() == ",".join(columns), csv
    of_text = NAMES.get(table, set()) | TEXTS.get(table, set())
    kinds = {name: "VARCHAR" if name in of_text else "BIGINT" for name in columns}
    texts = f"read_csv('{csv}', header = true, quote = '\"', escape = '\"', delim = ',', columns = {kinds})"
    for one, other in [(f"'{parquet}'", texts), (texts, f"'{parquet}'")]:
        left = db.sql(f"SELECT count(*) FROM (SELECT * FROM {one} EXCEPT ALL SELECT * FROM {other})").fetchall()[0][0]
        assert left == 0, f"{left} rows of {one} are not in {other}"


def judge(log, parquet, csv):
    db = duckdb.connect()
    rows = {}
    for path in sorted(parquet.iterdir()):
        table = path.stem
        columns = typed_columns(db, table, path)
        same_in_both(db, table, path, csv / f"{table}.csv", columns)
        cursor = db.sql(f"SELECT * FROM '{path}'")
        rows[table] = [dict(zip(columns, row)) for row in cursor.fetchall()]
        totals[table] += len(rows[table])
    lines = [json.loads(line) for line in open(log)]
    events = [line for line in lines if "event" in line]
    of_kind = lambda kind: [event for event in events if event["event"] == kind]

    assert len(rows["events"]) == len(events)
    for row, event in zip(rows["events"], events):
        event = dict(event)
        assert row["number"] == event.pop("number") and row["at"] == event.pop("at"), row
        assert row["occurred_at"] == event.pop("occurred_at", None) and row["event"] == event.pop("event"), row
        assert json.loads(row["fields"]) == event, row
        for name in IDS:
            assert row[name] == event.get(name), row

    operations = {row["number"]: row for row in rows["operations"]}
    assert operations.keys() == {event["number"] for event in of_kind("paging_operation")}
    assert sum(row["is_encoded"] for row in operations.values()) == sum(
        event["status"] == "success" for event in of_kind("paging_operation")
    )
    evictions = {row["number"]: row for row in rows["evictions"]}
    assert len(evictions) == len(rows["evictions"]) and evictions.keys() == {e["number"] for e in of_kind("evicted")}
    for event in of_kind("evicted"):
        row, reason = evictions[event["number"]], event["reason"]
        assert row["allocation"] == event["allocation"] and row["segment"] == event["segment"], row
        assert row["reason"] == (reason["kind"] if isinstance(reason, dict) else reason), row
        assert row["wanted_by_device"] == (event.get("wanted_by") or {}).get("device"), row
        assert row["bytes_out"] == (row["bytes"] if event["copied"] else 0), row
    assert {row["number"] for row in rows["page_ins"]} == {event["number"] for event in of_kind("placed")}
    created = {event["allocation"]: event["size"] for event in of_kind("allocation_created")}
    assert {row["allocation"]: row["bytes"] for row in rows["allocations"]} == created
    gone = {row["allocation"] for row in rows["allocations"] if row["gone_at"] is not None}
    assert gone == {event["allocation"] for event in of_kind("allocation_reclaimed")}
    assert len(rows["budgets"]) == len(of_kind("budget_changed"))
    packets = collections.Counter(row["content"] for row in rows["packets"])
    assert packets["work"] == len(of_kind("dispatched"))
    assert packets["paging"] == len(of_kind("paging_buffer_submitted"))
    assert all(row["queued_at"] <= row["started_at"] <= row["ended_at"] for row in rows["packets"])

    adapter = of_kind("adapter_started")[0]
    sizes = {segment["segment"]: segment["size"] for segment in adapter["memory"] + adapter["apertures"]}
    sizes[0] = adapter["system_commit_limit"]
    held = collections.Counter()
    for at, changes in itertools.groupby(rows["occupancy"], key=lambda row: row["at"]):
        for row in changes:
            held[row["segment"], row["process"], row["holding"]] = row["bytes"]
        for segment, size in sizes.items():
            # In system memory the room of an allocation that leaves is promised while it is still there.
            counts = lambda of, holding: of == segment and (segment != 0 or holding != "leaving")
            taken = sum(bytes for (of, _, holding), bytes in held.items() if counts(of, holding))
            assert taken <= size, f"{log}: segment {segment} has {taken} bytes of {size} at {at}"


for log, parquet, csv in zip(sys.argv[1::3], sys.argv[2::3], sys.argv[3::3], strict=True):
    judge(log, pathlib.Path(parquet), pathlib.Path(csv))
print(json.dumps(totals))
