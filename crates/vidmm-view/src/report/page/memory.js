// The memory map: the holders of all ranges of a segment at one moment.

const MAP_ROWS = 32;
const MAP_ROW_HEIGHT = 10;
const CHANGES_KEPT_APART = 4096;

// The holders of ranges at any time: states that are kept, and the changes after them.
class Ranges {
  constructor(table) {
    this.table = table;
    this.kept = [new Map()];
    this.last = 0;
  }

  // The ranges of a segment at a time: arrays [offset, end, holder, of], by their offsets.
  at(time, segment) {
    const until = above(this.table.at, time);
    const whole = Math.floor(until / CHANGES_KEPT_APART);
    while (this.kept.length <= whole) {
      const state = copied(this.kept[this.kept.length - 1]);
      const first = (this.kept.length - 1) * CHANGES_KEPT_APART;
      this.apply(state, first, first + CHANGES_KEPT_APART);
      this.kept.push(state);
    }
    const state = copied(this.kept[whole]);
    this.apply(state, whole * CHANGES_KEPT_APART, until);
    return state.get(segment) ?? [];
  }

  apply(state, first, until) {
    const { segment, offset, size, holder, of } = this.table;
    for (let row = first; row < until; row++) {
      let ranges = state.get(segment[row]);
      if (!ranges) state.set(segment[row], (ranges = []));
      setRange(ranges, [offset[row], offset[row] + size[row], holder[row], of[row]]);
    }
  }
}

const copied = (state) => new Map([...state].map(([segment, ranges]) => [segment, ranges.slice()]));

function setRange(ranges, made) {
  const [start, end, holder] = made;
  let low = 0;
  let high = ranges.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ranges[middle][1] > start) high = middle;
    else low = middle + 1;
  }
  let after = low;
  const rest = [];
  while (after < ranges.length && ranges[after][0] < end) {
    const range = ranges[after];
    if (range[0] < start) rest.push([range[0], start, range[2], range[3]]);
    if (range[1] > end) rest.push([end, range[1], range[2], range[3]]);
    after += 1;
  }
  if (holder !== 0) rest.push(made);
  rest.sort((a, b) => a[0] - b[0]);
  ranges.splice(low, after - low, ...rest);
}

class MemoryView {
  constructor(model, canvas, onSelect) {
    Object.assign(this, { model, canvas, onSelect });
    this.ranges = new Ranges(model.tables.ranges);
    this.segment = model.segments[0];
    this.shown = [];
    this.position = -1;
    canvas.addEventListener('click', (event) => this.choose(this.indexAt(event.offsetX, event.offsetY)));
    canvas.addEventListener('keydown', (event) => this.pressed(event));
  }

  show(at) {
    this.at = at;
    this.shown = this.segment ? this.ranges.at(at, this.segment.segment) : [];
    this.draw();
  }

  // Segments without an end of their own are drawn up to their last range.
  size() {
    const last = this.shown.length > 0 ? this.shown[this.shown.length - 1][1] : 0;
    const isBounded = this.segment.isMemory || this.segment.segment !== 0;
    return Math.max(isBounded ? this.segment.size : last, 1);
  }

  draw() {
    const { pen, width } = prepared(this.canvas, MAP_ROWS * MAP_ROW_HEIGHT);
    Object.assign(this, { width });
    if (!this.segment) return;
    pen.fillStyle = colours.hole;
    pen.fillRect(0, 0, width, MAP_ROWS * MAP_ROW_HEIGHT);
    this.shown.forEach((range, index) => this.drawRange(pen, range, index === this.position));
    const facts = this.facts();
    document.getElementById('map-facts').textContent = this.factsText(facts);
    this.canvas.setAttribute('aria-label', `Memory map of ${this.segment.name} at ${momentText(this.at)}: ${this.factsText(facts)}`);
  }

  drawRange(pen, [start, end, holder, of], isSelected) {
    const rowBytes = this.size() / MAP_ROWS;
    for (let row = Math.floor(start / rowBytes); row < MAP_ROWS && row * rowBytes < end; row++) {
      const from = Math.max(start, row * rowBytes) - row * rowBytes;
      const to = Math.min(end, (row + 1) * rowBytes) - row * rowBytes;
      const x = (from / rowBytes) * this.width;
      const long = Math.max(((to - from) / rowBytes) * this.width, 0.5);
      pen.fillStyle = this.colour(holder, of);
      pen.globalAlpha = holder === 2 ? 0.35 : 1;
      pen.fillRect(x, row * MAP_ROW_HEIGHT, long > 3 ? long - 0.7 : long, MAP_ROW_HEIGHT - 1);
      pen.globalAlpha = 1;
      if (isSelected) {
        pen.strokeStyle = colours.focus;
        pen.lineWidth = 2;
        pen.strokeRect(x, row * MAP_ROW_HEIGHT, long, MAP_ROW_HEIGHT - 1);
      }
    }
  }

  colour(holder, of) {
    if (holder === 3) return colours.paging;
    const process = of === 0 ? null : this.model.tables.allocations.process[of - 1];
    return colours.of[this.model.colourOfProcess.get(process) ?? 7];
  }

  rangeText([start, end, holder, of]) {
    const where = `${bytesText(end - start)} at ${start.toString(16).padStart(8, '0')}`;
    const allocation = of === 0 ? 'an allocation' : this.model.allocationText(of - 1);
    if (holder === 1) return `${allocation}, ${where}`;
    if (holder === 2) return `promised, while ${allocation} leaves it, ${where}`;
    return `page table of the ${of === 0 ? 'paging process' : processText(of - 1)}, ${where}`;
  }

  facts() {
    const facts = { taken: 0, promised: 0, tables: 0, holes: 0, largest: 0, free: 0 };
    let end = 0;
    const hole = (from, to) => {
      if (to <= from) return;
      facts.holes += 1;
      facts.free += to - from;
      facts.largest = Math.max(facts.largest, to - from);
    };
    for (const [start, stop, holder] of this.shown) {
      hole(end, start);
      end = stop;
      facts[holder === 1 ? 'taken' : holder === 2 ? 'promised' : 'tables'] += stop - start;
    }
    hole(end, this.size());
    return facts;
  }

  factsText({ taken, promised, tables, holes, largest, free }) {
    const scattered = free > 0 ? `, of which the largest hole has ${shareText(largest / free)}` : '';
    return `${bytesText(taken)} in allocations, ${bytesText(promised)} promised, ${bytesText(tables)} in page tables, ` +
      `${bytesText(free)} free in ${countText(holes)} ${holes === 1 ? 'hole' : 'holes'}${scattered}`;
  }

  indexAt(x, y) {
    const rowBytes = this.size() / MAP_ROWS;
    const offset = (Math.floor(y / MAP_ROW_HEIGHT) + x / this.width) * rowBytes;
    const slack = rowBytes / this.width;
    return this.shown.findIndex(([start, end]) => start - slack <= offset && offset < end + slack);
  }

  choose(index) {
    if (index < 0 || index >= this.shown.length) return;
    this.position = index;
    this.draw();
    const [, , holder, of] = this.shown[index];
    say(this.rangeText(this.shown[index]));
    if (holder !== 3 && of > 0) this.onSelect(of - 1);
  }

  pressed(event) {
    const to = { ArrowLeft: this.position - 1, ArrowRight: this.position + 1, Home: 0, End: this.shown.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.choose(Math.min(Math.max(to, 0), this.shown.length - 1));
  }
}
