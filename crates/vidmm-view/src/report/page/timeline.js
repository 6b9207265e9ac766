// The timeline: segments, engines and what they waited for, turns, evictions, on one axis of time.

const MARGIN = 150;
const SEGMENT_HEIGHT = 96;
const LANE_HEIGHT = 24;
const GAP = 10;
// The spans and arrows that are drawn one by one; of more, each pixel shows how much of its time is taken.
const SPANS_DRAWN = 3000;
const ARROWS_DRAWN = 150;

class TimelineView {
  constructor(model, canvas, onSelect, onMove) {
    Object.assign(this, { model, canvas, onSelect, onMove });
    this.from = 0;
    this.to = model.end;
    this.cursor = model.end / 2;
    this.byProcess = true;
    this.selected = null;
    this.lane = 0;
    this.devices = [...new Set(model.tables.suspensions.device)];
    this.budgets = this.budgetSteps();
    this.layOut();
    this.listen();
  }

  // The rows of the canvas from above.
  layOut() {
    const { model } = this;
    let y = 24;
    const row = (height, more) => {
      const made = { y, height, ...more };
      y += height + GAP;
      return made;
    };
    this.segmentRows = model.segments.map((segment) => row(SEGMENT_HEIGHT, { segment, layers: this.layersOf(segment) }));
    this.laneRows = model.lanes.map((lane) => row(LANE_HEIGHT, { lane }));
    this.turnRows = this.devices.map((device) => row(LANE_HEIGHT / 2, { device, spans: this.turnsOf(device) }));
    this.evictionRow = row(LANE_HEIGHT, {});
    this.height = y;
  }

  layersOf(segment) {
    return occupancyLayers(this.model, segment.segment, this.byProcess);
  }

  turnsOf(device) {
    const { suspensions } = this.model.tables;
    const rows = [];
    for (let row = 0; row < suspensions.rows; row++) if (suspensions.device[row] === device) rows.push(row);
    rows.sort((a, b) => suspensions.from[a] - suspensions.from[b]);
    return rows;
  }

  budgetSteps() {
    const { facts, tables } = this.model;
    return facts.processes.flatMap(([process]) => {
      const isOf = (group) => (row) => tables.budgets.process[row] === process && tables.budgets.group[row] === group;
      const colour = this.model.colourOfProcess.get(process);
      const groups = [0, 1].map((group) => ({ group, colour, process, ...stepsOf(tables.budgets, 'budget', isOf(group)) }));
      const listed = stepsOf(tables.listed, 'bytes', (row) => tables.listed.process[row] === process);
      return [...groups.filter((steps) => steps.times.length > 0), { group: null, colour, process, ...listed }];
    });
  }

  x(at) {
    return MARGIN + ((at - this.from) / (this.to - this.from)) * (this.width - MARGIN);
  }

  timeAt(x) {
    return this.from + ((x - MARGIN) / (this.width - MARGIN)) * (this.to - this.from);
  }

  draw() {
    const { pen, width } = prepared(this.canvas, this.height);
    Object.assign(this, { pen, width });
    this.drawAxis();
    this.segmentRows.forEach((row) => this.drawSegment(row));
    this.laneRows.forEach((row) => this.drawLane(row));
    this.turnRows.forEach((row) => this.drawTurns(row));
    this.drawEvictions();
    this.drawArrows();
    this.drawCursor();
    this.canvas.setAttribute('aria-label', `Timeline from ${momentText(this.from)} to ${momentText(this.to)}`);
  }

  drawAxis() {
    const { pen } = this;
    const moments = ticks(this.from, this.to, (this.width - MARGIN) / 110);
    const step = moments.length > 1 ? moments[1] - moments[0] : this.to - this.from;
    for (const at of moments) {
      const x = Math.round(this.x(at)) + 0.5;
      pen.fillStyle = colours.line;
      pen.fillRect(x, 18, 1, this.height - 18);
      label(pen, axisText(at, step), x, 9, colours.faint, 'center');
    }
  }

  // Layers one upon another, and a line where the sum was larger within a pixel.
  drawSegment({ y, height, segment, layers }) {
    const { pen, model } = this;
    const columns = Math.ceil(this.width - MARGIN);
    const scale = height / Math.max(segment.isMemory ? segment.size : this.most(layers), 1);
    pen.fillStyle = colours.panel;
    pen.fillRect(MARGIN, y, columns, height);
    const base = new Float64Array(columns);
    for (const layer of layers) {
      pen.fillStyle = colours.of[layer.colour % 8];
      pen.beginPath();
      pen.moveTo(MARGIN, y + height);
      const top = new Float64Array(columns);
      let next = above(layer.times, this.timeAt(MARGIN));
      for (let column = 0; column < columns; column++) {
        const at = this.timeAt(MARGIN + column + 0.5);
        next = advance(layer.times, next, at);
        top[column] = base[column] + (next === 0 ? 0 : layer.values[next - 1]);
        pen.lineTo(MARGIN + column, y + height - scale * top[column]);
        pen.lineTo(MARGIN + column + 1, y + height - scale * top[column]);
      }
      for (let column = columns - 1; column >= 0; column--) {
        pen.lineTo(MARGIN + column + 1, y + height - scale * base[column]);
        pen.lineTo(MARGIN + column, y + height - scale * base[column]);
      }
      pen.fill();
      base.set(top);
    }
    if (segment.isMemory || segment.group !== null) this.drawBudgets(segment, y, height, scale);
    label(pen, capitalised(segment.name), 4, y + 10);
    label(pen, bytesText(segment.size), 4, y + 26, colours.faint);
    label(pen, `now ${bytesText(this.bytesAt(layers, this.cursor))}`, 4, y + 42, colours.faint);
  }

  most(layers) {
    return layers.reduce((sum, { values }) => sum + values.reduce((most, value) => Math.max(most, value), 0), 0);
  }

  bytesAt(layers, at) {
    return layers.reduce((sum, layer) => sum + valueAt(layer, at), 0);
  }

  // Budgets are whole lines; what lists name is a line of dots.
  drawBudgets(segment, y, height, scale) {
    const { pen } = this;
    pen.save();
    pen.beginPath();
    pen.rect(MARGIN, y - 1, this.width - MARGIN, height + 2);
    pen.clip();
    const isFirst = this.model.segments.find((other) => other.group === segment.group) === segment;
    for (const steps of this.budgets) {
      if (!isFirst || (steps.group === null ? !segment.isMemory : steps.group !== segment.group)) continue;
      pen.setLineDash(steps.group === null ? [2, 3] : []);
      pen.strokeStyle = this.budgets.length > 2 ? colours.of[steps.colour] : colours.budget;
      pen.lineWidth = 1.5;
      pen.beginPath();
      let next = above(steps.times, this.from);
      for (let x = MARGIN; x < this.width; x++) {
        next = advance(steps.times, next, this.timeAt(x));
        if (next === 0) continue;
        pen.lineTo(x, y + height - scale * steps.values[next - 1]);
      }
      pen.stroke();
    }
    pen.restore();
  }

  drawLane({ y, height, lane }) {
    const { pen, model } = this;
    label(pen, lane.title, 4, y + height / 2);
    pen.fillStyle = colours.panel;
    pen.fillRect(MARGIN, y, this.width - MARGIN, height);
    this.drawSpans(lane.still, y + height - 5, 5, () => colours.still);
    const { packets } = model.tables;
    const colour = (i) => {
      const packet = lane.order[i];
      return packets.paging[packet] ? colours.paging : colours.of[model.colourOfDevice.get(packets.device[packet]) ?? 7];
    };
    this.drawSpans(lane, y, height - 6, colour, (i) => lane.order[i] === this.selected);
  }

  // Spans one by one, or, where there are too many, for each pixel the part of its time that they take.
  drawSpans(of, y, height, colour, isSelected = () => false) {
    const { pen } = this;
    const first = Math.max(0, above(of.ends, this.from));
    const last = above(of.starts, this.to);
    if (last - first <= SPANS_DRAWN) {
      for (let i = first; i < last; i++) {
        const x = Math.max(MARGIN, this.x(of.starts[i]));
        const width = Math.max(0.75, Math.min(this.width, this.x(of.ends[i])) - x - (this.x(of.ends[i]) - x > 3 ? 0.5 : 0));
        pen.fillStyle = colour(i);
        pen.fillRect(x, y, width, height);
        if (isSelected(i)) {
          pen.strokeStyle = colours.focus;
          pen.lineWidth = 2;
          pen.strokeRect(x - 1, y - 1, width + 2, height + 2);
        }
      }
      return;
    }
    let before = coveredUntil(of, this.from);
    for (let x = MARGIN; x < this.width; x++) {
      const end = this.timeAt(x + 1);
      const until = coveredUntil(of, end);
      const part = (until - before) / (end - this.timeAt(x));
      before = until;
      if (part <= 0) continue;
      pen.fillStyle = colour(Math.max(0, above(of.starts, end) - 1));
      pen.globalAlpha = 0.15 + 0.85 * Math.min(1, part);
      pen.fillRect(x, y, 1, height);
    }
    pen.globalAlpha = 1;
  }

  drawTurns({ y, height, device, spans: rows }) {
    const { pen, model } = this;
    const { suspensions } = model.tables;
    label(pen, `${deviceText(device)} out of turn`, 4, y + height / 2, colours.faint);
    pen.fillStyle = colours.mark;
    for (const row of rows) {
      const to = suspensions.to[row] === 0 ? model.end : suspensions.to[row] - 1;
      if (to < this.from || suspensions.from[row] > this.to) continue;
      const x = Math.max(MARGIN, this.x(suspensions.from[row]));
      pen.fillRect(x, y + 2, Math.max(1, Math.min(this.width, this.x(to)) - x), height - 4);
    }
  }

  // A bar for the evictions of each pixel, but for those of destroyed allocations.
  drawEvictions() {
    const { pen, model } = this;
    const { y, height } = this.evictionRow;
    const { evictions } = model.tables;
    label(pen, 'Evictions', 4, y + height / 2);
    const counts = new Uint32Array(Math.ceil(this.width - MARGIN) + 1);
    const first = above(model.evictionTimes, this.from);
    const last = above(model.evictionTimes, this.to);
    for (let i = first; i < last; i++) {
      if (isOfDestroyed(model, model.evictionOrder[i])) continue;
      counts[Math.floor(this.x(model.evictionTimes[i]) - MARGIN)] += 1;
    }
    const most = counts.reduce((a, b) => Math.max(a, b), 1);
    pen.fillStyle = colours.mark;
    counts.forEach((count, column) => {
      if (count === 0) return;
      const size = Math.max(3, (height * count) / most);
      pen.fillRect(MARGIN + column, y + height - size, 1.5, size);
    });
  }

  // From the end of a packet to the start of the work that waited for it.
  drawArrows() {
    const { pen, model } = this;
    const { waits, packets } = model.tables;
    model.lanes.forEach(({ still }, engine) => {
      const first = above(still.ends, this.from);
      const last = above(still.starts, this.to);
      if (last - first > ARROWS_DRAWN) return;
      for (let i = first; i < last; i++) {
        const row = still.order[i];
        const on = model.packetByFence(waits.a[row], waits.b[row]);
        const source = on === undefined ? undefined : this.laneRows[packets.engine[on]];
        if (!source || waits.to[row] > this.to) continue;
        const target = this.laneRows[engine];
        arrow(pen, this.x(packets.end[on]), source.y + source.height - 6, this.x(waits.to[row]), target.y);
      }
    });
  }

  drawCursor() {
    const { pen } = this;
    const x = Math.round(this.x(this.cursor)) + 0.5;
    if (x < MARGIN || x > this.width) return;
    pen.fillStyle = colours.focus;
    pen.fillRect(x - 0.5, 18, 1.5, this.height);
  }

  // Shows a part of the run, which is never less than a microsecond.
  show(from, to) {
    const length = Math.min(Math.max(to - from, 1e3), this.model.end);
    this.from = Math.min(Math.max(0, from), this.model.end - length);
    this.to = this.from + length;
    this.draw();
    this.onMove();
  }

  zoom(factor, around = (this.from + this.to) / 2) {
    this.show(around - (around - this.from) * factor, around + (this.to - around) * factor);
  }

  pan(part) {
    const by = part * (this.to - this.from);
    this.show(this.from + by, this.to + by);
  }

  moveCursor(at) {
    this.cursor = Math.min(Math.max(0, at), this.model.end);
    this.draw();
    this.onMove();
  }

  // Selects a packet and brings it into sight.
  select(packet) {
    const { packets } = this.model.tables;
    this.selected = packet;
    this.lane = packets.engine[packet];
    const [start, end] = [packets.start[packet], packets.end[packet]];
    this.cursor = start;
    const length = Math.max(this.to - this.from, 1);
    if (start < this.from || end > this.to) {
      const wide = Math.max(Math.min(length, 20 * (end - start)), end - start);
      this.show((start + end - wide) / 2, (start + end + wide) / 2);
    } else {
      this.draw();
      this.onMove();
    }
    this.onSelect(packet);
  }

  // The next or last packet of the lane.
  step(by) {
    const { order, starts } = this.model.lanes[this.lane];
    if (order.length === 0) return;
    const present = this.selected === null ? -1 : order.indexOf(this.selected);
    const from = present >= 0 ? present + by : above(starts, this.from) - (by > 0 ? 0 : 1);
    this.select(order[Math.min(Math.max(from, 0), order.length - 1)]);
  }

  changeLane(by) {
    const lanes = this.model.lanes.length;
    this.lane = (this.lane + by + lanes) % lanes;
    this.selected = null;
    this.draw();
    say(this.model.lanes[this.lane].title);
  }

  packetAt(x, y) {
    const row = this.laneRows.find((lane) => y >= lane.y && y < lane.y + lane.height);
    if (!row) return undefined;
    const at = this.timeAt(x);
    const slack = 3 * ((this.to - this.from) / this.width);
    const near = above(row.lane.starts, at + slack) - 1;
    return near >= 0 && row.lane.ends[near] >= at - slack ? row.lane.order[near] : undefined;
  }

  listen() {
    const { canvas } = this;
    let held = null;
    canvas.addEventListener('wheel', (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;
      event.preventDefault();
      const by = event.deltaY || event.deltaX;
      if (event.shiftKey) this.pan(by / 1000);
      else this.zoom(1.0015 ** by, this.timeAt(event.offsetX));
    }, { passive: false });
    canvas.addEventListener('pointerdown', (event) => {
      held = { x: event.offsetX, from: this.from, to: this.to, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', (event) => {
      if (!held) return;
      const by = ((event.offsetX - held.x) / (this.width - MARGIN)) * (held.to - held.from);
      held.moved ||= Math.abs(event.offsetX - held.x) > 3;
      if (held.moved) this.show(held.from - by, held.to - by);
    });
    canvas.addEventListener('pointerup', (event) => {
      if (held && !held.moved) this.clicked(event.offsetX, event.offsetY);
      held = null;
    });
    canvas.addEventListener('dblclick', (event) => this.zoom(0.25, this.timeAt(event.offsetX)));
    canvas.addEventListener('keydown', (event) => this.pressed(event));
  }

  clicked(x, y) {
    const packet = this.packetAt(x, y);
    if (packet === undefined) this.moveCursor(this.timeAt(x));
    else this.select(packet);
  }

  pressed(event) {
    const actions = {
      ArrowLeft: () => this.pan(-0.2),
      ArrowRight: () => this.pan(0.2),
      '+': () => this.zoom(0.5),
      '=': () => this.zoom(0.5),
      '-': () => this.zoom(2),
      0: () => this.show(0, this.model.end),
      ArrowUp: () => this.changeLane(-1),
      ArrowDown: () => this.changeLane(1),
      '.': () => this.step(1),
      ',': () => this.step(-1),
      '[': () => this.moveCursor(this.cursor - (this.to - this.from) / 50),
      ']': () => this.moveCursor(this.cursor + (this.to - this.from) / 50),
    };
    const action = actions[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  }
}

// The index behind the last time that is not after `at`, which rises from call to call.
function advance(times, next, at) {
  if (next < times.length && times[next] <= at) {
    if (next + 8 < times.length && times[next + 8] <= at) return above(times, at);
    while (next < times.length && times[next] <= at) next += 1;
  }
  return next;
}

const isOfDestroyed = (model, row) =>
  model.facts.reasons[model.tables.evictions.reason[row]] === 'because it was destroyed';

function arrow(pen, fromX, fromY, toX, toY) {
  pen.strokeStyle = colours.still;
  pen.fillStyle = colours.still;
  pen.lineWidth = 1;
  pen.beginPath();
  pen.moveTo(fromX, fromY);
  const bend = toY > fromY ? 10 : -10;
  pen.bezierCurveTo(fromX, fromY + bend, toX, toY - bend, toX, toY - Math.sign(bend) * 3);
  pen.stroke();
  pen.beginPath();
  pen.moveTo(toX, toY);
  pen.lineTo(toX - 3, toY - Math.sign(bend) * 5);
  pen.lineTo(toX + 3, toY - Math.sign(bend) * 5);
  pen.fill();
}
