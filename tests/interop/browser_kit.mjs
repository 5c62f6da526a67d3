// What the tests with headless Chromium share: Debian's chromium, driven by playwright-core, and a
// page with a script that esbuild has put together.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { build } from 'esbuild';
import { chromium } from 'playwright-core';

export const CASE_MS = 30_000; // more than any case needs on a busy machine

// The script of a page, with the descriptors of the schema that its clients need.
export async function bundle(entry, proto) {
  const folder = mkdtempSync(path.join(tmpdir(), 'pekoe-browser-'));
  const file = path.join(folder, 'descriptors');
  execFileSync('protoc', [`-I${path.dirname(proto)}`, `--descriptor_set_out=${file}`, proto]);
  const descriptors = readFileSync(file);
  rmSync(folder, { recursive: true });
  const { outputFiles } = await build({
    entryPoints: [entry],
    bundle: true,
    write: false,
    format: 'iife',
    define: { DESCRIPTORS: JSON.stringify(descriptors.toString('base64')) },
    logLevel: 'error',
  });
  return outputFiles[0].text;
}

// The server of pages.
export function servePage(script) {
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

export function limited(promise, what) {
  let timer;
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took too long`)), CASE_MS);
  });
  return Promise.race([promise, limit]).finally(() => clearTimeout(timer));
}

// `hosts`: "name.test 127.0.0.1:PORT" for each name that a page uses, the first that fits.
export function launch(hosts) {
  const executablePath = ['/usr/bin/chromium', '/usr/bin/google-chrome'].find(existsSync);
  assert.ok(executablePath, 'chromium is missing (./dev setup installs it)');
  return chromium.launch({
    executablePath,
    args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
      `--host-resolver-rules=${hosts.map((host) => `MAP ${host}`).join(', ')}`],
  });
}
