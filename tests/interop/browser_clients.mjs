// The three gRPC-Web clients of npm behind one interface, for the page of browser.mjs.
//
// Each client has unary(name, options) and stream(name, options, onMessage). Options: meta (an
// object), timeoutMs, signal. What they resolve to has message (unary), headers and trailers; what
// they reject with has code (a number), message, trailers and detail, the name in the error's rich
// details. `incremental`: a stream's messages reach the page before the stream has ended. With
// `credentials` they send and take the server's cookies.
import { createFileRegistry, fromBinary } from '@bufbuild/protobuf';
import { base64Decode } from '@bufbuild/protobuf/wire';
import { FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';
import { createClient } from '@connectrpc/connect';
import { createGrpcWebTransport } from '@connectrpc/connect-web';
import { GrpcWebFetchTransport, GrpcStatusCode } from '@protobuf-ts/grpcweb-transport';
import { MessageType, ScalarType } from '@protobuf-ts/runtime';
import { ServiceType, stackIntercept } from '@protobuf-ts/runtime-rpc';
import grpcWeb from 'grpc-web';

// Without protoc's generated code: protobuf-ts by hand, connect from protoc's descriptors.
const scalar = (no, name, T) => ({ no, name, kind: 'scalar', T });
export const HelloRequest = new MessageType('helloworld.HelloRequest',
  [scalar(1, 'name', ScalarType.STRING)]);
export const HelloReply = new MessageType('helloworld.HelloReply',
  [scalar(1, 'message', ScalarType.STRING)]);
const Any = new MessageType('google.protobuf.Any',
  [{ ...scalar(1, 'type_url', ScalarType.STRING), localName: 'typeUrl' },
    scalar(2, 'value', ScalarType.BYTES)]);
const Status = new MessageType('google.rpc.Status',
  [scalar(1, 'code', ScalarType.INT32), scalar(2, 'message', ScalarType.STRING),
    { no: 3, name: 'details', kind: 'message', repeat: 1, T: () => Any }]);
const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, base64Decode(DESCRIPTORS)));

const base64 = (bytes) => btoa(String.fromCharCode(...bytes));
export const bytesOf = (text) => [...base64Decode(text.trim())];

// google.rpc.Status with one detail, a HelloRequest of that name, as metadata carries it.
export function statusWithDetail(code, message, name) {
  const detail = {
    typeUrl: 'type.googleapis.com/helloworld.HelloRequest',
    value: HelloRequest.toBinary({ name }),
  };
  return base64(Status.toBinary({ code, message, details: [detail] }));
}

function detailIn(trailers) {
  const text = trailers?.['grpc-status-details-bin'];
  if (!text) return undefined;
  const [detail] = Status.fromBinary(base64Decode(text)).details;
  return HelloRequest.fromBinary(detail.value).name;
}

function failure(code, message, trailers, detail) {
  return Object.assign(new Error(message), { code, trailers, detail });
}

// ---- grpc-web ----

function grpcWebClient(base, format, credentials) {
  const client = new grpcWeb.GrpcWebClientBase({ format, withCredentials: credentials });
  const method = (name, type) => new grpcWeb.MethodDescriptor(`/helloworld.Greeter/${name}`, type,
    Object, Object, (request) => HelloRequest.toBinary(request),
    (bytes) => HelloReply.fromBinary(new Uint8Array(bytes)));
  const sayHello = method('SayHello', grpcWeb.MethodType.UNARY);
  const itKeepsReplying = method('ItKeepsReplying', grpcWeb.MethodType.SERVER_STREAMING);

  function run({ meta = {}, timeoutMs, signal }, open) {
    const metadata = timeoutMs ? { ...meta, deadline: String(Date.now() + timeoutMs) } : meta;
    return new Promise((resolve, reject) => {
      const result = { headers: {}, trailers: {} };
      const fail = (error) => reject(failure(error.code, error.message, error.metadata,
        detailIn(error.metadata)));
      const call = open(metadata, result, resolve, fail);
      call.on('metadata', (headers) => Object.assign(result.headers, headers));
      call.on('status', (status) => Object.assign(result.trailers, status.metadata));
      signal?.addEventListener('abort', () => {
        call.cancel();
        reject(failure(1, 'aborted')); // a cancelled call says nothing more
      });
    });
  }

  return {
    name: `grpc-web ${format}`,
    incremental: format === 'text', // binary comes by XMLHttpRequest, which shows no part of it
    unary: (name, options) => run(options, (metadata, result, resolve, fail) => {
      let message;
      const call = client.rpcCall(base + sayHello.getName(), { name }, metadata, sayHello,
        (error, reply) => {
          if (error) fail(error);
          else ({ message } = reply);
        });
      call.on('end', () => resolve({ ...result, message }));
      return call;
    }),
    stream: (name, options, onMessage) => run(options, (metadata, result, resolve, fail) => {
      const call = client.serverStreaming(base + itKeepsReplying.getName(), { name }, metadata,
        itKeepsReplying);
      call.on('data', (reply) => onMessage(reply.message));
      call.on('error', fail);
      call.on('end', () => resolve(result));
      return call;
    }),
  };
}

// ---- @connectrpc/connect-web ----

function connectClient(base, credentials) {
  const client = createClient(registry.getService('helloworld.Greeter'),
    createGrpcWebTransport({
      baseUrl: base,
      fetch: credentials ? (input, init) => fetch(input, { ...init, credentials: 'include' }) : fetch,
    }));
  const detailType = registry.getMessage('helloworld.HelloRequest');

  async function run({ meta = {}, timeoutMs, signal }, open) {
    const result = {};
    try {
      const message = await open({
        headers: meta,
        timeoutMs,
        signal,
        onHeader: (headers) => { result.headers = Object.fromEntries(headers); },
        onTrailer: (trailers) => { result.trailers = Object.fromEntries(trailers); },
      });
      return { ...result, message };
    } catch (error) {
      throw failure(error.code, error.rawMessage, Object.fromEntries(error.metadata ?? []),
        error.findDetails?.(detailType)[0]?.name);
    }
  }

  return {
    name: 'connect-web binary',
    incremental: true,
    unary: (name, options) => run(options,
      async (call) => (await client.sayHello({ name }, call)).message),
    stream: (name, options, onMessage) => run(options, async (call) => {
      for await (const reply of client.itKeepsReplying({ name }, call)) onMessage(reply.message);
    }),
  };
}

// ---- @protobuf-ts/grpcweb-transport ----

function protobufTsClient(base, format, credentials) {
  const fetchInit = credentials ? { credentials: 'include' } : {};
  const transport = new GrpcWebFetchTransport({ baseUrl: base, format, fetchInit });
  const { methods } = new ServiceType('helloworld.Greeter', [
    { name: 'SayHello', I: HelloRequest, O: HelloReply, options: {} },
    { name: 'ItKeepsReplying', serverStreaming: true, I: HelloRequest, O: HelloReply, options: {} },
  ]);

  async function run(kind, method, name, { meta = {}, timeoutMs, signal }, receive) {
    const options = transport.mergeOptions({ meta, timeout: timeoutMs, abort: signal });
    const call = stackIntercept(kind, transport, method, options, { name });
    // Whoever awaits none of these would leave them rejected without a handler.
    for (const promise of [call.headers, call.trailers, call.status, call.response]) {
      promise?.catch(() => {});
    }
    try {
      const message = await receive(call);
      return { message, headers: await call.headers, trailers: await call.trailers };
    } catch (error) {
      // This client leaves it to its caller to decode the message.
      throw failure(GrpcStatusCode[error.code], decodeURIComponent(error.message), error.meta,
        detailIn(error.meta));
    }
  }

  return {
    name: `protobuf-ts ${format}`,
    incremental: true,
    unary: (name, options) => run('unary', methods[0], name, options,
      async (call) => (await call.response).message),
    stream: (name, options, onMessage) => run('serverStreaming', methods[1], name, options,
      async (call) => {
        for await (const reply of call.responses) onMessage(reply.message);
        await call.status;
      }),
  };
}

export function clients(base, credentials = false) {
  return [
    grpcWebClient(base, 'text', credentials), grpcWebClient(base, 'binary', credentials),
    connectClient(base, credentials),
    protobufTsClient(base, 'text', credentials), protobufTsClient(base, 'binary', credentials),
  ];
}
