// The code of docs/guide.md is one program: it runs, on a simulated device. Needs a build.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';

const ROOT = resolve(import.meta.dirname, '../..');

test('the guide runs from top to bottom', () => {
  const page = readFileSync(resolve(ROOT, 'docs/guide.md'), 'utf8');
  const blocks = [...page.matchAll(/```js\n([\s\S]*?)```/g)].map((match) => match[1]);
  expect(blocks.length).toBeGreaterThan(4);
  const program = `${blocks.join('\n')}\nif (n > 0) throw new Error('left over');\ncontext.close(); console.log('end of the guide');`;
  const child = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    cwd: ROOT,
    env: { ...process.env, NODE_OPTIONS: '', ISOVERBS_NO_ADDON: '1', ISOVERBS_DEVICE: 'sim0' },
    encoding: 'utf8',
    timeout: 30_000,
  });
  expect({ code: child.status, err: child.stderr }).toEqual({ code: 0, err: '' });
  expect(child.stdout.trimEnd().split('\n').at(-1)).toBe('end of the guide');
});
