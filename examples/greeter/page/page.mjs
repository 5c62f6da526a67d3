// The page: forms that call the greeter, and a plot that grows with each message.
import { call, decodeText, encodeText } from './grpc_web.mjs';

const SERVICE = '/helloworld.Greeter/';
const $ = (selector, root = document) => root.querySelector(selector);
const ms = (time) => (time < 10 ? `${time.toFixed(1)} ms` : time < 10_000
  ? `${Math.round(time)} ms` : `${(time / 1000).toFixed(1)} s`);

function show(section, state, text) {
  const status = $('.status', section);
  status.dataset.state = state;
  status.textContent = text;
}

// ---- On the wire ----

const KEPT_FRAMES = 60;
const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join(' ');

function showFrame({ flags, bytes }) {
  const prefix = new Uint8Array(5);
  prefix[0] = flags;
  new DataView(prefix.buffer).setUint32(1, bytes.length);
  const line = document.createElement('li');
  line.className = flags & 0x80 ? 'trailers' : '';
  const parts = [['prefix', hex(prefix)], ['bytes', hex(bytes.slice(0, 48))],
    ['text', flags & 0x80 ? new TextDecoder().decode(bytes).trim() : decodeText(bytes)]];
  for (const [name, text] of parts) {
    const part = document.createElement('span');
    part.className = name;
    part.textContent = text;
    line.append(part);
  }
  line.title = parts[1][1];
  const list = $('#wire ol');
  list.prepend(line);
  while (list.children.length > KEPT_FRAMES) list.lastChild.remove();
}

// ---- One reply ----

const unary = $('#unary');

$('form', unary).addEventListener('submit', async (event) => {
  event.preventDefault();
  const { name } = event.target.elements;
  const reply = $('.reply', unary);
  show(unary, 'running', 'called');
  const begun = performance.now();
  try {
    for await (const message of call(`${SERVICE}SayHello`, encodeText(name.value),
      { onFrame: showFrame })) {
      reply.textContent = decodeText(message);
    }
    show(unary, 'ok', `OK after ${ms(performance.now() - begun)}`);
  } catch (error) {
    reply.textContent = '\u00a0';
    show(unary, 'failed', `${error.codeName}: ${error.message}`);
  }
});

// ---- The plot: messages over time, in steps ----

class Plot {
  static MARGIN = { left: 40, right: 14, top: 10, bottom: 24 };

  constructor(svg) {
    this.svg = svg;
    this.times = [];
    this.expected = 1;
    new ResizeObserver(() => this.draw(this.end)).observe(svg);
  }

  clear(expected) {
    this.times = [];
    this.expected = Math.max(expected, 1);
    this.end = undefined;
  }

  // Round numbers, at most `most` of them, up to `limit`.
  static ticks(limit, most) {
    const rough = limit / most;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
    return Array.from({ length: Math.floor(limit / step) + 1 }, (_, i) => i * step);
  }

  // `now` in milliseconds since the call; `running`: a line shows where it stands.
  draw(now = 0, running = false) {
    const { left, right, top, bottom } = Plot.MARGIN;
    const { clientWidth: width, clientHeight: height } = this.svg;
    if (width === 0) return;
    const longest = Math.max(now, 200);
    const most = Math.max(this.expected, this.times.length, 5);
    const x = (time) => left + (time / longest) * (width - left - right);
    const y = (count) => height - bottom - (count / most) * (height - top - bottom);
    const parts = [];
    for (const count of Plot.ticks(most, 5).filter(Number.isInteger)) {
      parts.push(`<line class="grid" x1="${left}" x2="${width - right}" y1="${y(count)}" y2="${y(count)}"/>`,
        `<text x="${left - 8}" y="${y(count) + 4}" text-anchor="end">${count}</text>`);
    }
    const times = Plot.ticks(longest, Math.max(2, Math.floor(width / 110)));
    times.forEach((time) => parts.push(
      `<text x="${x(time)}" y="${height - 6}" text-anchor="middle">${time < 1000 ? `${time} ms` : `${time / 1000} s`}</text>`));
    if (this.times.length > 0) {
      const steps = this.times.map((time, i) => `H${x(time).toFixed(1)}V${y(i + 1).toFixed(1)}`).join('');
      const path = `M${x(0)} ${y(0)}${steps}H${x(now).toFixed(1)}`;
      parts.push(`<path class="area" d="${path}V${y(0)}Z"/>`, `<path class="steps" d="${path}"/>`);
      const radius = this.times.length > 400 ? 1.5 : 3.5;
      this.times.forEach((time, i) => parts.push(
        `<circle cx="${x(time).toFixed(1)}" cy="${y(i + 1).toFixed(1)}" r="${radius}"/>`));
    }
    if (running) parts.push(`<line class="now" x1="${x(now)}" x2="${x(now)}" y1="${top}" y2="${height - bottom}"/>`);
    this.svg.innerHTML = parts.join('');
  }
}

// ---- A stream of replies ----

const stream = $('#stream');
const form = $('form', stream);
const plot = new Plot($('#plot'));
let abort = null;

function showFigures(times, total) {
  const gaps = times.slice(1).map((time, i) => time - times[i]);
  const figures = {
    count: String(times.length),
    first: times.length ? ms(times[0]) : '–',
    mean: gaps.length ? ms(gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length) : '–',
    longest: gaps.length ? ms(gaps.reduce((most, gap) => Math.max(most, gap), 0)) : '–',
    total: ms(total),
  };
  for (const [name, text] of Object.entries(figures)) $(`[data-figure="${name}"]`).textContent = text;
}

async function run(name, pause) {
  const begun = performance.now();
  const since = () => performance.now() - begun;
  const reply = $('.reply', stream);
  abort = new AbortController();
  plot.clear([...name].length);
  reply.textContent = '';
  show(stream, 'running', 'the call is open');
  const paint = () => {
    if (!abort) return;
    plot.draw(since(), true);
    showFigures(plot.times, since());
    requestAnimationFrame(paint);
  };
  requestAnimationFrame(paint);
  const options = { metadata: { 'pause-ms': String(pause) }, signal: abort.signal, onFrame: showFrame };
  try {
    for await (const message of call(`${SERVICE}ItKeepsReplying`, encodeText(name), options)) {
      plot.times.push(since());
      reply.textContent += decodeText(message).replace(/^Hello, /, '');
    }
    show(stream, 'ok', `OK after ${ms(since())}`);
  } catch (error) {
    show(stream, 'failed', `${error.codeName}: ${error.message}`);
  }
  abort = null;
  plot.end = since();
  plot.draw(plot.end);
  showFigures(plot.times, plot.end);
}

form.addEventListener('submit', async (event) => {
  event.preventDefault();
  const { name, pause, start, stop } = form.elements;
  start.disabled = true;
  stop.disabled = false;
  await run(name.value, Number(pause.value));
  start.disabled = false;
  stop.disabled = true;
});
form.elements.stop.addEventListener('click', () => abort?.abort());
form.elements.pause.addEventListener('input', ({ target }) => {
  form.elements.pauseText.value = `${target.value} ms`;
});
plot.draw();
