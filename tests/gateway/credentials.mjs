// Pages that send cookies, in headless Chromium: credentials.mjs EXACT ANY PROTO, addresses of
// gateways that let pages of http://page.test call with credentials, and those of any origin. The
// clients are those of npm; the gateways have names of the page's own site, which is what cookies
// are sent to over plain HTTP. TAP on stdout.
import assert from 'node:assert/strict';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { CASE_MS, bundle, launch, limited, servePage } from '../interop/browser_kit.mjs';
import { done, test } from '../interop/tap.mjs';

const [exact, any, proto] = process.argv.slice(2);
const here = path.dirname(fileURLToPath(import.meta.url));
const server = await servePage(await bundle(path.join(here, 'credentials_page.mjs'), proto));
const browser = await launch([`exact.page.test ${exact}`, `any.page.test ${any}`,
  `*.test 127.0.0.1:${server.address().port}`]);

// A page of that origin; `answers` gets the fields of what gateways answer, preflights too.
async function open(origin, answers) {
  const context = await browser.newContext();
  const page = await context.newPage();
  page.setDefaultTimeout(CASE_MS);
  const network = await context.newCDPSession(page);
  await network.send('Network.enable');
  network.on('Network.responseReceivedExtraInfo', ({ headers }) => {
    const lower = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]);
    const fields = Object.fromEntries(lower);
    if (fields['access-control-allow-origin']) answers.push(fields);
  });
  await page.goto(origin);
  return page;
}

const call = (page, base, name, options) => limited(
  page.evaluate(([b, n, o]) => window.call(b, n, o), [base, name, options]), name);

const answers = [];
const page = await open('http://page.test', answers);
const names = await page.evaluate(() => window.client_names());

for (const [host, base] of [['exact', 'http://exact.page.test'], ['any', 'http://any.page.test']]) {
  for (const name of names) {
    for (const stream of [false, true]) {
      const what = `${name}${stream ? ', a stream' : ''}, ${host} origin`;
      await test(`${what}: cookie and fields reach the upstream`, async () => {
        const session = `${what}-${Date.now()}`.replaceAll(/[^a-z0-9]+/g, '-');
        const meta = { 'x-session': session, authorization: 'Bearer token' };
        const first = await call(page, base, name, { credentials: true, stream, meta });
        assert.equal(first.error, undefined);
        assert.equal(first.seen['x-session'], session);
        assert.equal(first.seen.authorization, 'Bearer token');
        assert.equal(first.headers['x-seen-by'], 'upstream', 'the page may read it');
        const second = await call(page, base, name, { credentials: true, stream, meta });
        assert.ok(second.seen.cookie.split('; ').includes(`session=${session}`), second.seen.cookie);
        const plain = await call(page, base, name, { credentials: false, stream, meta });
        assert.equal(plain.seen.cookie, undefined);
        assert.equal(plain.seen['x-session'], session);
      });
    }
  }
}

await test('the origin is named, and no field has a wildcard', () => {
  assert.ok(answers.length > 2 * 2 * names.length);
  for (const fields of answers) {
    assert.equal(fields['access-control-allow-origin'], 'http://page.test');
    assert.equal(fields['access-control-allow-credentials'], 'true');
    assert.match(fields.vary, /origin/i);
    for (const [name, value] of Object.entries(fields)) {
      if (name.startsWith('access-control-')) assert.ok(!value.includes('*'), `${name}: ${value}`);
    }
  }
});

await test('a page of another origin is kept from calling with credentials', async () => {
  const other = await open('http://other.page.test', []);
  for (const name of names) {
    const outcome = await call(other, 'http://exact.page.test', name,
      { credentials: true, meta: { 'x-session': 'other' } });
    assert.ok(outcome.error, `${name}: ${JSON.stringify(outcome)}`);
  }
});

await browser.close();
server.closeAllConnections();
server.close();
done();
