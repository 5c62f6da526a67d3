// Both ends of the greeter on @grpc/grpc-js, with certificates on both sides:
// greeter_tls_grpc_js.mjs client ADDRESS PROTO | server PROTO --listen ADDRESS.
import { readFileSync } from 'node:fs';
import grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

const file = (name) => readFileSync(`${process.env.TLS_TEST_DATA}/${name}`);
const greeterOf = (proto) => grpc.loadPackageDefinition(loadSync(proto)).helloworld.Greeter;

function call(Greeter, address, credentials) {
  const client = new Greeter(address, credentials, { 'grpc.enable_http_proxy': 0 });
  return new Promise((resolve) => {
    client.sayHello({ name: 'Anna' }, { deadline: Date.now() + 20_000 }, (error, reply) => {
      client.close();
      resolve(error ? grpc.status[error.code] : reply.message);
    });
  });
}

async function runClient(address, proto) {
  const Greeter = greeterOf(proto);
  const with_one = grpc.credentials.createSsl(file('ca.pem'), file('client.key'), file('client.pem'));
  console.log(await call(Greeter, address, with_one));
  console.log(await call(Greeter, address, grpc.credentials.createSsl(file('ca.pem'))));
}

function runServer(proto, address) {
  const server = new grpc.Server();
  const greet = (name) => ({ message: `Hello, ${name}` });
  server.addService(greeterOf(proto).service, {
    sayHello: (one, done) => done(null, greet(one.request.name)),
    itKeepsTalking: (one, done) => {
      const names = [];
      one.on('data', (request) => names.push(request.name));
      one.on('end', () => done(null, greet(names.join(', '))));
    },
    itKeepsReplying: (one) => {
      for (const letter of one.request.name) one.write(greet(letter));
      one.end();
    },
    streamHellos: (one) => {
      one.on('data', (request) => one.write(greet(request.name)));
      one.on('end', () => one.end());
    },
  });
  const credentials = grpc.ServerCredentials.createSsl(file('ca.pem'), [
    { private_key: file('server.key'), cert_chain: file('server.pem') }], true);
  server.bindAsync(address, credentials, (error, port) => {
    if (error) throw error;
    console.log(`listening on 127.0.0.1:${port}`);
  });
  process.on('SIGTERM', () => server.tryShutdown(() => process.exit(0)));
}

const [role, ...rest] = process.argv.slice(2);
if (role === 'client') await runClient(...rest);
else runServer(rest[0], rest[rest.indexOf('--listen') + 1]);
