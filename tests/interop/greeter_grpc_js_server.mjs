// The server of greeter_cases.md on @grpc/grpc-js: greeter_grpc_js_server.mjs --listen ADDRESS.
import { fileURLToPath } from 'node:url';
import grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

const INITIAL = 'x-grpc-test-echo-initial';
const TRAILING = 'x-grpc-test-echo-trailing-bin';
const proto = fileURLToPath(new URL('../../examples/greeter/helloworld.proto', import.meta.url));
const { Greeter } = grpc.loadPackageDefinition(loadSync(proto, { defaults: true })).helloworld;

// What calls tell about another one of that name.
const all = new Map();
function named(name) {
  if (!all.has(name)) all.set(name, { state: 'unknown', opened: 0, waiting: null });
  return all.get(name);
}

// Sends the headers; returns what the handlers need of the metadata.
function begin(call) {
  const text = (key) => call.metadata.get(key)[0];
  const trailers = new grpc.Metadata();
  const headers = new grpc.Metadata();
  for (const value of call.metadata.get(INITIAL)) headers.add(INITIAL, value);
  for (const value of call.metadata.get(TRAILING)) trailers.add(TRAILING, value);
  const details = text('test-details-bin');
  if (details) trailers.add('grpc-status-details-bin', details);
  call.sendMetadata(headers);
  const own = text('test-name') ? named(text('test-name')) : {};
  own.state = 'running';
  call.on('cancelled', () => {
    if (own.state === 'running') own.state = 'cancelled';
  });
  return { text, trailers, own, code: Number(text('test-status') ?? 0) };
}

// Done after the delay, or when the call has been cancelled.
function delayed(call, { text }) {
  const delay = Number(text('test-delay-ms') ?? 0);
  return delay === 0 ? undefined : new Promise((resolve) => {
    const timer = setTimeout(resolve, delay);
    call.on('cancelled', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

function openGate(gate) {
  if (gate.waiting) gate.waiting();
  else gate.opened++;
  gate.waiting = null;
}

function passed(call, gate) {
  if (gate.opened > 0) {
    gate.opened--;
    return undefined;
  }
  return new Promise((resolve) => {
    gate.waiting = resolve;
    call.on('cancelled', resolve);
  });
}

async function sayHello(call, done) {
  const state = begin(call);
  if (state.text('test-open')) openGate(named(state.text('test-open')));
  await delayed(call, state);
  if (call.cancelled) return;
  state.own.state = 'ended';
  const { name } = call.request;
  const asked = state.text('test-how');
  if (state.code) done({ code: state.code, details: name, metadata: state.trailers });
  else done(null, { message: asked ? named(asked).state : `Hello, ${name}` }, state.trailers);
}

async function itKeepsReplying(call) {
  const state = begin(call);
  const { name } = call.request;
  const count = Number(state.text('test-count') ?? 3);
  for (let sent = 0; sent < count && !call.cancelled; sent++) {
    if (sent > 0 && state.text('test-gate')) await passed(call, named(state.text('test-gate')));
    await delayed(call, state);
    if (!call.cancelled) call.write({ message: name });
  }
  if (call.cancelled) return;
  state.own.state = 'ended';
  if (state.code) call.emit('error', { code: state.code, details: name, metadata: state.trailers });
  else call.end(state.trailers);
}

const server = new grpc.Server();
server.addService(Greeter.service, { SayHello: sayHello, ItKeepsReplying: itKeepsReplying });
const address = process.argv[process.argv.indexOf('--listen') + 1];
server.bindAsync(address, grpc.ServerCredentials.createInsecure(), (error, port) => {
  if (error) throw error;
  console.log(`listening on 127.0.0.1:${port}`);
});
process.on('SIGTERM', () => server.tryShutdown(() => process.exit(0)));
