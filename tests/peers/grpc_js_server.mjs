// peers.Echo on @grpc/grpc-js, which does not compress replies: grpc_js_server.mjs --listen ADDRESS.
import grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const definition = loadSync('peers.proto', { defaults: true, includeDirs: [here] });
const { Echo } = grpc.loadPackageDefinition(definition).peers;

// One call: what it saw is part of each reply.
class Call {
  constructor(call) {
    const deadline = call.getDeadline();
    this.timeLeftMs = Number.isFinite(+deadline) ? +deadline - Date.now() : -1;
    this.user = call.metadata.get('x-user');
    this.data = call.metadata.get('x-data-bin');
    this.messages = 0;
    const head = new grpc.Metadata();
    this.user.forEach((value) => head.add('x-head', value));
    call.sendMetadata(head);
    this.tail = new grpc.Metadata();
    this.data.forEach((value) => this.tail.add('x-tail-bin', value));
  }

  // The error that the request wants; waits first where it wants that.
  async take(request) {
    this.messages++;
    if (request.sleepMs) await new Promise((go) => setTimeout(go, request.sleepMs));
    return request.code ? { code: request.code, details: request.text, metadata: this.tail } : null;
  }

  reply(text) {
    const { messages, timeLeftMs, user, data } = this;
    return { text, messages, timeLeftMs: Math.round(timeLeftMs), user, data };
  }
}

// The requests of a stream, one after the other; `each` may wait.
function inOrder(stream, each, end) {
  let last = Promise.resolve();
  stream.on('data', (request) => { last = last.then(() => each(request)); });
  stream.on('end', () => last.then(end));
  stream.on('error', () => {});
}

const server = new grpc.Server();
server.addService(Echo.service, {
  Unary: async (call, done) => {
    const one = new Call(call);
    const error = await one.take(call.request);
    done(error, one.reply(call.request.text), one.tail);
  },
  ServerStream: async (call) => {
    const one = new Call(call);
    const error = await one.take(call.request);
    if (error) call.emit('error', error);
    for (let i = 0; i < call.request.replies && !error; i++) call.write(one.reply(call.request.text));
    if (!error) call.end(one.tail);
  },
  ClientStream: (call, done) => {
    const one = new Call(call);
    let text = '';
    inOrder(call, async (request) => {
      await one.take(request);
      text += request.text;
    }, () => done(null, one.reply(text), one.tail));
  },
  Chat: (call) => {
    const one = new Call(call);
    inOrder(call, async (request) => {
      const error = await one.take(request);
      if (error) call.emit('error', error);
      else call.write(one.reply(request.text));
    }, () => call.end(one.tail));
  },
});
const address = process.argv[process.argv.indexOf('--listen') + 1];
server.bindAsync(address, grpc.ServerCredentials.createInsecure(), (error, port) => {
  if (error) throw error;
  console.log(`listening on 127.0.0.1:${port}`);
});
process.on('SIGTERM', () => server.tryShutdown(() => process.exit(0)));
