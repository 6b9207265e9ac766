"""Judges traces for Perfetto by Perfetto's own messages, beside the logs that they are of.

Arguments: EVENTS.jsonl TRACE.pftrace, as often as there are logs. Prints a line of JSON with the sums of all traces.
"""

import collections
import json
import sys

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as perfetto

BEGIN = perfetto.TrackEvent.TYPE_SLICE_BEGIN
END = perfetto.TrackEvent.TYPE_SLICE_END
COUNTER = perfetto.TrackEvent.TYPE_COUNTER
totals = collections.Counter()


def known_fields_only(message):
    assert len(UnknownFieldSet(message)) == 0, message
    for _, value in message.ListFields():
        for part in value if hasattr(value, "__iter__") and not isinstance(value, (str, bytes)) else [value]:
            if hasattr(part, "ListFields"):
                known_fields_only(part)


def packets(path):
    """The packets one by one, each parsed alone."""
    data, at = open(path, "rb").read(), 0
    while at < len(data):
        assert data[at] == 0x0A, f"{path}: no packet at byte {at}"
        length, shift, at = 0, 0, at + 1
        while True:
            byte, at = data[at], at + 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        packet = perfetto.TracePacket()
        assert packet.ParseFromString(data[at : at + length]) == length
        known_fields_only(packet)
        yield packet
        at += length


class Trace:
    def __init__(self, path):
        self.tracks, self.parents = {}, {}
        self.pids = set()
        self.last = collections.defaultdict(int)
        self.open = collections.defaultdict(list)
        self.begins, self.ends = {}, {}
        self.slices = collections.Counter()
        self.most = collections.Counter()
        for packet in packets(path):
            if packet.HasField("track_descriptor"):
                self.describe(packet.track_descriptor)
            else:
                self.event(packet, packet.track_event)
        for track, stack in self.open.items():
            assert not stack, f"a slice of {self.tracks[track]} has no end"
        assert self.begins.keys() == self.ends.keys(), "flows have both ends"
        for flow, at in self.begins.items():
            assert at <= self.ends[flow], f"flow {flow} leads back in time"

    def describe(self, track):
        assert track.uuid and track.uuid not in self.tracks, "a track is described once"
        if track.HasField("process"):
            assert track.process.pid > 0 and track.process.pid not in self.pids
            self.pids.add(track.process.pid)
        name = track.process.process_name or track.name
        assert name, track
        if track.parent_uuid:
            assert track.parent_uuid in self.tracks, "a parent is described before its child"
            name = f"{self.tracks[track.parent_uuid][0]}/{name}"
        self.tracks[track.uuid] = (name, track.HasField("counter"))
        if track.HasField("counter"):
            assert track.counter.unit == perfetto.CounterDescriptor.UNIT_SIZE_BYTES

    def event(self, packet, event):
        sequence, at, track = packet.trusted_packet_sequence_id, packet.timestamp, event.track_uuid
        assert packet.HasField("timestamp") and sequence and track in self.tracks, packet
        assert self.last[sequence] <= at, f"time falls in sequence {sequence}: {packet}"
        self.last[sequence] = at
        name, is_counter = self.tracks[track]
        assert is_counter == (event.type == COUNTER), packet
        if event.type == COUNTER:
            assert event.counter_value >= 0
            self.most[name] = max(self.most[name], event.counter_value)
            totals["counter values"] += 1
        elif event.type == BEGIN:
            assert event.name and len(event.categories) == 1, packet
            for flow in event.flow_ids:
                assert flow not in self.begins, f"flow {flow} begins twice"
                self.begins[flow] = at
            for flow in event.terminating_flow_ids:
                assert flow not in self.ends, f"flow {flow} ends twice"
                self.ends[flow] = at
            self.open[track].append((at, event.categories[0]))
        else:
            assert event.type == END, packet
            begun, category = self.open[track].pop()
            assert begun <= at, packet
            self.slices[category] += 1


def operations_in_packets(lines):
    """How many operations drivers have encoded in paging buffers that were submitted."""
    building, submitted = [], 0
    for line in lines:
        if line.get("event") == "paging_operation":
            building.append(line["status"] == "success")
            if line["offset"] == line["bytes"] == 0 and len(building) == 1:
                building.clear()  # The CPU has carried it out.
        elif line.get("event") == "paging_buffer_submitted":
            submitted += sum(building)
            building.clear()
    return submitted


def judge(log, path):
    trace = Trace(path)
    counts = collections.Counter()
    lines = [json.loads(line) for line in open(log)]
    counts.update(line["event"] for line in lines if "event" in line)
    assert trace.slices["work"] == counts["dispatched"], f"{log}: each packet of work has a slice"
    assert trace.slices["paging"] == counts["paging_buffer_submitted"], f"{log}: each paging buffer has a slice"
    assert trace.slices["submission"] <= trace.slices["work"], log
    asked = operations_in_packets(lines)
    adapter = next(line for line in lines if line.get("event") == "adapter_started")
    # A packet that came back has another fence.
    undisturbed = not (counts["aborted"] or counts["resubmitted"])
    shown = trace.slices["operation"]
    assert shown == asked or shown < asked and not undisturbed, f"{log}: {shown} of {asked} operations have a slice"
    sizes = [segment["size"] for segment in adapter["memory"] + adapter["apertures"]]
    # In system memory the room of an allocation that leaves is promised while it is still there.
    others = ["memory/" + name for name in ("copied in", "copied out", "filled", "system memory")]
    for name, most in trace.most.items():
        is_segment = name.startswith("memory/") and name not in others
        assert not is_segment or most <= max(sizes), f"{log}: {name} has {most} bytes of {sizes}"
    totals.update(trace.slices)
    totals["asked operations"] += asked
    totals["flows"] += len(trace.begins)
    totals["wait flows"] += len(trace.begins) - trace.slices["submission"]
    totals["tracks"] += len(trace.tracks)
    totals["processes"] += len(trace.pids)


for log, path in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
    judge(log, path)
print(json.dumps(totals))
