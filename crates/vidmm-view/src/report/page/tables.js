// Tables that can be sorted: of all rows, one page is in the document.

const ROWS_SHOWN = 25;

class SortableTable {
  // Columns are { title, value(row), text(row), node(row) }: `node` makes a cell's content where text alone will not do.
  constructor(place, { caption, columns, rows, sort, descending = true }) {
    Object.assign(this, { place, columns, all: rows, rows, sort, descending });
    this.page = 0;
    this.head = element('tr');
    this.body = element('tbody');
    this.count = element('span', { 'aria-live': 'polite' });
    this.filter = element('input', { type: 'search', 'aria-label': `Filter: ${caption}`, placeholder: 'filter, such as allocation 7' });
    this.filter.addEventListener('input', () => this.narrow());
    const turn = (by) => () => this.turn(by);
    const pager = element('div', { class: 'bar' }, this.filter,
      element('button', { type: 'button', onclick: turn(-1) }, 'Previous rows'),
      element('button', { type: 'button', onclick: turn(1) }, 'Next rows'), this.count);
    const table = element('table', {}, element('caption', {}, caption), element('thead', {}, this.head), this.body);
    place.replaceChildren(pager, element('div', { class: 'wide' }, table));
    this.order();
  }

  turn(by) {
    const pages = Math.max(1, Math.ceil(this.rows.length / ROWS_SHOWN));
    this.page = Math.min(Math.max(0, this.page + by), pages - 1);
    this.fill();
  }

  narrow() {
    const wanted = this.filter.value.trim().toLowerCase();
    const has = (row) => this.columns.some((column) => column.text(row).toLowerCase().includes(wanted));
    this.rows = wanted === '' ? this.all : this.all.filter(has);
    this.order();
  }

  order() {
    const { value } = this.columns[this.sort];
    const sign = this.descending ? -1 : 1;
    this.rows = this.rows.slice().sort((a, b) => sign * (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0));
    this.page = 0;
    this.head.replaceChildren(...this.columns.map((column, index) => this.heading(column, index)));
    this.fill();
  }

  heading({ title }, index) {
    const isSorted = index === this.sort;
    const sorted = isSorted ? (this.descending ? 'descending' : 'ascending') : 'none';
    const sign = isSorted ? (this.descending ? ' ▾' : ' ▴') : '';
    const sort = () => {
      this.descending = isSorted ? !this.descending : true;
      this.sort = index;
      this.order();
      this.head.children[index].firstChild.focus();
    };
    return element('th', { scope: 'col', 'aria-sort': sorted }, element('button', { type: 'button', onclick: sort }, title + sign));
  }

  fill() {
    const first = this.page * ROWS_SHOWN;
    const shown = this.rows.slice(first, first + ROWS_SHOWN);
    this.body.replaceChildren(...shown.map((row) =>
      element('tr', {}, ...this.columns.map(({ text, node }) => element('td', {}, node ? node(row) : text(row))))));
    const last = first + shown.length;
    this.count.textContent = shown.length === 0 ? 'no rows' : `${countText(first + 1)} to ${countText(last)} of ${countText(this.rows.length)}`;
  }
}

// A small table without order, as the other form of a drawing.
function plainTable(caption, titles, rows) {
  const head = element('tr', {}, ...titles.map((title) => element('th', { scope: 'col' }, title)));
  const body = rows.map((row) => element('tr', {}, ...row.map((cell) => element('td', {}, cell))));
  return element('table', {}, element('caption', {}, caption), element('thead', {}, head), element('tbody', {}, ...body));
}

function link(text, action) {
  return element('button', { type: 'button', class: 'link', onclick: action }, text);
}

function evictionTable(model, place, open) {
  const { evictions: of, allocations } = model.tables;
  const rows = [];
  for (let row = 0; row < of.rows; row++) if (!isOfDestroyed(model, row)) rows.push(row);
  const cost = (row) => of.lostOut[row] + of.lostIn[row];
  const victim = (row) => (of.allocation[row] === 0 ? 'unknown' : model.allocationText(of.allocation[row] - 1));
  const beneficiary = (row) => {
    if (of.forDevice[row] === 0) return 'none named';
    const device = model.deviceText(of.forDevice[row] - 1);
    const into = of.forAllocation[row] === 0 ? '' : ` for ${model.allocationText(of.forAllocation[row] - 1)}`;
    return device + into;
  };
  const back = (row) => {
    if (of.movedTo[row] !== 0) return `moved to ${model.segmentText(of.movedTo[row] - 1)}`;
    return of.returnedAt[row] === 0 ? 'never' : timeText(of.returnedAt[row] - 1 - of.at[row]);
  };
  const away = (row) => (of.returnedAt[row] === 0 ? Infinity : of.returnedAt[row] - 1 - of.at[row]);
  const number = (title, value, text) => ({ title, value, text: (row) => text(value(row)) });
  return new SortableTable(place, {
    caption: 'Evictions of living allocations, with their cost',
    rows,
    sort: 8,
    columns: [
      { ...number('Time', (row) => of.at[row], momentText), node: (row) => link(momentText(of.at[row]), () => open.time(of.at[row])) },
      {
        title: 'Victim',
        value: (row) => of.allocation[row],
        text: victim,
        node: (row) => (of.allocation[row] === 0 ? 'unknown' : link(victim(row), () => open.allocation(of.allocation[row] - 1))),
      },
      {
        title: 'Of',
        value: (row) => of.process[row],
        text: (row) => (of.allocation[row] === 0 ? '' : model.deviceText(allocations.device[of.allocation[row] - 1])),
      },
      { title: 'From', value: (row) => of.segment[row], text: (row) => model.segmentText(of.segment[row]) },
      { title: 'Beneficiary', value: beneficiary, text: beneficiary },
      { title: 'Reason', value: (row) => of.reason[row], text: (row) => model.facts.reasons[of.reason[row]].replace(/^because /, '') },
      number('Copied out', (row) => of.bytesOut[row], bytesText),
      number('Copied back', (row) => of.bytesIn[row], bytesText),
      number('Engines stood still', cost, timeText),
      { title: 'Back after', value: away, text: back },
      { title: 'Worth it', value: (row) => worthOf(model, row), text: (row) => worthOf(model, row) },
    ],
  });
}

function slowTable(model, place, open) {
  const { packets } = model.tables;
  const rows = [];
  for (let row = 0; row < packets.rows; row++) if (!packets.paging[row]) rows.push(row);
  const took = (row) => packets.end[row] - packets.submitted[row];
  const name = (row) => `submission ${packets.submission[row]} of ${model.deviceText(packets.device[row])}`;
  const waited = (row) => (model.waitsOfPacket.get(row) ?? []).reduce((sum, wait) => sum + waitLength(model, wait, 0), 0);
  return new SortableTable(place, {
    caption: 'Submissions, the slowest first',
    rows,
    sort: 1,
    columns: [
      { title: 'Submission', value: (row) => packets.submission[row], text: name, node: (row) => link(name(row), () => open.packet(row)) },
      { title: 'From call to end', value: took, text: (row) => timeText(took(row)) },
      { title: 'Ran', value: (row) => packets.end[row] - packets.start[row], text: (row) => timeText(packets.end[row] - packets.start[row]) },
      { title: 'Engine stood still for it', value: waited, text: (row) => timeText(waited(row)) },
      { title: 'Submitted at', value: (row) => packets.submitted[row], text: (row) => momentText(packets.submitted[row]) },
    ],
  });
}

// The length of a wait, if it is of this kind.
function waitLength({ tables: { waits } }, row, on) {
  return waits.on[row] === on ? waits.to[row] - waits.from[row] : 0;
}
