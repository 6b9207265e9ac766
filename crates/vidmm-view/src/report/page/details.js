// The details of one thing: an allocation, or a packet.

const STORIES_IN_A_BLOCK = 64;

class DetailsView {
  constructor(model, place, open) {
    Object.assign(this, { model, place, open });
    this.blocks = new Map();
  }

  set(title, ...children) {
    const heading = element('h3', { tabindex: -1 }, title);
    this.place.replaceChildren(heading, ...children);
    say(`Details of ${title}`);
    return heading;
  }

  // An allocation: its facts, and its life as `vidmm explain` tells it.
  async allocation(row) {
    const { allocations: of } = this.model.tables;
    const name = this.model.allocationText(row);
    const story = element('pre', { class: 'story', tabindex: 0, 'aria-label': `The life of ${name}` }, 'reading ...');
    const heading = this.set(capitalised(name),
      element('p', {}, `${bytesText(of.size[row])}, of ${this.model.deviceText(of.device[row])}, created at ${momentText(of.created[row])} (event ${of.number[row]}).`),
      this.evictionsOf(row), story);
    heading.focus();
    story.textContent = await this.storyOf(row);
  }

  evictionsOf(row) {
    const { evictions: of } = this.model.tables;
    const rows = (this.model.evictionsOf.get(row) ?? []).filter((i) => !isOfDestroyed(this.model, i));
    if (rows.length === 0) return element('p', {}, 'It was never evicted.');
    const sum = (values) => rows.reduce((all, i) => all + values[i], 0);
    const beneficiary = (i) => (of.forDevice[i] === 0 ? 'none named' : this.model.deviceText(of.forDevice[i] - 1));
    const other = (i) => (of.forAllocation[i] === 0 ? 'several' : this.model.allocationText(of.forAllocation[i] - 1));
    const back = (i) => (of.returnedAt[i] === 0 ? 'never' : timeText(of.returnedAt[i] - 1 - of.at[i]));
    const cells = rows.slice(0, 50).map((i) => [
      link(momentText(of.at[i]), () => this.open.time(of.at[i])), beneficiary(i), other(i), bytesText(of.bytesOut[i] + of.bytesIn[i]),
      timeText(of.lostOut[i] + of.lostIn[i]), back(i), worthOf(this.model, i),
    ]);
    const caption = `It was evicted ${countText(rows.length)} ${rows.length === 1 ? 'time' : 'times'}: ` +
      `${bytesText(sum(of.bytesOut))} out, ${bytesText(sum(of.bytesIn))} back, and engines stood still for ${timeText(sum(of.lostOut) + sum(of.lostIn))}.`;
    const titles = ['Time', 'Beneficiary', 'Into its room', 'Moved', 'Engines stood still', 'Back after', 'Worth it'];
    return element('div', { class: 'wide' }, plainTable(caption, titles, cells));
  }

  async storyOf(row) {
    const block = Math.floor(row / STORIES_IN_A_BLOCK);
    if (!document.getElementById(`stories-${block}`)) return 'The page has no story of it.';
    if (!this.blocks.has(block)) {
      const text = new TextDecoder().decode(await unpacked(`stories-${block}`));
      this.blocks.set(block, text.split('\0'));
    }
    return this.blocks.get(block)[row % STORIES_IN_A_BLOCK];
  }

  packet(row) {
    const { packets } = this.model.tables;
    if (packets.paging[row]) this.pagingBuffer(row);
    else this.submission(row);
  }

  // A submission: from its call to its end, and what each part of that was for.
  submission(row) {
    const { packets: of, waits } = this.model.tables;
    const name = `Submission ${of.submission[row]} of ${this.model.deviceText(of.device[row])}`;
    const parts = (this.model.waitsOfPacket.get(row) ?? []).map((wait) => ({
      from: waits.from[wait], to: waits.to[wait], text: this.waitText(wait), wait,
    }));
    parts.push({ from: of.start[row], to: of.end[row], text: `ran on engine ${of.engine[row]}` });
    const whole = of.end[row] - of.submitted[row];
    parts.sort((a, b) => a.from - b.from);
    const line = ({ from, to, text }) => [momentText(from), timeText(to - from), shareText((to - from) / Math.max(whole, 1)), text];
    const longest = parts.reduce((a, b) => (b.to - b.from > a.to - a.from ? b : a));
    this.set(name,
      element('p', {}, `From its call at ${momentText(of.submitted[row])} to its end it took ${timeText(whole)}. ` +
        `The longest part, ${timeText(longest.to - longest.from)}: ${longest.text}.`),
      plainTable('The parts of its time', ['From', 'Time', 'Part', 'For'], parts.map(line)),
      ...parts.filter(({ wait }) => wait !== undefined && waits.on[wait] === 0).map(({ wait }) => this.behind(wait)));
  }

  waitText(wait) {
    const { waits, packets } = this.model.tables;
    const [a, b] = [waits.a[wait], waits.b[wait]];
    const packet = this.model.packetByFence(a, b);
    const isPaging = packet !== undefined && packets.paging[packet];
    return [
      isPaging ? `its engine stood still until paging buffer ${b} had ended` : `its engine stood still until packet ${b} of engine ${a} had ended`,
      `packets before it ran on its engine, the last of them number ${b}`,
      'its device was out of its turn',
      `${idText('monitored fence', a)} had to reach ${b}`,
      `a request for memory of its device was not granted or not ready (value ${b} of ${idText('paging queue', a)})`,
      'it was not handed out: work before it had its turn',
    ][waits.on[wait]];
  }

  // The plans that ended during a wait: what came in, and what had to leave for it.
  behind(wait) {
    const { waits, plans, pageIns, evictions } = this.model.tables;
    const [from, to, engine, fence] = [waits.from[wait], waits.to[wait], waits.a[wait], waits.b[wait]];
    const during = new Set();
    for (let row = 0; row < plans.rows; row++) {
      const end = plans.end[row] - 1;
      if (plans.engine[row] === engine + 1 && plans.fence[row] <= fence && from < end && end <= to) during.add(plans.plan[row]);
    }
    const rows = [];
    const add = (table, how, isOf) => {
      for (let row = 0; row < table.rows && rows.length < 200; row++) {
        if (!during.has(table.plan[row]) || !isOf(row) || table.allocation[row] === 0) continue;
        const allocation = table.allocation[row] - 1;
        const name = link(this.model.allocationText(allocation), () => this.open.allocation(allocation));
        rows.push([name, how(row), bytesText(table.bytes[row]), `plan ${table.plan[row]}`]);
      }
    };
    add(pageIns, (row) => ['filled with zeros', 'copied in', 'placed without a copy'][pageIns.content[row]], () => true);
    add(evictions, (row) => (evictions.bytesOut[row] > 0 ? 'copied out, for room' : 'left without a copy'), (row) => !isOfDestroyed(this.model, row));
    const caption = `Paging that ended while its engine stood still, from ${momentText(from)} to ${momentText(to)}`;
    return element('div', { class: 'wide' }, plainTable(caption, ['Allocation', 'Paging', 'Bytes', 'By'], rows));
  }

  pagingBuffer(row) {
    const { packets: of, operations } = this.model.tables;
    const ran = of.end[row] - of.start[row];
    const rows = [];
    let bytes = 0;
    for (let i = 0; i < operations.rows && rows.length < 200; i++) {
      if (operations.fence[i] !== of.fence[row] + 1) continue;
      bytes += operations.bytes[i];
      const allocation = operations.allocation[i] - 1;
      const name = allocation < 0 ? 'none' : link(this.model.allocationText(allocation), () => this.open.allocation(allocation));
      rows.push([this.model.facts.operationKinds[operations.kind[i]], name, bytesText(operations.bytes[i]), `plan ${operations.plan[i]}`]);
    }
    this.set(`Paging buffer ${of.fence[row]}`,
      element('p', {}, `${countText(of.operations[row])} operations about ${bytesText(bytes)}. It ran for ${timeText(ran)} from ${momentText(of.start[row])} on, ` +
        `of which ${timeText(of.hidden[row])} were hidden behind work and ${timeText(ran - of.hidden[row])} were not.`),
      element('div', { class: 'wide' }, plainTable('Its operations', ['Operation', 'Allocation', 'Bytes', 'For'], rows)));
  }
}
