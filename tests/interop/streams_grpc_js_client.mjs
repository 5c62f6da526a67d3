// @grpc/grpc-js drives all streaming styles of the official test service, of which Debian's
// grpc-proto has the schema: streams_grpc_js_client.mjs ADDRESS. TAP on stdout.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { done, test } from './tap.mjs';

const address = process.argv[2];
const definition = loadSync('grpc/testing/test.proto', {
  defaults: true, includeDirs: ['/usr/share/grpc-proto'],
});
const { TestService } = grpc.loadPackageDefinition(definition).grpc.testing;
const folder = process.env.TLS_TEST_DATA; // of certificates; without it there is no TLS
const client = new TestService(address, folder
  ? grpc.credentials.createSsl(readFileSync(`${folder}/ca.pem`))
  : grpc.credentials.createInsecure(), {
  'grpc.enable_http_proxy': 0,
  ...(folder && { 'grpc.ssl_target_name_override': 'foo.test.google.fr' }),
});

const SENT = [27182, 8, 1828, 45904];
const WANTED = [31415, 9, 2653, 58979];
const MEGABYTE = 1_000_000;
const within = (milliseconds) => ({ deadline: Date.now() + milliseconds });

const output = (sizes, payload = 0) => ({
  responseParameters: sizes.map((size) => ({ size })),
  payload: { body: Buffer.alloc(payload) },
});

// How a call ended, and the sizes of what came: resolves in either case.
function outcome(call) {
  return new Promise((resolve) => {
    const sizes = [];
    call.on('data', (reply) => sizes.push(reply.payload.body.length));
    call.on('error', () => {});
    call.on('status', (status) => setImmediate(() => resolve({ sizes, ...status })));
  });
}

// Writes as fast as the stream takes it.
async function writeAll(call, messages) {
  for (const message of messages) {
    if (!call.write(message)) await new Promise((resolve) => { call.once('drain', resolve); });
  }
  call.end();
}

function up(messages) {
  return new Promise((resolve, reject) => {
    const call = client.streamingInputCall(within(120_000), (error, reply) => (
      error ? reject(error) : resolve(reply.aggregatedPayloadSize)));
    writeAll(call, messages);
  });
}

function* times(count, make) {
  for (let i = 0; i < count; i++) yield make(i);
}

await test('client streaming: the sum of what was sent', async () => {
  const sum = await up(SENT.map((size) => ({ payload: { body: Buffer.alloc(size) } })));
  assert.equal(sum, SENT.reduce((a, b) => a + b));
});

async function serverStreaming() {
  const { sizes, code } = await outcome(client.streamingOutputCall(output(WANTED), within(20_000)));
  assert.equal(code, 0);
  assert.deepEqual(sizes, WANTED);
}

await test('server streaming: replies in order', serverStreaming);

await test('each message is answered before the next one is sent', async () => {
  const call = client.fullDuplexCall(within(20_000));
  const ended = outcome(call);
  for (const [i, size] of WANTED.entries()) {
    const reply = new Promise((resolve) => { call.once('data', resolve); });
    call.write(output([size], SENT[i]));
    assert.equal((await reply).payload.body.length, size);
  }
  call.end();
  assert.equal((await ended).code, 0);
});

await test('replies that come when the client has ended its side', async () => {
  for (const method of ['halfDuplexCall', 'fullDuplexCall']) {
    const call = client[method](within(20_000));
    const ended = outcome(call);
    writeAll(call, WANTED.map((size) => output([size])));
    const { sizes, code } = await ended;
    assert.equal(code, 0);
    assert.deepEqual(sizes, WANTED);
  }
});

await test('the client ends its side long after the last reply', async () => {
  const call = client.fullDuplexCall(within(20_000));
  const ended = outcome(call);
  call.write(output(WANTED));
  await sleep(300);
  call.end();
  const { sizes, code } = await ended;
  assert.equal(code, 0);
  assert.deepEqual(sizes, WANTED);
});

await test('streams without a message, each way and both ways', async () => {
  assert.equal(await up([]), 0);
  const down = await outcome(client.streamingOutputCall(output([]), within(20_000)));
  assert.deepEqual([down.code, down.sizes], [0, []]);
  const call = client.fullDuplexCall(within(20_000));
  const ended = outcome(call);
  call.end();
  const { sizes, code } = await ended;
  assert.deepEqual([code, sizes], [0, []]);
});

await test('100,000 messages up', async () => {
  const message = { payload: { body: Buffer.from('12345678') } };
  assert.equal(await up(times(100_000, () => message)), 800_000);
});

await test('100,000 messages down', async () => {
  const wanted = [...times(100_000, (i) => i % 100)];
  const { sizes, code } = await outcome(client.streamingOutputCall(output(wanted), within(120_000)));
  assert.equal(code, 0);
  assert.deepEqual(sizes, wanted);
});

await test('100,000 messages each way at once', async () => {
  const call = client.fullDuplexCall(within(170_000));
  const ended = outcome(call);
  await writeAll(call, times(100_000, (i) => output([i % 50], i % 40)));
  const { sizes, code } = await ended;
  assert.equal(code, 0);
  assert.deepEqual(sizes, [...times(100_000, (i) => i % 50)]);
});

await test('messages of 1 MB each way', async () => {
  const call = client.fullDuplexCall(within(60_000));
  const ended = outcome(call);
  await writeAll(call, times(20, () => output([MEGABYTE], MEGABYTE)));
  const { sizes, code } = await ended;
  assert.equal(code, 0);
  assert.deepEqual(sizes, Array(20).fill(MEGABYTE));
});

await test('a call that is cancelled after its first reply, and the connection goes on', async () => {
  for (let i = 0; i < 20; i++) {
    const call = client.fullDuplexCall(within(20_000));
    const ended = outcome(call);
    const first = new Promise((resolve) => { call.once('data', resolve); });
    call.write(output([31415]));
    await first;
    call.cancel();
    assert.equal((await ended).code, grpc.status.CANCELLED);
  }
  await serverStreaming();
});

await test('a deadline of 1 ms on a server that sleeps', async () => {
  for (let i = 0; i < 20; i++) {
    const call = client.fullDuplexCall(within(1));
    const ended = outcome(call);
    call.write(output([], 27182));
    assert.equal((await ended).code, grpc.status.DEADLINE_EXCEEDED);
  }
});

await test('a status that ends the stream behind replies, while the client still sends', async () => {
  const call = client.fullDuplexCall(within(20_000));
  const ended = outcome(call);
  call.write(output([5, 6]));
  call.write({ ...output([7]), responseStatus: { code: 9, message: 'genug' } });
  call.write(output([8]));
  const { sizes, code, details } = await ended;
  assert.deepEqual([code, details], [9, 'genug']);
  assert.deepEqual(sizes, [5, 6]);
});

client.close();
done();
