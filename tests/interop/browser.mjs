// A page in headless Chromium calls a gRPC-Web server of another origin, with the clients that npm
// has: browser.mjs ADDRESS PROTO. Debian's chromium, driven by playwright-core; the cases are in
// browser_page.mjs, the server follows greeter_cases.md and lets pages of http://page.test call.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { chromium } from 'playwright-core';
import { done, test } from './tap.mjs';

const CASE_MS = 30_000; // more than any case needs on a busy machine
const [address, proto] = process.argv.slice(2);
const here = path.dirname(fileURLToPath(import.meta.url));

async function bundle() {
  const folder = mkdtempSync(path.join(tmpdir(), 'pekoe-browser-'));
  const file = path.join(folder, 'descriptors');
  execFileSync('protoc', [`-I${path.dirname(proto)}`, `--descriptor_set_out=${file}`, proto]);
  const descriptors = readFileSync(file);
  rmSync(folder, { recursive: true });
  const { outputFiles } = await build({
    entryPoints: [path.join(here, 'browser_page.mjs')],
    bundle: true,
    write: false,
    format: 'iife',
    define: { DESCRIPTORS: JSON.stringify(descriptors.toString('base64')) },
    logLevel: 'error',
  });
  return outputFiles[0].text;
}

// The page's own server. Chromium finds it under every name that ends in .test.
function servePage(script) {
  const server = http.createServer((request, response) => {
    if (request.url === '/') {
      response.setHeader('content-type', 'text/html; charset=utf-8');
      response.end('<!doctype html><title>page</title><script src="/page.js"></script>');
    } else if (request.url === '/page.js') {
      response.setHeader('content-type', 'text/javascript; charset=utf-8');
      response.end(script);
    } else {
      response.writeHead(404).end();
    }
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve(server));
  });
}

function limited(promise, what) {
  let timer;
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took too long`)), CASE_MS);
  });
  return Promise.race([promise, limit]).finally(() => clearTimeout(timer));
}

// A page of that origin; `requests` gets what it asks for, preflights too.
async function open(browser, origin, requests) {
  const page = await browser.newPage();
  page.setDefaultTimeout(CASE_MS);
  const network = await page.context().newCDPSession(page);
  await network.send('Network.enable');
  network.on('Network.requestWillBeSent', ({ request }) => requests.push(request));
  await page.goto(origin);
  return [page, await page.evaluate((base) => window.open_clients(base), `http://${address}`)];
}

const executablePath = ['/usr/bin/chromium', '/usr/bin/google-chrome'].find(existsSync);
assert.ok(executablePath, 'chromium is missing (./dev setup installs it)');
const server = await servePage(await bundle());
const browser = await chromium.launch({
  executablePath,
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
    `--host-resolver-rules=MAP *.test 127.0.0.1:${server.address().port}`],
});

const requests = [];
const [page, cases] = await open(browser, 'http://page.test', requests);
for (const [client, name] of cases) {
  await test(`${client}: ${name}`,
    () => limited(page.evaluate(([c, n]) => window.run(c, n), [client, name]), name));
}

await test('the page has to ask first, but not again for the same call', async () => {
  const count = (method) => requests.filter((request) => request.method === method).length;
  const asked = () => [count('OPTIONS'), count('POST')];
  assert.ok(count('OPTIONS') > 0);
  await page.evaluate(() => window.stands('nobody'));
  const [preflights, calls] = asked();
  await page.evaluate(() => window.stands('nobody'));
  assert.deepEqual(asked(), [preflights, calls + 1]);
});

await test('a page of another origin is kept from calling', async () => {
  const [other] = await open(browser, 'http://other.test', []);
  const name = `other-${process.pid}-${Date.now()}`;
  await limited(other.evaluate((n) => window.call_from_elsewhere(n), name), 'the call');
  assert.equal(await page.evaluate((n) => window.stands(n), name), 'unknown');
});

await browser.close();
server.closeAllConnections();
server.close();
done();
