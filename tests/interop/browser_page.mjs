// What runs in the page of browser.mjs: each case for one client, against a server that follows
// greeter_cases.md. A case throws where it fails; nothing in it waits for a time to pass.
import { bytesOf, clients, statusWithDetail } from './browser_clients.mjs';

const INITIAL = 'x-grpc-test-echo-initial';
const TRAILING = 'x-grpc-test-echo-trailing-bin';
const NOT_FOUND = 'nicht gefunden: “世界” 100 % %41 🍵';

function equal(got, wanted, what = '') {
  const [a, b] = [JSON.stringify(got), JSON.stringify(wanted)];
  if (a !== b) throw new Error(`${what} got ${a?.slice(0, 300)}, wanted ${b?.slice(0, 300)}`);
}

async function failing(promise, what) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error(`${what} did not fail`);
}

let names = 0;
const newName = () => `browser-${performance.timeOrigin}-${names++}`;

// A promise and the function that fulfils it.
function signalled() {
  let fulfil;
  const promise = new Promise((resolve) => { fulfil = resolve; });
  return [promise, fulfil];
}

// Asks until the call of that name stands as wanted. The driver ends a case that takes too long.
async function stands(client, name, wanted) {
  for (;;) {
    const { message } = await client.unary('', { meta: { 'test-how': name } });
    if (message === wanted) return;
    if (!['unknown', 'running'].includes(message)) equal(message, wanted, 'the call stands as');
  }
}

const cases = {
  async 'messages of all kinds are answered'(client) {
    for (const name of ['', 'world', 'Grüße, 世界 🍵', 'x'.repeat(200_000)]) {
      equal((await client.unary(name, {})).message, `Hello, ${name}`);
    }
  },

  async '3 MB come back as they were'(client) {
    const name = 'Grüße '.repeat(430_000);
    const { message } = await client.unary(name, {});
    if (message !== `Hello, ${name}`) throw new Error(`${message.length} characters came back`);
  },

  async '30 calls at once are answered'(client) {
    const replies = await Promise.all(Array.from({ length: 30 },
      (_, i) => client.unary(`${i}`, { meta: { 'test-delay-ms': `${i % 5}` } })));
    equal(replies.map((reply) => reply.message), replies.map((_, i) => `Hello, ${i}`));
  },

  async 'each code arrives with its message in UTF-8'(client) {
    for (let code = 1; code <= 16; code++) {
      const call = client.unary(NOT_FOUND, { meta: { 'test-status': `${code}` } });
      const error = await failing(call, `the call with status ${code}`);
      equal([error.code, error.message], [code, NOT_FOUND]);
    }
  },

  async 'an error carries its details'(client) {
    const meta = { 'test-status': '5', 'test-details-bin': statusWithDetail(5, 'no', 'Detail 世界') };
    const error = await failing(client.unary('no', { meta }), 'the call');
    equal([error.code, error.detail], [5, 'Detail 世界']);
  },

  async 'metadata travels both ways, binary too'(client) {
    const meta = { [INITIAL]: 'first, and more', [TRAILING]: 'q6urqw==' };
    const { headers, trailers, message } = await client.unary('x', { meta });
    equal(message, 'Hello, x');
    equal(headers[INITIAL], 'first, and more');
    equal(bytesOf(trailers[TRAILING]), [0xab, 0xab, 0xab, 0xab]);
    const error = await failing(client.unary('no', { meta: { ...meta, 'test-status': '9' } }), 'the call');
    equal(error.code, 9);
    equal(bytesOf(error.trailers[TRAILING]), [0xab, 0xab, 0xab, 0xab]);
  },

  async 'a stream is shown as it comes'(client) {
    // The server sends a message once the page has told that it shows the one before.
    const gate = newName();
    const open = () => client.unary('', { meta: { 'test-open': gate } });
    const opened = [];
    const got = [];
    const meta = { 'test-count': '6', 'test-gate': gate, [INITIAL]: 'first', [TRAILING]: 'q6s' };
    if (!client.incremental) for (let i = 1; i < 6; i++) opened.push(open());
    const result = await client.stream('Grüße', { meta }, (message) => {
      got.push(message);
      if (client.incremental && got.length < 6) opened.push(open());
    });
    await Promise.all(opened);
    equal(got, Array(6).fill('Grüße'));
    equal(opened.length, 5);
    equal(result.headers[INITIAL], 'first');
    equal(bytesOf(result.trailers[TRAILING]), [0xab, 0xab]);
  },

  async 'streams of no message, of one and of 2,000 arrive'(client) {
    for (const count of [0, 1, 2000]) {
      const got = [];
      await client.stream('n', { meta: { 'test-count': `${count}` } }, (m) => got.push(m));
      equal(got.length, count);
    }
  },

  async 'a stream that fails shows its messages and says why'(client) {
    const got = [];
    const meta = { 'test-status': '9' };
    const error = await failing(client.stream('kaputt ✗', { meta }, (m) => got.push(m)), 'the stream');
    equal([error.code, error.message], [9, 'kaputt ✗']);
    equal(got, Array(3).fill('kaputt ✗'));
  },

  async 'a deadline ends the call here and in the handler'(client) {
    const name = newName();
    const meta = { 'test-name': name, 'test-delay-ms': '60000' };
    const error = await failing(client.unary('late', { meta, timeoutMs: 250 }), 'the call');
    equal(error.code, 4);
    await stands(client, name, 'cancelled');
  },

  async 'a deadline ends a stream here and in the handler'(client) {
    const name = newName();
    const meta = { 'test-name': name, 'test-gate': newName() };
    const error = await failing(client.stream('late', { meta, timeoutMs: 250 }, () => {}), 'the stream');
    equal(error.code, 4);
    await stands(client, name, 'cancelled');
  },

  async 'an aborted call reaches the handler'(client) {
    const name = newName();
    const abort = new AbortController();
    const meta = { 'test-name': name, 'test-delay-ms': '60000' };
    const call = failing(client.unary('x', { meta, signal: abort.signal }), 'the call');
    await stands(client, name, 'running');
    abort.abort();
    equal((await call).code, 1);
    await stands(client, name, 'cancelled');
  },

  async 'an aborted stream reaches the handler'(client) {
    const name = newName();
    const abort = new AbortController();
    const [first, onFirst] = signalled();
    const meta = { 'test-name': name, 'test-gate': newName() };
    const call = failing(client.stream('x', { meta, signal: abort.signal }, onFirst), 'the stream');
    if (client.incremental) await first;
    else await stands(client, name, 'running');
    abort.abort();
    equal((await call).code, 1);
    await stands(client, name, 'cancelled');
  },
};

let all = [];

// For the driver: [[client, case], ...]
window.open_clients = (base) => {
  all = clients(base);
  return all.flatMap((client) => Object.keys(cases).map((name) => [client.name, name]));
};
window.run = (client, name) => cases[name](all.find((one) => one.name === client));

// A call from a page that the server does not know: it must not reach the handler.
window.call_from_elsewhere = async (name) => {
  const [client] = all;
  const error = await failing(client.unary('x', { meta: { 'test-name': name } }), 'the call');
  return error.message;
};
window.stands = async (name) => (await all[0].unary('', { meta: { 'test-how': name } })).message;
