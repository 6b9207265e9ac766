// Canvases that are sharp on every screen, in the colours of the page.

const colours = {};

function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ['text', 'faint', 'line', 'panel', 'still', 'budget', 'mark', 'paging', 'focus', 'hole']) {
    colours[name] = style.getPropertyValue(`--${name}`).trim();
  }
  colours.of = Array.from({ length: 8 }, (_, i) => style.getPropertyValue(`--c${i}`).trim());
  colours.font = `12px ${style.fontFamily}`;
}

// Sets the canvas to its size on the screen, and returns what draws on it in units of the page.
function prepared(canvas, height) {
  const width = Math.max(200, canvas.parentElement.clientWidth);
  const scale = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const pen = canvas.getContext('2d');
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = colours.font;
  pen.textBaseline = 'middle';
  return { pen, width, height };
}

function label(pen, text, x, y, colour = colours.text, align = 'left') {
  pen.fillStyle = colour;
  pen.textAlign = align;
  pen.fillText(text, x, y);
}

// Round steps for an axis, in the unit that fits.
function ticks(from, to, count) {
  const rough = (to - from) / count;
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? rough;
  const result = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) result.push(at);
  return result;
}

function say(text) {
  document.getElementById('said').textContent = text;
}
