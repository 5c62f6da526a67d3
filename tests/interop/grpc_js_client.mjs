// @grpc/grpc-js against the server of greeter_cases.md: grpc_js_client.mjs ADDRESS PROTO.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { done, test } from './tap.mjs';

const [address, proto] = process.argv.slice(2);
const { helloworld } = grpc.loadPackageDefinition(loadSync(proto));
const folder = process.env.TLS_TEST_DATA; // of certificates; without it there is no TLS
const client = new helloworld.Greeter(address, folder
  ? grpc.credentials.createSsl(readFileSync(`${folder}/ca.pem`))
  : grpc.credentials.createInsecure(), {
  'grpc.enable_http_proxy': 0,
  'grpc.max_receive_message_length': -1,
});

const INITIAL = 'x-grpc-test-echo-initial';
const TRAILING = 'x-grpc-test-echo-trailing-bin';

function metadataOf(pairs) {
  const metadata = new grpc.Metadata();
  for (const [key, value] of pairs) metadata.add(key, value);
  return metadata;
}

// Resolves with all that a call brings, whether it succeeds or fails.
function call(name, { pairs = [], timeout = 10_000 } = {}) {
  return new Promise((resolve) => {
    const result = {};
    const started = client.SayHello(
      { name }, metadataOf(pairs), { deadline: Date.now() + timeout },
      (error, reply) => Object.assign(result, { error, message: reply?.message }));
    started.on('metadata', (headers) => { result.headers = headers; });
    started.on('status', (status) => {
      result.trailers = status.metadata;
      setImmediate(() => resolve(result));
    });
    result.started = started;
  });
}

async function hello(name) {
  const { error, message } = await call(name);
  assert.equal(error, null);
  assert.equal(message, `Hello, ${name}`);
}

await test('a unary call is answered', () => hello('world'));
await test('an empty message is answered', () => hello(''));
await test('text outside ASCII comes back as it was', () => hello('Grüße, 世界 🍵'));

await test('each code arrives, with a message of UTF-8 text, per cent signs and line ends', async () => {
  const text = 'nicht gefunden: “世界” 100% %41\r\n\ttab';
  for (let code = 1; code <= 16; code++) {
    const { error } = await call(text, { pairs: [['test-status', String(code)]] });
    assert.equal(error?.code, code);
    assert.equal(error.details, text);
  }
});

await test('an unknown method ends with UNIMPLEMENTED', async () => {
  const code = await new Promise((resolve) => {
    client.makeUnaryRequest('/helloworld.Greeter/Nothing', (x) => x, (x) => x, Buffer.alloc(0),
      (error) => resolve(error?.code));
  });
  assert.equal(code, grpc.status.UNIMPLEMENTED);
});

await test('a deadline ends the call in time, and the connection goes on', async () => {
  const start = performance.now();
  const { error } = await call('late', { timeout: 200, pairs: [['test-delay-ms', '5000']] });
  assert.equal(error?.code, grpc.status.DEADLINE_EXCEEDED);
  assert.ok(performance.now() - start < 3000);
  await hello('next');
});

await test('a reply that is completed later arrives', async () => {
  const { message } = await call('later', { pairs: [['test-delay-ms', '100']] });
  assert.equal(message, 'Hello, later');
});

await test('a cancelled call ends as such, and the connection goes on', async () => {
  const code = await new Promise((resolve) => {
    const started = client.SayHello({ name: 'x' }, metadataOf([['test-delay-ms', '5000']]),
      (error) => resolve(error?.code));
    setTimeout(() => started.cancel(), 100);
  });
  assert.equal(code, grpc.status.CANCELLED);
  await hello('next');
});

await test('metadata travels both ways: values in order, binary ones with every byte', async () => {
  const everyByte = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
  const { error, headers, trailers } = await call('m', {
    pairs: [[INITIAL, 'first'], [INITIAL, 'second'],
      [TRAILING, everyByte], [TRAILING, Buffer.from([0])]],
  });
  assert.equal(error, null);
  // Node joins values of one key with a comma where the other side sent two header fields.
  assert.deepEqual(headers.get(INITIAL).join(', '), 'first, second');
  assert.deepEqual(trailers.get(TRAILING), [everyByte, Buffer.from([0])]);
});

await test('trailers come with an error too', async () => {
  const { error, trailers } = await call('bad', {
    pairs: [['test-status', '9'], [TRAILING, Buffer.from([255, 0])]],
  });
  assert.equal(error?.code, grpc.status.FAILED_PRECONDITION);
  assert.deepEqual(trailers.get(TRAILING), [Buffer.from([255, 0])]);
});

await test('messages of 3 MB travel both ways, several at once', async () => {
  const name = 'päckchen'.repeat(3_000_000 / 9);
  for (const { message } of await Promise.all([1, 2, 3, 4].map(() => call(name, { timeout: 60_000 })))) {
    assert.ok(message === `Hello, ${name}`);
  }
});

await test('10,000 calls on one connection, 100 at a time, each with its own answer', async () => {
  let next = 0;
  await Promise.all(Array.from({ length: 100 }, async () => {
    while (next < 10_000) await hello(String(next++));
  }));
});

client.close();
done();
