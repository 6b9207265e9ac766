// The run: its numbers, put in the orders in which they are drawn and looked up.

function buildModel({ facts, tables }) {
  const model = { facts, tables, end: Math.max(facts.end, facts.run.lastAt, 1) };
  model.segments = facts.segments.filter((segment) => segment.isMemory || hasOccupancy(facts, segment));
  model.allocationText = (row) => {
    const { index, generation } = tables.allocations;
    return `allocation ${index[row]}${generation[row] > 0 ? `.${generation[row]}` : ''}`;
  };
  model.segmentText = (number) => facts.segments.find((segment) => segment.segment === number)?.name ?? `segment ${number}`;
  model.processOfDevice = new Map(facts.devices.map(([device, process]) => [device, process]));
  model.deviceText = (device) => {
    const process = model.processOfDevice.get(device);
    return process === undefined ? deviceText(device) : `${deviceText(device)} of ${processText(process)}`;
  };
  model.colourOfProcess = new Map(facts.processes.map(([process], position) => [process, position % 8]));
  model.colourOfDevice = new Map(facts.devices.map(([device], position) => [device, position % 8]));
  model.lanes = engineLanes(model);
  indexPackets(model);
  indexWaits(model);
  model.evictionOrder = sortedBy(tables.evictions.at);
  model.evictionTimes = picked(tables.evictions.at, model.evictionOrder);
  model.evictionsOf = evictionsByAllocation(model);
  model.times = times(model);
  return model;
}

const hasOccupancy = (facts, segment) => facts.accounts.some(([of]) => of === segment.segment);

// One lane for each engine: its packets by their starts, and the time for which it had run before each.
function engineLanes({ facts, tables }) {
  const { packets } = tables;
  const rows = facts.engines.map(() => []);
  for (let row = 0; row < packets.rows; row++) rows[packets.engine[row]]?.push(row);
  return facts.engines.map((kind, engine) => {
    const order = Uint32Array.from(rows[engine]).sort((a, b) => packets.start[a] - packets.start[b]);
    const starts = picked(packets.start, order);
    const ends = picked(packets.end, order);
    return { kind, engine, order, ...spans(starts, ends), title: `Engine ${engine} (${kind})` };
  });
}

// Spans that do not overlap, with the sum of those before each.
function spans(starts, ends) {
  const before = new Float64Array(starts.length + 1);
  for (let i = 0; i < starts.length; i++) before[i + 1] = before[i] + (ends[i] - starts[i]);
  return { starts, ends, before };
}

// The part of all spans that lies before a time.
function coveredUntil({ starts, ends, before }, at) {
  const next = above(starts, at);
  if (next === 0) return 0;
  return before[next - 1] + Math.min(at, ends[next - 1]) - starts[next - 1];
}

const submissionKey = (device, submission) => device * 2 ** 31 + submission;

function indexPackets(model) {
  const { packets } = model.tables;
  model.packetOfSubmission = new Map();
  model.packetOfFence = new Map();
  for (let row = 0; row < packets.rows; row++) {
    model.packetOfFence.set(packets.engine[row] * 2 ** 44 + packets.fence[row], row);
    if (!packets.paging[row]) {
      model.packetOfSubmission.set(submissionKey(packets.device[row], packets.submission[row]), row);
    }
  }
  model.packetByFence = (engine, fence) => model.packetOfFence.get(engine * 2 ** 44 + fence);
}

// Waits of each packet; and for each engine the time for which it stood still for a packet of another.
function indexWaits(model) {
  const { waits, packets } = model.tables;
  model.waitsOfPacket = new Map();
  const still = model.lanes.map(() => []);
  for (let row = 0; row < waits.rows; row++) {
    const packet = model.packetOfSubmission.get(submissionKey(waits.device[row], waits.submission[row]));
    if (packet === undefined) continue;
    const known = model.waitsOfPacket.get(packet);
    if (known) known.push(row);
    else model.waitsOfPacket.set(packet, [row]);
    if (waits.on[row] === 0) still[packets.engine[packet]].push(row);
  }
  model.lanes.forEach((lane, engine) => {
    const order = Uint32Array.from(still[engine]).sort((a, b) => waits.from[a] - waits.from[b]);
    lane.still = { order, ...spans(picked(waits.from, order), picked(waits.to, order)) };
  });
}

// The evictions of each living allocation, in the order of time.
function evictionsByAllocation(model) {
  const { evictions } = model.tables;
  const known = new Map();
  for (const row of model.evictionOrder) {
    if (evictions.allocation[row] === 0) continue;
    const allocation = evictions.allocation[row] - 1;
    if (!known.has(allocation)) known.set(allocation, []);
    known.get(allocation).push(row);
  }
  return known;
}

// How long the allocation that came into the room stayed after an eviction; none if the log names no single one.
function stayOfOther(model, row) {
  const { evictions } = model.tables;
  if (evictions.forAllocation[row] === 0) return null;
  const later = model.evictionsOf.get(evictions.forAllocation[row] - 1) ?? [];
  const left = later.find((other) => evictions.at[other] > evictions.at[row]);
  return (left === undefined ? model.end : evictions.at[left]) - evictions.at[row];
}

// Whether an eviction was worth it: the victim stayed away, or the other left before it was back, or no engine stood still.
function worthOf(model, row) {
  const { evictions: of } = model.tables;
  if (of.movedTo[row] !== 0) return 'moved';
  if (of.returnedAt[row] === 0) return 'yes: it never came back';
  if (of.lostOut[row] + of.lostIn[row] === 0) return 'yes: no engine stood still';
  const stay = stayOfOther(model, row);
  if (stay === null) return 'the room was for several';
  const away = of.returnedAt[row] - 1 - of.at[row];
  return away >= stay ? `yes: the other left after ${timeText(stay)}` : `no: the other stayed for ${timeText(stay)}`;
}

// The length of intervals that may overlap.
function lengthOf(intervals) {
  let [length, covered] = [0, 0];
  for (const [from, to] of intervals.sort((a, b) => a[0] - b[0])) {
    length += Math.max(0, to - Math.max(covered, from));
    covered = Math.max(covered, to);
  }
  return length;
}

// Where the time went: of work, of paging, of paging beside work, and lost: to paging, to access over the bus, and to turns and waiting for
// room while no engine ran. Time counts once.
function times(model) {
  const { packets, waits, busAccesses } = model.tables;
  const order = sortedBy(packets.start);
  const sums = { work: 0, paging: 0, hidden: 0, copied: 0, filled: 0 };
  let covered = 0;
  for (const row of order) {
    if (packets.paging[row]) {
      sums.paging += packets.end[row] - packets.start[row];
      sums.hidden += packets.hidden[row];
    } else {
      sums.work += Math.max(0, packets.end[row] - Math.max(covered, packets.start[row]));
      covered = Math.max(covered, packets.end[row]);
    }
  }
  sums.lostToPaging = sums.paging - sums.hidden;
  sums.bus = busAccesses.lost.reduce((sum, lost) => sum + lost, 0);
  const ran = Array.from(order, (row) => [packets.start[row], packets.end[row]]);
  // Turns and requests, as `WaitedFor` has them.
  const waited = [];
  for (let row = 0; row < waits.rows; row++) if (waits.on[row] === 2 || waits.on[row] === 4) waited.push([waits.from[row], waits.to[row]]);
  sums.waited = lengthOf([...ran, ...waited]) - lengthOf(ran);
  sums.lost = sums.lostToPaging + sums.waited + sums.bus;
  return sums;
}

// The steps of all sums of a segment that count in one layer, for layers by process or by reason.
function occupancyLayers(model, segment, byProcess) {
  const { facts, tables } = model;
  const layerOf = new Map();
  const layers = [];
  facts.accounts.forEach(([of, process, holding], account) => {
    if (of !== segment) return;
    const key = byProcess ? process : holding;
    let layer = layers.find((known) => known.key === key);
    if (!layer) {
      const colour = byProcess ? (model.colourOfProcess.get(process) ?? 7) : holding;
      const title = byProcess ? processText(process) : facts.holdings[holding];
      layer = { key, title, colour, times: [], values: [], sum: 0 };
      layers.push(layer);
    }
    layerOf.set(account, layer);
  });
  const now = new Map();
  const { at, account, bytes } = tables.occupancy;
  for (let row = 0; row < tables.occupancy.rows; row++) {
    const layer = layerOf.get(account[row]);
    if (!layer) continue;
    layer.sum += bytes[row] - (now.get(account[row]) ?? 0);
    now.set(account[row], bytes[row]);
    const last = layer.times.length - 1;
    if (last >= 0 && layer.times[last] === at[row]) {
      layer.values[last] = layer.sum;
    } else {
      layer.times.push(at[row]);
      layer.values.push(layer.sum);
    }
  }
  layers.sort((a, b) => (a.key ?? -1) - (b.key ?? -1));
  for (const layer of layers) {
    layer.times = Float64Array.from(layer.times);
    layer.values = Float64Array.from(layer.values);
  }
  return layers;
}

// The value of a step function.
function valueAt({ times, values }, at) {
  const next = above(times, at);
  return next === 0 ? 0 : values[next - 1];
}

// The steps of a table for one process: the budgets in a group, or what lists name.
function stepsOf(table, column, isOf) {
  const times = [];
  const values = [];
  for (let row = 0; row < table.rows; row++) {
    if (!isOf(row)) continue;
    times.push(table.at[row]);
    values.push(table[column][row]);
  }
  return { times: Float64Array.from(times), values: Float64Array.from(values) };
}
