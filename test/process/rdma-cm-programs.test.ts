// Programs that use isoverbs/rdma-cm, as processes. Needs a build.
// @module-tag wide
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';

const ROOT = resolve(import.meta.dirname, '../..');

function node(...args: string[]) {
  const inherited = Object.entries(process.env).filter(([key]) => !key.startsWith('ISOVERBS_'));
  const child = spawnSync(process.execPath, args, {
    cwd: ROOT,
    env: { ...Object.fromEntries(inherited), NODE_OPTIONS: '', ISOVERBS_NO_ADDON: '1' },
    encoding: 'utf8',
    timeout: 60_000,
  });
  return { code: child.status, out: child.stdout, err: child.stderr };
}

const program = (code: string) => node('--input-type=module', '--eval', code);

test('the echo example', () => {
  expect(node('examples/rdma-cm-echo.mjs')).toEqual({
    code: 0,
    out: 'listening on port 49152\necho: hello, world\n',
    err: '',
  });
  const lines = readFileSync(resolve(ROOT, 'examples/rdma-cm-echo.mjs'), 'utf8').split('\n');
  expect(lines.length).toBeLessThan(60);
});

test.each([
  [
    ['examples/rdma-cm-echo.mjs', '--connect', '127.0.0.1:7999'],
    /^cannot connect to .* \(ISO_ERR_CONNECTION\)\n$/,
  ],
  [['examples/rc-pingpong.mjs'], /^simulated devices .* \(ISO_ERR_CONFIG\)\n$/],
  [['examples/rc-pingpong.mjs', '-d', 'nope0'], /^no device 'nope0'; .* \(ISO_ERR_NO_DEVICE\)\n$/],
])('%j prints why it fails in one line', (words, message) => {
  expect(node(...words)).toEqual({ code: 1, out: '', err: expect.stringMatching(message) });
});

test('the echo server in docs/rdma-cm.md runs, and is short', () => {
  const [, code] = /```js\n(.*?)```/s.exec(readFileSync(resolve(ROOT, 'docs/rdma-cm.md'), 'utf8')) ?? [];
  expect(program(code)).toEqual({ code: 0, out: 'hello\n', err: '' });
  const server = code.slice(0, code.indexOf('const client'));
  expect(server.trim().split('\n').length).toBeLessThan(30);
});

test('a process that can get no more events ends, even with open objects', () => {
  const code = `
    import { once } from 'node:events';
    import { connect, createServer } from 'isoverbs/rdma-cm';
    const server = createServer().listen(7);
    await once(server, 'listening');
    const accepted = once(server, 'connection');
    await connect({ host: 'sim0', port: 7 });
    await accepted;
    console.log('pass');`;
  expect(program(code)).toEqual({ code: 0, out: 'pass\n', err: '' });
});

test('a call without a provider uses the devices of the process', () => {
  const code = `
    import { connect } from 'isoverbs/rdma-cm';
    await connect({ host: 'sim0', port: 9 }).catch(({ code, reason, message }) => {
      console.log(code, reason, /; simulated devices .*ISOVERBS_PROVIDER=soft/.test(message));
    });`;
  expect(program(code)).toEqual({
    code: 0,
    out: 'ISO_ERR_CONNECTION no server listens on that port true\n',
    err: '',
  });
});
