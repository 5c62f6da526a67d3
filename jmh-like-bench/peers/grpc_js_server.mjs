// @grpc/grpc-js of npm, the same greeter: node grpc_js_server.mjs PORT.
import { fileURLToPath } from 'node:url';
import grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

const MESSAGES = 1000; // of ItKeepsReplying with the name "many"
const proto = fileURLToPath(new URL('../../examples/greeter/helloworld.proto', import.meta.url));
const { Greeter } = grpc.loadPackageDefinition(loadSync(proto, { defaults: true })).helloworld;
const greet = ({ name }) => ({ message: `Hello, ${name}` });

const server = new grpc.Server();
server.addService(Greeter.service, {
  sayHello: (call, done) => done(null, greet(call.request)),
  itKeepsTalking(call, done) {
    let count = 0;
    call.on('data', () => count++);
    call.on('end', () => done(null, { message: `Hello to all ${count}` }));
  },
  itKeepsReplying(call) {
    let left = call.request.name === 'many' ? MESSAGES : 1;
    const write = () => {
      while (left > 0 && left-- > 0)
        if (!call.write(greet(call.request))) {
          call.once('drain', write);
          return;
        }
      call.end();
    };
    write();
  },
  streamHellos(call) {
    call.on('data', (request) => call.write(greet(request)));
    call.on('end', () => call.end());
  },
});
server.bindAsync(`127.0.0.1:${process.argv[2]}`, grpc.ServerCredentials.createInsecure(), (error) => {
  if (error)
    throw error;
  console.log(`serving on 127.0.0.1:${process.argv[2]}`);
});
