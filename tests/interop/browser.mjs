// A page in headless Chromium calls a gRPC-Web server of another origin, with the clients that npm
// has: browser.mjs ADDRESS PROTO. The cases are in browser_page.mjs, the server follows
// greeter_cases.md and lets pages of http://page.test call.
import assert from 'node:assert/strict';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { CASE_MS, bundle, launch, limited, servePage } from './browser_kit.mjs';
import { done, test } from './tap.mjs';

const [address, proto] = process.argv.slice(2);
const here = path.dirname(fileURLToPath(import.meta.url));

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

const server = await servePage(await bundle(path.join(here, 'browser_page.mjs'), proto));
const browser = await launch([`*.test 127.0.0.1:${server.address().port}`]);

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
