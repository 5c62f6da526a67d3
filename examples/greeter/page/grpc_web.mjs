// gRPC-Web in the browser, by hand: what a client library does, small enough to be read.
//
// A request is one POST whose body is a message behind a 5-byte prefix (a byte of flags, the length
// in four). The response's body is a row of such frames; the last one has flag 0x80 and holds the
// trailers as text. https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md

const TRAILERS = 0x80;
const CODES = ['OK', 'CANCELLED', 'UNKNOWN', 'INVALID_ARGUMENT', 'DEADLINE_EXCEEDED', 'NOT_FOUND',
  'ALREADY_EXISTS', 'PERMISSION_DENIED', 'RESOURCE_EXHAUSTED', 'FAILED_PRECONDITION', 'ABORTED',
  'OUT_OF_RANGE', 'UNIMPLEMENTED', 'INTERNAL', 'UNAVAILABLE', 'DATA_LOSS', 'UNAUTHENTICATED'];

export class GrpcError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
    this.codeName = CODES[code] ?? `code ${code}`;
  }
}

function framed(message) {
  const frame = new Uint8Array(5 + message.length);
  new DataView(frame.buffer).setUint32(1, message.length);
  frame.set(message, 5);
  return frame;
}

// The frames of a body as they come, whatever pieces it comes in: {flags, bytes}.
async function* framesOf(body) {
  const reader = body.getReader();
  let rest = new Uint8Array(0);
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const joined = new Uint8Array(rest.length + value.length);
    joined.set(rest);
    joined.set(value, rest.length);
    rest = joined;
    while (rest.length >= 5) {
      const length = new DataView(rest.buffer, rest.byteOffset).getUint32(1);
      if (rest.length < 5 + length) break;
      yield { flags: rest[0], bytes: rest.slice(5, 5 + length) };
      rest = rest.slice(5 + length);
    }
  }
  if (rest.length > 0) throw new GrpcError(13, 'the response was cut');
}

function fieldsOf(bytes) {
  const lines = new TextDecoder().decode(bytes).trim().split('\r\n');
  return new Map(lines.map((line) => {
    const colon = line.indexOf(':');
    return [line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim()];
  }));
}

// Throws unless these headers or trailers say that all went well; false: they have no status.
function checkStatus(fields) {
  const status = fields.get('grpc-status');
  if (status === null || status === undefined) return false;
  if (status !== '0') {
    let message = fields.get('grpc-message') ?? '';
    try {
      message = decodeURIComponent(message);
    } catch {
      // Text that only looks like percent-encoding stays as it is.
    }
    throw new GrpcError(Number(status), message);
  }
  return true;
}

// Calls `path` and yields the bytes of each reply; throws a GrpcError where the call fails.
// `onFrame` hears of each frame as well. `metadata` is an object, `signal` ends the call.
export async function* call(path, request, { metadata = {}, signal, onFrame = () => {} } = {}) {
  let response;
  try {
    response = await fetch(path, {
      method: 'POST',
      headers: { 'content-type': 'application/grpc-web+proto', 'x-grpc-web': '1', ...metadata },
      body: framed(request),
      signal,
    });
    // A call that fails at once may have its status in the head.
    if (checkStatus(response.headers)) return;
    if (!response.ok) throw new GrpcError(2, `HTTP status ${response.status}`);
    for await (const frame of framesOf(response.body)) {
      onFrame(frame);
      if (frame.flags & TRAILERS) {
        checkStatus(fieldsOf(frame.bytes));
        return;
      }
      yield frame.bytes;
    }
    throw new GrpcError(13, 'the response has no trailers');
  } catch (error) {
    if (error instanceof GrpcError) throw error;
    if (error.name === 'AbortError') throw new GrpcError(1, 'stopped by this page');
    throw new GrpcError(14, error.message);
  }
}

// ---- The messages of helloworld.proto: both have one string, field 1 ----

export function encodeText(text) {
  const bytes = new TextEncoder().encode(text);
  const head = [0x0a];
  let { length } = bytes;
  for (; length > 127; length >>>= 7) head.push((length & 127) | 128);
  return Uint8Array.of(...head, length, ...bytes);
}

export function decodeText(message) {
  if (message.length === 0) return '';
  let at = 1;
  while (message[at++] & 128);
  return new TextDecoder().decode(message.slice(at));
}
