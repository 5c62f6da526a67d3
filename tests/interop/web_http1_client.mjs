// gRPC-Web over HTTP/1.1 by clients as they are: npm's grpc-web (XMLHttpRequest, by xhr2) and
// @protobuf-ts/grpcweb-transport (fetch, Node's own), text and binary; then requests that are no
// calls, by node:http (with TLS_TEST_DATA node:https): web_http1_client.mjs ADDRESS.
import assert from 'node:assert/strict';
import plainHttp from 'node:http';
import https from 'node:https';
import { GrpcWebFetchTransport } from '@protobuf-ts/grpcweb-transport';
import { MessageType, ScalarType } from '@protobuf-ts/runtime';
import { RpcError, ServiceType, stackIntercept } from '@protobuf-ts/runtime-rpc';
import grpcWeb from 'grpc-web';
import XMLHttpRequest from 'xhr2';
import { done, test } from './tap.mjs';

globalThis.XMLHttpRequest = XMLHttpRequest;

const [address] = process.argv.slice(2);
// Over TLS the CA is NODE_EXTRA_CA_CERTS.
const http = process.env.TLS_TEST_DATA ? https : plainHttp;
const origin = `${process.env.TLS_TEST_DATA ? 'https' : 'http'}://${address}`;

const HelloRequest = new MessageType('helloworld.HelloRequest',
  [{ no: 1, name: 'name', kind: 'scalar', T: ScalarType.STRING }]);
const HelloReply = new MessageType('helloworld.HelloReply',
  [{ no: 1, name: 'message', kind: 'scalar', T: ScalarType.STRING }]);
const Greeter = new ServiceType('helloworld.Greeter',
  [{ name: 'SayHello', I: HelloRequest, O: HelloReply, options: {} },
    { name: 'Nothing', I: HelloRequest, O: HelloReply, options: {} },
    { name: 'ItKeepsReplying', serverStreaming: true, I: HelloRequest, O: HelloReply, options: {} }]);
const names = ['', 'world', 'Grüße, 世界 🍵', 'x'.repeat(200_000)];

// ---- npm's grpc-web ----

function descriptor(method, type) {
  return new grpcWeb.MethodDescriptor(`/helloworld.Greeter/${method}`, type, Object, Object,
    (request) => HelloRequest.toBinary(HelloRequest.create(request)),
    (bytes) => HelloReply.fromBinary(new Uint8Array(bytes)));
}

const sayHello = descriptor('SayHello', grpcWeb.MethodType.UNARY);
const nothing = descriptor('Nothing', grpcWeb.MethodType.UNARY);
const itKeepsReplying = descriptor('ItKeepsReplying', grpcWeb.MethodType.SERVER_STREAMING);

function unary(client, name, metadata = {}, method = sayHello) {
  return client.unaryCall(origin + method.getName(), { name }, metadata, method);
}

function streamed(client, name, metadata) {
  return new Promise((resolve, reject) => {
    const got = [];
    const stream = client.serverStreaming(origin + itKeepsReplying.getName(), { name }, metadata,
      itKeepsReplying);
    stream.on('data', (reply) => got.push(reply.message));
    stream.on('error', (error) => reject(Object.assign(error, { got })));
    stream.on('end', () => resolve(got));
  });
}

for (const format of ['text', 'binary']) {
  const client = new grpcWeb.GrpcWebClientBase({ format });

  await test(`grpc-web ${format}: messages of all kinds are answered`, async () => {
    for (const name of names) {
      assert.equal((await unary(client, name)).message, `Hello, ${name}`);
    }
  });

  await test(`grpc-web ${format}: 50 calls at once are answered`, async () => {
    const replies = await Promise.all(Array.from({ length: 50 }, (_, i) => unary(client, `${i}`,
      { 'test-delay-ms': String(i % 5) })));
    replies.forEach((reply, i) => assert.equal(reply.message, `Hello, ${i}`));
  });

  await test(`grpc-web ${format}: each code arrives with its message`, async () => {
    for (let code = 1; code <= 16; code++) {
      await assert.rejects(unary(client, 'nicht gefunden: “世界” 100%', { 'test-status': String(code) }),
        (error) => error.code === code && error.message === 'nicht gefunden: “世界” 100%');
    }
  });

  await test(`grpc-web ${format}: a deadline ends a call with DEADLINE_EXCEEDED`, async () => {
    await assert.rejects(unary(client, 'late', { 'test-delay-ms': '2000', deadline: String(Date.now() + 100) }),
      (error) => error.code === 4);
  });

  await test(`grpc-web ${format}: a stream's messages and its end arrive`, async () => {
    for (const [count, delay] of [[0, 0], [1, 0], [50, 0], [3, 20]]) {
      const got = await streamed(client, 'world',
        { 'test-count': String(count), 'test-delay-ms': String(delay) });
      assert.deepEqual(got, Array(count).fill('world'));
    }
  });

  await test(`grpc-web ${format}: a stream that fails says so`, async () => {
    await assert.rejects(streamed(client, 'kaputt', { 'test-status': '9' }),
      (error) => error.code === 9 && error.message === 'kaputt');
  });

  await test(`grpc-web ${format}: an unknown method ends with UNIMPLEMENTED`, async () => {
    await assert.rejects(unary(client, 'x', {}, nothing), (error) => error.code === 12);
  });
}

// ---- @protobuf-ts/grpcweb-transport ----

function call(transport, name, meta = {}, method = Greeter.methods[0], kind = 'unary') {
  return stackIntercept(kind, transport, method, transport.mergeOptions({ meta }), { name });
}

for (const format of ['text', 'binary']) {
  const transport = new GrpcWebFetchTransport({ baseUrl: origin, format });

  await test(`protobuf-ts ${format}: messages of all kinds are answered`, async () => {
    for (const name of names) {
      const { response, status } = await call(transport, name);
      assert.equal(response.message, `Hello, ${name}`);
      assert.equal(status.code, 'OK');
    }
  });

  await test(`protobuf-ts ${format}: metadata comes back in headers and in the trailer frame`, async () => {
    const { headers, trailers } = await call(transport, 'x', {
      'x-grpc-test-echo-initial': 'first',
      'x-grpc-test-echo-trailing-bin': 'q6urqw==',
    });
    assert.equal(headers['x-grpc-test-echo-initial'], 'first');
    assert.equal(trailers['x-grpc-test-echo-trailing-bin'], 'q6urqw'); // base64, unpadded
  });

  await test(`protobuf-ts ${format}: a stream is shown as it comes`, async () => {
    const stream = call(transport, 'world', { 'test-count': '4', 'test-delay-ms': '100' },
      Greeter.methods[2], 'serverStreaming');
    const times = [];
    for await (const reply of stream.responses) {
      assert.equal(reply.message, 'world');
      times.push(performance.now());
    }
    assert.equal((await stream.status).code, 'OK');
    assert.equal(times.length, 4);
    assert.ok(times[3] - times[0] > 150, `${times}`);
  });

  await test(`protobuf-ts ${format}: a call that fails, and one that nobody knows`, async () => {
    await assert.rejects(async () => { await call(transport, 'no', { 'test-status': '5' }); },
      (error) => error instanceof RpcError && error.code === 'NOT_FOUND');
    await assert.rejects(async () => { await call(transport, 'x', {}, Greeter.methods[1]); },
      (error) => error instanceof RpcError && error.code === 'UNIMPLEMENTED');
  });

  await test(`protobuf-ts ${format}: a page that goes away leaves the server well`, async () => {
    const abort = new AbortController();
    const options = transport.mergeOptions({
      abort: abort.signal, meta: { 'test-count': '1000', 'test-delay-ms': '10' },
    });
    const stream = stackIntercept('serverStreaming', transport, Greeter.methods[2], options, { name: 'x' });
    await assert.rejects(async () => {
      for await (const reply of stream.responses) {
        assert.equal(reply.message, 'x');
        abort.abort();
      }
    }, (error) => error instanceof RpcError && error.code === 'CANCELLED');
    assert.equal((await call(transport, 'still there')).response.message, 'Hello, still there');
  });
}

// ---- Requests that are no calls ----

const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });

function ask(method, contentType, body = '', more = {}) {
  return new Promise((resolve, reject) => {
    const headers = contentType ? { 'content-type': contentType, ...more } : more;
    const request = http.request(`${origin}/helloworld.Greeter/SayHello`, { method, headers, agent }, (response) => {
      const chunks = [];
      response.on('data', (chunk) => chunks.push(chunk));
      response.on('end', () => resolve({
        status: response.statusCode, headers: response.headers, body: Buffer.concat(chunks).toString(),
        reused: request.reusedSocket,
      }));
    });
    request.on('error', reject);
    request.end(body);
  });
}

await test('requests that are no calls get a complete answer, on one connection', async () => {
  const cases = [
    ['GET', undefined, '', 405], ['HEAD', undefined, '', 405], ['OPTIONS', undefined, '', 405],
    ['PUT', 'text/plain', 'hello', 405], ['POST', 'text/plain', 'hello', 415],
    ['POST', 'application/json', '{}', 415], ['POST', 'application/grpc', '\0\0\0\0\0', 505],
    ['POST', 'application/grpc+proto', '\0\0\0\0\0', 505],
  ];
  for (const [method, type, body, status] of cases) {
    const answer = await ask(method, type, body);
    assert.equal(answer.status, status, `${method} ${type}`);
    if (status === 405) assert.equal(answer.headers.allow, 'POST');
    if (status !== 405) assert.match(answer.body, /gRPC/);
    assert.equal(Number(answer.headers['content-length']), answer.body.length);
    assert.equal(answer.reused, method !== 'GET');
  }
});

await test('a page of another origin is told what it may do', async () => {
  const asked = {
    origin: 'http://page.test',
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'content-type,x-grpc-web,x-user-agent',
  };
  const answer = await ask('OPTIONS', undefined, '', asked);
  assert.equal(answer.status, 204);
  assert.equal(answer.headers['content-length'], undefined);
  assert.equal(answer.headers['access-control-allow-origin'], 'http://page.test');
  assert.equal(answer.headers['access-control-allow-headers'], asked['access-control-request-headers']);
  assert.equal((await ask('OPTIONS', undefined, '', { ...asked, origin: 'http://other.test' })).status, 403);
  const empty = '\0\0\0\0\0';
  const reply = await ask('POST', 'application/grpc-web+proto', empty, { origin: 'http://page.test' });
  assert.equal(reply.headers['access-control-allow-origin'], 'http://page.test');
  assert.match(reply.headers['access-control-expose-headers'], /grpc-status/);
  assert.equal(reply.headers.vary, 'origin');
});

agent.destroy();
done();
