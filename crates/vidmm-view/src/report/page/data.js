// The numbers of the page: one compressed block of columns, each read when it is first used.

function bytesOf(letters) {
  const text = atob(letters);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

async function unpacked(id) {
  const packed = new Blob([bytesOf(document.getElementById(id).textContent)]);
  const stream = packed.stream().pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Differences in zigzag order, seven bits a byte. Numbers above 2^53 lose their last bits.
function readColumn(blob, offset, rows) {
  const values = new Float64Array(rows);
  let at = offset;
  let last = 0;
  for (let row = 0; row < rows; row++) {
    let byte = blob[at++];
    let zigzag = byte & 127;
    for (let scale = 128; byte >= 128; scale *= 128) {
      byte = blob[at++];
      zigzag += (byte & 127) * scale;
    }
    last += zigzag % 2 === 0 ? zigzag / 2 : -(zigzag + 1) / 2;
    values[row] = last;
  }
  return values;
}

function tableOf(blob, { rows, columns }) {
  const table = { rows };
  for (const [name, [offset]] of Object.entries(columns)) {
    let values = null;
    Object.defineProperty(table, name, { get: () => (values ??= readColumn(blob, offset, rows)) });
  }
  return table;
}

async function readData() {
  const facts = JSON.parse(document.getElementById('facts').textContent);
  const blob = await unpacked('columns');
  const tables = {};
  for (const [name, table] of Object.entries(facts.tables)) tables[name] = tableOf(blob, table);
  return { facts, tables };
}

// The first index from which on `values`, which rise, are more than `limit`.
function above(values, limit) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > limit) high = middle;
    else low = middle + 1;
  }
  return low;
}

// Row numbers in the order of a column.
function sortedBy(values, rows = values.length) {
  const order = new Uint32Array(rows);
  let rises = true;
  for (let i = 0; i < rows; i++) {
    order[i] = i;
    rises &&= i === 0 || values[i - 1] <= values[i];
  }
  return rises ? order : order.sort((a, b) => values[a] - values[b]);
}

function picked(values, order) {
  const result = new Float64Array(order.length);
  for (let i = 0; i < order.length; i++) result[i] = values[order[i]];
  return result;
}
