// Uses the page as a person would: page_check.mjs URL. Run by demo.py; prints a JSON line of
// [what, got, wanted] for each thing that was tried. In Debian's Chromium by playwright-core (npm)
// where both are there; else Node makes the calls of the page's own client, grpc_web.mjs.
import { existsSync } from 'node:fs';
import { call, decodeText, encodeText } from './page/grpc_web.mjs';

const [url] = process.argv.slice(2);
const LIMIT_MS = 20_000;
const tell = (...result) => console.log(JSON.stringify(result));
const OK_AFTER = / after .*/;

async function inBrowser(chromium, executablePath) {
  const browser = await chromium.launch({
    executablePath, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
  });
  try {
    const page = await browser.newPage();
    page.setDefaultTimeout(LIMIT_MS);
    const errors = [];
    page.on('pageerror', (error) => errors.push(String(error)));
    await page.goto(url);
    const status = async (section, state) => (
      await page.textContent(`#${section} .status[data-state="${state}"]`)).replace(OK_AFTER, '');
    const dots = () => page.locator('#plot circle').count();

    await page.fill('#unary [name=name]', 'Grüße');
    await page.click('#unary button');
    tell('SayHello "Grüße", status', await status('unary', 'ok'), 'OK');
    tell('SayHello "Grüße", reply', await page.textContent('#unary .reply'), 'Hello, Grüße');
    await page.fill('#unary [name=name]', '');
    await page.click('#unary button');
    tell('SayHello ""', await status('unary', 'failed'), 'INVALID_ARGUMENT: name is empty');

    await page.fill('#stream [name=name]', 'Grüße im Strom');
    await page.fill('#stream [name=pause]', '10');
    await page.click('#stream [name=start]');
    tell('ItKeepsReplying, status', await status('stream', 'ok'), 'OK');
    tell('ItKeepsReplying, replies', await page.textContent('#stream .reply'), 'Grüße im Strom');
    tell('dots in the plot', String(await dots()), '14');

    // The first message is seen while the stream goes on for a long time yet.
    await page.fill('#stream [name=name]', 'x'.repeat(10_000));
    await page.fill('#stream [name=pause]', '200');
    await page.click('#stream [name=start]');
    await page.waitForSelector('#plot circle');
    await page.waitForSelector('#plot .now', { state: 'attached' });
    await page.click('#stream [name=stop]');
    tell('a stream that is stopped', await status('stream', 'failed'), 'CANCELLED: stopped by this page');
    tell('errors in the page', errors.join('; ') || 'none', 'none');
  } finally {
    await browser.close();
  }
}

async function inNode() {
  const replies = async (method, name, metadata) => {
    const got = [];
    const options = { metadata, signal: AbortSignal.timeout(LIMIT_MS) };
    try {
      for await (const reply of call(`${url}helloworld.Greeter/${method}`, encodeText(name), options)) {
        got.push(decodeText(reply));
      }
    } catch (error) {
      got.push(`${error.codeName}: ${error.message}`);
    }
    return got.join(' | ');
  };
  tell('SayHello "Grüße"', await replies('SayHello', 'Grüße'), 'Hello, Grüße');
  tell('SayHello ""', await replies('SayHello', ''), 'INVALID_ARGUMENT: name is empty');
  tell('ItKeepsReplying "Bö"', await replies('ItKeepsReplying', 'Bö', { 'pause-ms': '10' }),
    'Hello, B | Hello, ö');
}

const browser = ['/usr/bin/chromium', '/usr/bin/google-chrome'].find(existsSync);
const playwright = browser && await import('playwright-core').catch(() => null);
tell('by', playwright ? `headless ${browser}` : `Node ${process.version}`, null);
if (playwright) await inBrowser(playwright.chromium, browser);
else await inNode();
