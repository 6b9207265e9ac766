// What a reader should know first.

const SEVERITIES = ['Note', 'Warning', 'Error'];

// The findings that are told at once; the rest can be opened.
const FINDINGS_AT_ONCE = 8;

// Errors first, then what follows from the numbers, then warnings and notes.
function showFindings(model, place, open) {
  const { kinds, others } = model.facts.findings;
  const entry = ({ at, number, severity, allocation, text, count, lastAt }) => {
    const where = link(`event ${number}, ${momentText(at)}`, () => open.time(at));
    const more = allocation === null ? '' : link(model.allocationText(allocation), () => open.allocation(allocation));
    const again = count > 1 ? ` (${countText(count)} like this, up to ${momentText(lastAt)})` : '';
    return element('li', { class: `severity-${severity}` }, element('strong', {}, SEVERITIES[severity]), ' ', where, ' ', more, ' ',
      element('span', { class: 'said-text' }, text + again));
  };
  const isError = ({ severity }) => severity === 2;
  const errors = kinds.filter(isError).map(entry);
  const rest = kinds.filter((kind) => !isError(kind)).map(entry);
  if (others > 0) rest.push(element('li', {}, `and ${countText(others)} of other kinds`));
  if (model.facts.run.damage) errors.unshift(element('li', { class: 'severity-2' }, element('strong', {}, 'Log '), model.facts.run.damage));
  if (errors.length === 0) errors.push(element('li', {}, 'The log has no errors.'));
  const told = insights(model).map((text) => element('li', {}, text));
  const all = [...errors.splice(0, FINDINGS_AT_ONCE), ...told, ...rest.splice(0, FINDINGS_AT_ONCE)];
  const hidden = [...errors, ...rest];
  if (hidden.length > 0) {
    const summary = element('summary', {}, `${countText(hidden.length)} more`);
    all.push(element('li', {}, element('details', {}, summary, element('ul', {}, ...hidden))));
  }
  place.replaceChildren(...all);
}

// The statistics of each process in each segment.
function showSums(model, place) {
  const amount = (bytes) => (bytes === 0 ? '-' : bytesText(bytes));
  const rows = model.facts.statistics.map(({ process, memory, bytes, evicted }) => [process, memory, ...bytes.map(amount), evicted]);
  const titles = ['Process', 'Memory', 'Most at one time', 'Copied in', 'Copied out', 'Filled', 'Demoted', 'Evicted'];
  place.replaceChildren(plainTable('Bytes by process and segment', titles, rows));
}

// Sentences that follow from the numbers of the whole run.
function insights(model) {
  const { times, end, tables } = model;
  const { evictions: of } = tables;
  const sentences = [];
  if (times.paging > 0) {
    sentences.push(`Engines ran work for ${timeText(times.work)} and paging for ${timeText(times.paging)} of ${timeText(end)}. ` +
      `${shareText(times.hidden / times.paging)} of the paging was hidden behind work; ${shareText(times.lostToPaging / end)} of the time was lost to the rest.`);
  }
  if (times.waited > 0) sentences.push(`No engine ran for ${timeText(times.waited)} in which work was out of turn or waited for room.`);
  sentences.push(...busSentences(model));
  const sums = new Map();
  let [count, back, soon] = [0, 0, 0];
  for (let row = 0; row < of.rows; row++) {
    if (isOfDestroyed(model, row)) continue;
    count += 1;
    back += of.returnedAt[row] > 0 ? 1 : 0;
    soon += of.returnedAt[row] > 0 && of.returnedAt[row] - 1 - of.at[row] < end / 100 ? 1 : 0;
    if (of.allocation[row] === 0 || of.forDevice[row] === 0) continue;
    const pair = `${model.deviceText(tables.allocations.device[of.allocation[row] - 1])} to ${model.deviceText(of.forDevice[row] - 1)}`;
    const sum = sums.get(pair) ?? { bytes: 0, lost: 0 };
    sum.bytes += of.bytes[row];
    sum.lost += of.lostOut[row] + of.lostIn[row];
    sums.set(pair, sum);
  }
  if (count > 0) {
    sentences.push(`${countText(count)} living allocations were evicted. ${countText(back)} came back, ${countText(soon)} of them within a hundredth of the run.`);
  }
  for (const [pair, { bytes, lost }] of [...sums].sort((a, b) => b[1].lost - a[1].lost).slice(0, 3)) {
    sentences.push(`Room went from ${pair}: ${bytesText(bytes)} were evicted for it, and engines stood still for ${timeText(lost)}.`);
  }
  return sentences;
}

// The time that kernels lost to access over the bus: by device, with the allocation that cost most.
function busSentences(model) {
  const { busAccesses: of } = model.tables;
  const sums = new Map();
  for (let row = 0; row < of.rows; row++) {
    const device = model.deviceText(of.device[row]);
    const sum = sums.get(device) ?? { bytes: 0, lost: 0, each: new Map() };
    sum.bytes += of.bytes[row];
    sum.lost += of.lost[row];
    sum.each.set(of.allocation[row], (sum.each.get(of.allocation[row]) ?? 0) + of.lost[row]);
    sums.set(device, sum);
  }
  return [...sums].sort((a, b) => b[1].lost - a[1].lost).slice(0, 3).map(([device, { bytes, lost, each }]) => {
    const [worst, most] = [...each].sort((a, b) => b[1] - a[1])[0];
    const named = worst > 0 ? `, ${timeText(most)} of that for ${model.allocationText(worst - 1)}` : '';
    return `Kernels of ${device} lost ${timeText(lost)} to access over the bus (${bytesText(bytes)})${named}.`;
  });
}

// The time that is lost for a byte that is copied and for one that is filled: least squares over all paging buffers, of the time for
// which no work ran beside them.
function lostRates({ tables: { packets, operations }, facts, times }, copiedBytes) {
  const bytes = new Map();
  const kinds = facts.operationKinds.map((kind) => (kind.includes('TRANSFER') ? 0 : kind.includes('FILL') ? 1 : -1));
  for (let row = 0; row < operations.rows; row++) {
    const kind = kinds[operations.kind[row]];
    if (kind < 0 || operations.fence[row] === 0 || !operations.encoded[row]) continue;
    const sums = bytes.get(operations.fence[row] - 1) ?? [0, 0];
    sums[kind] += operations.bytes[row];
    bytes.set(operations.fence[row] - 1, sums);
  }
  let [cc, cf, ff, ct, ft] = [0, 0, 0, 0, 0];
  for (let row = 0; row < packets.rows; row++) {
    const sums = packets.paging[row] ? bytes.get(packets.fence[row]) : undefined;
    if (!sums) continue;
    const lost = packets.end[row] - packets.start[row] - packets.hidden[row];
    const [copied, filled] = sums;
    cc += copied * copied;
    cf += copied * filled;
    ff += filled * filled;
    ct += copied * lost;
    ft += filled * lost;
  }
  // A log of decisions has no operations: then all is lost to copies.
  if (cc + ff === 0) return { copied: times.lostToPaging / Math.max(copiedBytes, 1), filled: 0 };
  const whole = cc * ff - cf * cf;
  if (whole > 0) return { copied: Math.max(0, (ct * ff - ft * cf) / whole), filled: Math.max(0, (ft * cc - ct * cf) / whole) };
  return { copied: cc > 0 ? ct / cc : 0, filled: ff > 0 ? ft / ff : 0 };
}

// How much of the time would be lost with other sizes of memory.
class NeedView {
  constructor(model, { canvas, answer, input, table }) {
    Object.assign(this, { model, canvas, answer, input, table });
    const { pageIns, evictions } = model.tables;
    const sums = { copiedIn: 0, copiedOut: 0, filled: 0 };
    for (let row = 0; row < pageIns.rows; row++) {
      if (pageIns.content[row] === 1) sums.copiedIn += pageIns.bytes[row];
      if (pageIns.content[row] === 0) sums.filled += pageIns.bytes[row];
    }
    for (let row = 0; row < evictions.rows; row++) sums.copiedOut += evictions.bytesOut[row];
    this.sums = sums;
    this.rates = lostRates(model, sums.copiedIn + sums.copiedOut);
    this.points = model.facts.reuse.points.map(([memory, missed]) => ({ memory, missed, lost: this.lostShare(missed) }));
    input.addEventListener('input', () => this.draw());
  }

  lostShare(copiedIn) {
    const { times, end } = this.model;
    const out = this.sums.copiedIn > 0 ? this.sums.copiedOut / this.sums.copiedIn : 1;
    // Access over the bus is of allocations that may be in system memory: the size of memory does not change that.
    const lost = this.rates.copied * copiedIn * (1 + out) + this.rates.filled * this.sums.filled + times.bus;
    return lost / Math.max(end - times.lost + lost, 1);
  }

  // The least memory with which no more than a share of the time is lost.
  needed(share) {
    return this.points.find((point) => point.lost <= share);
  }

  draw() {
    const share = Math.min(Math.max(Number(this.input.value) || 0, 0), 100) / 100;
    const { pen, width, height } = prepared(this.canvas, 180);
    const most = Math.max(...this.points.map((point) => point.memory), 1) * 1.1;
    const top = Math.max(...this.points.map((point) => point.lost), share, 0.01);
    const x = (memory) => 50 + (memory / most) * (width - 60);
    const y = (lost) => height - 24 - (lost / top) * (height - 40);
    pen.strokeStyle = colours.paging;
    pen.lineWidth = 2;
    pen.beginPath();
    this.points.forEach(({ memory, lost }, i) => {
      if (i > 0) pen.lineTo(x(memory), y(this.points[i - 1].lost));
      pen.lineTo(x(memory), y(lost));
    });
    pen.lineTo(x(most), y(this.points[this.points.length - 1].lost));
    pen.stroke();
    pen.fillStyle = colours.still;
    pen.fillRect(50, y(share), width - 60, 1);
    label(pen, shareText(share), 46, y(share), colours.faint, 'right');
    for (let i = 0; i <= 4; i++) label(pen, bytesText((most * i) / 4), x((most * i) / 4), height - 8, colours.faint, i === 0 ? 'left' : i === 4 ? 'right' : 'center');
    const memory = this.model.facts.segments.find((segment) => segment.isMemory);
    if (memory && memory.size < most) {
      pen.fillStyle = colours.focus;
      pen.fillRect(x(memory.size), 10, 1.5, height - 34);
      label(pen, 'this run', x(memory.size) + 4, 14, colours.faint);
    }
    this.tell(share);
  }

  tell(share) {
    const point = this.needed(share);
    const fills = this.lostShare(0);
    const { times, end } = this.model;
    const parts = [['paging', times.lostToPaging], ['access over the bus', times.bus], ['turns and waiting for room', times.waited]];
    const named = parts.filter(([, lost]) => lost > 0).map(([name, lost]) => `${shareText(lost / end)} to ${name}`).join(', ');
    const text = point
      ? `To lose no more than ${shareText(share)} of its time, this workload would need about ${bytesText(point.memory)} of memory, page tables included.`
      : `No memory is enough for ${shareText(share)}: ${times.bus > 0 ? 'access over the bus and ' : ''}filling new allocations alone takes ${shareText(fills)}.`;
    this.answer.textContent = `${text} This run lost ${shareText(times.lost / end)}${named ? `: ${named}` : ''}.`;
    this.canvas.setAttribute('aria-label', text);
    const every = Math.max(1, Math.floor(this.points.length / 20));
    const rows = this.points.filter((_, i) => i % every === 0).map(({ memory, missed, lost }) => [bytesText(memory), bytesText(missed), shareText(lost)]);
    this.table.replaceChildren(plainTable('Time lost by memory', ['Memory', 'Copied in', 'Time lost'], rows));
  }
}
