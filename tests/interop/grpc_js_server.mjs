// grpc.testing.TestService on @grpc/grpc-js, replies compressed: grpc_js_server.mjs --listen ADDRESS.
// It cannot see the compressed flag of a message, so it cannot answer the compression probes.
import { readFileSync } from 'node:fs';

import grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

const INITIAL = 'x-grpc-test-echo-initial';
const TRAILING = 'x-grpc-test-echo-trailing-bin';
const definition = loadSync('grpc/testing/test.proto', {
  defaults: true, includeDirs: ['/usr/share/grpc-proto'],
});
const { TestService } = grpc.loadPackageDefinition(definition).grpc.testing;

// Sends the headers; returns the trailers.
function echo(call) {
  const initial = new grpc.Metadata();
  const trailing = new grpc.Metadata();
  for (const value of call.metadata.get(INITIAL)) initial.add(INITIAL, value);
  for (const value of call.metadata.get(TRAILING)) trailing.add(TRAILING, value);
  call.sendMetadata(initial);
  return trailing;
}

const failure = (status, metadata) => (
  status && status.code ? { code: status.code, details: status.message, metadata } : null);

function writeOutputs(call, request) {
  for (const { size } of request.responseParameters) {
    call.write({ payload: { body: Buffer.alloc(size) } });
  }
}

const server = new grpc.Server({ 'grpc.default_compression_algorithm': 2 });
server.addService(TestService.service, {
  EmptyCall: (call, done) => done(null, {}, echo(call)),
  UnaryCall: (call, done) => {
    const trailing = echo(call);
    done(failure(call.request.responseStatus, trailing),
      {
        payload: { body: Buffer.alloc(call.request.responseSize) },
        serverId: call.request.fillServerId ? `grpc-js-${process.pid}` : '',
      }, trailing);
  },
  StreamingOutputCall: (call) => {
    echo(call);
    writeOutputs(call, call.request);
    call.end();
  },
  StreamingInputCall: (call, done) => {
    let aggregatedPayloadSize = 0;
    call.on('data', (request) => { aggregatedPayloadSize += request.payload.body.length; });
    call.on('end', () => done(null, { aggregatedPayloadSize }));
    call.on('error', () => {});
  },
  FullDuplexCall: (call) => {
    const trailing = echo(call);
    call.on('data', (request) => {
      const error = failure(request.responseStatus, trailing);
      if (error) call.emit('error', error);
      else writeOutputs(call, request);
    });
    call.on('end', () => call.end(trailing));
    call.on('error', () => {});
  },
});
const address = process.argv[process.argv.indexOf('--listen') + 1];
const folder = process.env.TLS_TEST_DATA; // of certificates; without it there is no TLS
const credentials = folder ? grpc.ServerCredentials.createSsl(null, [{
  private_key: readFileSync(`${folder}/server1.key`), cert_chain: readFileSync(`${folder}/server1.pem`),
}]) : grpc.ServerCredentials.createInsecure();
server.bindAsync(address, credentials, (error, port) => {
  if (error) throw error;
  console.log(`listening on 127.0.0.1:${port}`);
});
process.on('SIGTERM', () => server.tryShutdown(() => process.exit(0)));
