// @protobuf-ts/grpcweb-transport, text and binary: web_client.mjs ADDRESS.
// The transport takes a fetch of ours, which speaks HTTP/2 with prior knowledge, as the server does;
// bodies reach the transport in small pieces, so that it has to put frames and base64 together.
import assert from 'node:assert/strict';
import http2 from 'node:http2';
import { GrpcWebFetchTransport } from '@protobuf-ts/grpcweb-transport';
import { MessageType, ScalarType } from '@protobuf-ts/runtime';
import { RpcError, ServiceType, stackIntercept } from '@protobuf-ts/runtime-rpc';
import { done, test } from './tap.mjs';

const [address] = process.argv.slice(2);
const session = http2.connect(`http://${address}`);
let pieceSize = 3;
let lastResponse = null;

function pieces(chunks) {
  const body = Buffer.concat(chunks);
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at >= body.length) return controller.close();
      const end = Math.min(at + pieceSize, body.length);
      controller.enqueue(new Uint8Array(body.subarray(at, end)));
      at = end;
      return undefined;
    },
  });
}

function fetchOverHttp2(url, { method, headers, body }) {
  const { pathname } = new URL(url);
  return new Promise((resolve, reject) => {
    const stream = session.request({ ':method': method, ':path': pathname, ...Object.fromEntries(headers) });
    const chunks = [];
    let head;
    stream.on('response', (fields) => { head = fields; });
    stream.on('data', (chunk) => chunks.push(chunk));
    stream.on('error', reject);
    stream.on('end', () => {
      const fields = Object.entries(head).filter(([name]) => !name.startsWith(':'));
      lastResponse = { head, length: Buffer.concat(chunks).length };
      resolve(new Response(pieces(chunks), { status: head[':status'], headers: fields }));
    });
    stream.end(Buffer.from(body));
  });
}

const HelloRequest = new MessageType('helloworld.HelloRequest',
  [{ no: 1, name: 'name', kind: 'scalar', T: ScalarType.STRING }]);
const HelloReply = new MessageType('helloworld.HelloReply',
  [{ no: 1, name: 'message', kind: 'scalar', T: ScalarType.STRING }]);
const Greeter = new ServiceType('helloworld.Greeter',
  [{ name: 'SayHello', I: HelloRequest, O: HelloReply, options: {} },
    { name: 'Nothing', I: HelloRequest, O: HelloReply, options: {} },
    { name: 'ItKeepsReplying', serverStreaming: true, I: HelloRequest, O: HelloReply, options: {} }]);

function call(transport, name, meta = {}, method = Greeter.methods[0], kind = 'unary') {
  const options = transport.mergeOptions({ meta });
  return stackIntercept(kind, transport, method, options, { name });
}

for (const format of ['text', 'binary']) {
  const transport = new GrpcWebFetchTransport({
    baseUrl: `http://${address}`, format, fetch: fetchOverHttp2,
  });

  await test(`${format}: messages of all kinds are answered, in pieces of every size`, async () => {
    for (pieceSize = 1; pieceSize < 12; pieceSize++) {
      for (const name of ['', 'world', 'Grüße, 世界 🍵', 'x'.repeat(2000)]) {
        const { response, status } = await call(transport, name);
        assert.equal(response.message, `Hello, ${name}`);
        assert.equal(status.code, 'OK');
      }
    }
    const type = format === 'text' ? 'application/grpc-web-text' : 'application/grpc-web+proto';
    assert.ok(lastResponse.head['content-type'].startsWith(type), lastResponse.head['content-type']);
    assert.equal(lastResponse.head['grpc-status'], undefined);
  });

  await test(`${format}: 3 MB come back as they were`, async () => {
    pieceSize = 65537;
    const name = 'a'.repeat(3_000_000);
    const { response } = await call(transport, name);
    assert.equal(response.message, `Hello, ${name}`);
  });

  await test(`${format}: metadata comes back in headers and in the trailer frame`, async () => {
    pieceSize = 5;
    const { headers, trailers } = await call(transport, 'x', {
      'x-grpc-test-echo-initial': 'first',
      'x-grpc-test-echo-trailing-bin': 'q6urqw==',
    });
    assert.equal(headers['x-grpc-test-echo-initial'], 'first');
    assert.equal(trailers['x-grpc-test-echo-trailing-bin'], 'q6urqw'); // base64, unpadded
  });

  await test(`${format}: each code arrives, in the headers and with no body`, async () => {
    const text = 'nicht gefunden: “世界” 100% %41';
    for (let code = 1; code <= 16; code++) {
      await assert.rejects(async () => { await call(transport, text, { 'test-status': String(code) }); },
        (error) => {
          assert.ok(error instanceof RpcError, String(error));
          // This client leaves it to the caller to decode the message.
          assert.equal(decodeURIComponent(error.message), text);
          assert.equal(lastResponse.head['grpc-status'], String(code));
          assert.equal(lastResponse.length, 0);
          return true;
        });
    }
  });

  await test(`${format}: a stream's messages and its end arrive, in pieces of every size`, async () => {
    for (pieceSize = 1; pieceSize < 9; pieceSize++) {
      for (const [count, delay] of [[0, 0], [1, 0], [50, 0], [3, 5]]) {
        const meta = {
          'test-count': String(count),
          'test-delay-ms': String(delay),
          'x-grpc-test-echo-trailing-bin': 'q6ur',
        };
        const stream = call(transport, 'world', meta, Greeter.methods[2], 'serverStreaming');
        const got = [];
        for await (const reply of stream.responses) got.push(reply.message);
        assert.deepEqual(got, Array(count).fill('world'));
        assert.equal((await stream.status).code, 'OK');
        const where = count === 0 ? await stream.headers : await stream.trailers;
        assert.equal(where['x-grpc-test-echo-trailing-bin'], 'q6ur');
      }
    }
  });

  await test(`${format}: a stream that fails has its status in the trailer frame`, async () => {
    const stream = call(transport, 'kaputt', { 'test-status': '9' }, Greeter.methods[2],
      'serverStreaming');
    const got = [];
    await assert.rejects(async () => {
      for await (const reply of stream.responses) got.push(reply.message);
    }, (error) => error instanceof RpcError && error.code === 'FAILED_PRECONDITION'
      && error.message === 'kaputt');
    assert.equal(got.length, 3);
    assert.equal(lastResponse.head['grpc-status'], undefined);
  });

  await test(`${format}: an unknown method ends with UNIMPLEMENTED`, async () => {
    await assert.rejects(async () => { await call(transport, 'x', {}, Greeter.methods[1]); },
      (error) => error instanceof RpcError && error.code === 'UNIMPLEMENTED');
  });
}

session.close();
done();
