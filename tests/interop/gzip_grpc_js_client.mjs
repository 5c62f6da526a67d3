// gzip both ways with @grpc/grpc-js: gzip_grpc_js_client.mjs ADDRESS PROTO.
// The bytes go through a relay here that counts them; the server tells how each request came.
import assert from 'node:assert/strict';
import net from 'node:net';
import grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { done, test } from './tap.mjs';

const [address, proto] = process.argv.slice(2);
const { helloworld } = grpc.loadPackageDefinition(loadSync(proto));
const LARGE = 'compressible '.repeat(40000);

const counted = { sent: 0, received: 0 };
const port = Number(address.slice(address.lastIndexOf(':') + 1));
const relay = net.createServer((client) => {
  const server = net.connect(port, '127.0.0.1');
  client.on('data', (data) => { counted.sent += data.length; });
  server.on('data', (data) => { counted.received += data.length; });
  client.pipe(server).pipe(client);
  client.on('error', () => server.destroy());
  server.on('error', () => client.destroy());
});
await new Promise((resolve) => { relay.listen(0, '127.0.0.1', resolve); });

function clientWith(algorithm) {
  return new helloworld.Greeter(`127.0.0.1:${relay.address().port}`,
    grpc.credentials.createInsecure(), {
      'grpc.enable_http_proxy': 0,
      'grpc.default_compression_algorithm': algorithm,
    });
}

// Resolves with the message, whether the request came compressed, and the bytes each way.
function call(client, name, pairs = {}) {
  const metadata = new grpc.Metadata();
  metadata.add('test-tell-compressed', '1');
  for (const [key, value] of Object.entries(pairs)) metadata.add(key, value);
  const before = { ...counted };
  return new Promise((resolve, reject) => {
    let told;
    const started = client.SayHello({ name }, metadata, { deadline: Date.now() + 20_000 },
      (error, reply) => {
        if (error) return reject(error);
        return resolve({
          message: reply.message,
          compressed: told === '1',
          sent: counted.sent - before.sent,
          received: counted.received - before.received,
        });
      });
    started.on('metadata', (headers) => { [told] = headers.get('x-request-compressed'); });
  });
}

const { identity, deflate, gzip } = grpc.compressionAlgorithms;

await test('requests in gzip and deflate are read, and replies to them come compressed', async () => {
  for (const algorithm of [gzip, deflate]) {
    const client = clientWith(algorithm);
    const got = await call(client, LARGE);
    assert.equal(got.message, `Hello, ${LARGE}`);
    assert.equal(got.compressed, true);
    assert.ok(got.sent < LARGE.length / 10, `${got.sent} bytes sent`);
    assert.ok(got.received < LARGE.length / 10, `${got.received} bytes received`);
    client.close();
  }
});

await test('a request that is not compressed gets a compressed reply', async () => {
  const client = clientWith(identity);
  const got = await call(client, LARGE);
  assert.equal(got.message, `Hello, ${LARGE}`);
  assert.equal(got.compressed, false);
  assert.ok(got.sent > LARGE.length, `${got.sent} bytes sent`);
  assert.ok(got.received < LARGE.length / 10, `${got.received} bytes received`);
  client.close();
});

await test('an error answers a compressed request as any other', async () => {
  const client = clientWith(gzip);
  await assert.rejects(call(client, 'nein: 100% 世界', { 'test-status': '9' }),
    { code: grpc.status.FAILED_PRECONDITION, details: 'nein: 100% 世界' });
  client.close();
});

relay.close();
done();
