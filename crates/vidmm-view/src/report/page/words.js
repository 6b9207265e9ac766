// Words for people: sizes, times, names.

function bytesText(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (Math.abs(bytes) >= 1024 && unit < units.length - 1) {
    bytes /= 1024;
    unit += 1;
  }
  return `${shortNumber(bytes)} ${units[unit]}`;
}

function timeText(ns) {
  const size = Math.abs(ns);
  if (size < 1e3) return `${Math.round(ns)} ns`;
  if (size < 1e6) return `${shortNumber(ns / 1e3)} us`;
  if (size < 1e9) return `${shortNumber(ns / 1e6)} ms`;
  return `${shortNumber(ns / 1e9)} s`;
}

function shortNumber(value) {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  const text = value.toFixed(digits);
  return digits === 0 ? text : text.replace(/\.?0+$/, '');
}

// A moment, which is told to the microsecond: moments that are near to each other must differ.
const momentText = (ns) => `${(ns / 1e6).toFixed(3)} ms`;

// A moment on an axis with steps of this length.
function axisText(ns, step) {
  const [unit, name] = ns < 1e6 && step < 1e6 ? [1e3, 'us'] : ns < 1e9 || step < 1e6 ? [1e6, 'ms'] : [1e9, 's'];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9));
  return `${(ns / unit).toFixed(digits)} ${name}`;
}

const countText = (count) => Math.round(count).toLocaleString('en');

const shareText = (share) => `${(100 * share).toFixed(1)} %`;

function idText(kind, bits) {
  const generation = Math.floor(bits / 2 ** 32);
  return `${kind} ${bits % 2 ** 32}${generation > 0 ? `.${generation}` : ''}`;
}

const deviceText = (bits) => idText('device', bits);
const processText = (bits) => (bits === null ? 'paging process' : idText('process', bits));

function capitalised(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

// An element with attributes and children. Text is text, whatever is in it.
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(key, value === true ? '' : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}
