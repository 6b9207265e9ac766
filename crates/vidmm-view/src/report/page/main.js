// Puts the views together.

const byId = (id) => document.getElementById(id);

function tell(model) {
  const { run } = model.facts;
  byId('title').textContent = run.scenario;
  document.title = `${run.scenario} - vidmm report`;
  byId('run').textContent = `${countText(run.events)} events, ${timeText(model.end)}, seed ${run.seed}, vidmm ${run.version}`;
  const settings = Object.entries(run.settings).flatMap(([name, value]) => [element('dt', {}, name), element('dd', {}, value)]);
  byId('settings').replaceChildren(...settings);
}

// Opens what the words in the search field name. Answers whether there is such a thing.
function openNamed(model, text, open) {
  const { allocations, packets } = model.tables;
  const [, kind, number, generation, device] = /^\s*(allocation|submission|frame)?\s*(\d+)(?:\.(\d+))?(?:\s+of\s+device\s+(\d+))?\s*$/i.exec(text) ?? [];
  if (number === undefined) return false;
  if (kind === undefined || kind.toLowerCase() === 'allocation') {
    for (let row = 0; row < allocations.rows; row++) {
      if (allocations.index[row] === Number(number) && allocations.generation[row] === Number(generation ?? 0)) return open.allocation(row), true;
    }
    return false;
  }
  const isOf = (row) => !packets.paging[row] && packets.submission[row] === Number(number) && (device === undefined || packets.device[row] === Number(device));
  for (let row = 0; row < packets.rows; row++) if (isOf(row)) return open.packet(row), true;
  return false;
}

function legend(model, timeline) {
  const items = new Map();
  for (const { layers } of timeline.segmentRows) for (const layer of layers) items.set(layer.title, colours.of[layer.colour % 8]);
  items.set('paging', colours.paging);
  items.set('engine stands still for paging', colours.still);
  items.set('out of turn, or evictions', colours.mark);
  byId('legend').replaceChildren(...[...items].map(([title, colour]) => {
    const swatch = element('span', { class: 'swatch' });
    swatch.style.background = colour;
    return element('li', {}, swatch, title);
  }));
}

// What the timeline shows, as a table; it is made when it is opened, and when the view has moved.
function timelineTable(model, timeline) {
  const place = byId('timeline-table');
  if (!place.parentElement.open) return;
  const { packets } = model.tables;
  const rows = [];
  for (const { title, order, starts, ends } of model.lanes) {
    const last = above(starts, timeline.to);
    for (let i = above(ends, timeline.from); i < last && rows.length < 300; i++) {
      const row = order[i];
      const what = packets.paging[row] ? `paging buffer ${packets.fence[row]}` : `submission ${packets.submission[row]} of ${model.deviceText(packets.device[row])}`;
      const waited = (model.waitsOfPacket.get(row) ?? []).reduce((sum, wait) => sum + waitLength(model, wait, 0), 0);
      rows.push([title, what, momentText(starts[i]), timeText(ends[i] - starts[i]), timeText(waited)]);
    }
  }
  const moments = Array.from({ length: 11 }, (_, i) => timeline.from + (i / 10) * (timeline.to - timeline.from));
  const sums = timeline.segmentRows.flatMap(({ segment, layers }) => layers.map((layer) =>
    [`${segment.name}, ${layer.title}`, ...moments.map((at) => bytesText(valueAt(layer, at)))]));
  place.replaceChildren(
    plainTable('Occupancy at eleven moments', ['Bytes', ...moments.map(momentText)], sums),
    plainTable('Packets, the first 300 in sight', ['Lane', 'Packet', 'Start', 'Time', 'Its engine stood still for it'], rows));
}

function mapTable(memory) {
  const place = byId('map-table');
  if (!place.parentElement.open) return;
  const rows = memory.shown.slice(0, 500).map((range) => [memory.rangeText(range)]);
  place.replaceChildren(plainTable(`The first ${rows.length} of ${memory.shown.length} ranges`, ['Range'], rows));
}

async function main() {
  const model = buildModel(await readData());
  readColours();
  tell(model);
  const open = {
    allocation: (row) => details.allocation(row),
    packet: (row) => timeline.select(row),
    time: (at) => {
      const half = (timeline.to - timeline.from) / 2;
      timeline.cursor = at;
      timeline.show(at - half, at + half);
      byId('timeline').focus();
    },
  };
  const details = new DetailsView(model, byId('details'), open);
  const moved = () => {
    const moment = byId('moment');
    moment.value = String(Math.round((1e4 * timeline.cursor) / model.end));
    moment.setAttribute('aria-valuetext', momentText(timeline.cursor));
    byId('moment-text').textContent = momentText(timeline.cursor);
    memory.show(timeline.cursor);
    timelineTable(model, timeline);
    mapTable(memory);
  };
  const timeline = new TimelineView(model, byId('timeline'), (packet) => details.packet(packet), moved);
  const memory = new MemoryView(model, byId('map'), open.allocation);
  const need = new NeedView(model, { canvas: byId('need'), answer: byId('need-answer'), input: byId('need-share'), table: byId('need-table') });
  showFindings(model, byId('findings'), open);
  evictionTable(model, byId('evictions'), open);
  slowTable(model, byId('submissions'), open);
  showSums(model, byId('sums'));
  listen(model, timeline, memory, open, moved);
  const draw = () => {
    readColours();
    timeline.draw();
    memory.draw();
    need.draw();
    legend(model, timeline);
  };
  moved();
  draw();
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  addEventListener('resize', draw);
  document.documentElement.dataset.ready = 'true';
  globalThis.report = { model, timeline, memory, need, open };
}

function listen(model, timeline, memory, open, moved) {
  const actions = {
    'zoom-in': () => timeline.zoom(0.5),
    'zoom-out': () => timeline.zoom(2),
    earlier: () => timeline.pan(-0.5),
    later: () => timeline.pan(0.5),
    whole: () => timeline.show(0, model.end),
  };
  for (const [id, action] of Object.entries(actions)) byId(id).addEventListener('click', action);
  byId('layers').addEventListener('change', (event) => {
    timeline.byProcess = event.target.value === 'process';
    timeline.layOut();
    timeline.draw();
    legend(model, timeline);
  });
  byId('moment').addEventListener('input', (event) => timeline.moveCursor((Number(event.target.value) * model.end) / 1e4));
  const choice = byId('segment');
  choice.replaceChildren(...model.segments.map(({ name }, i) => element('option', { value: i }, name)));
  choice.addEventListener('change', () => {
    memory.segment = model.segments[Number(choice.value)];
    memory.position = -1;
    moved();
  });
  byId('search').addEventListener('submit', (event) => {
    event.preventDefault();
    const text = byId('wanted').value;
    if (!openNamed(model, text, open)) say(`The run has no ${text}.`);
    else byId('details').scrollIntoView({ block: 'nearest' });
  });
  for (const id of ['timeline-table', 'map-table']) byId(id).parentElement.addEventListener('toggle', moved);
}

main().catch((error) => {
  byId('run').textContent = `This page cannot be shown: ${error.message}. It takes a browser of 2023 or later.`;
  throw error;
});
