// `isoverbs top` and `tenants` say whether fair schedules a device, and why. The last test requires a build.
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { daemon, folder, isoverbs, tenant } from './command-rig.ts';
import { reason, until } from './rig.ts';
import { World } from './window-world.ts';

const HOG_AND_ECHO = resolve(import.meta.dirname, 'children/hog-and-echo.mjs');

test('a daemon whose own policy is perf says that the device is scheduled, too', async () => {
  const world = new World(0, 'fair');
  world.start();
  await world.run(1e8);
  expect(world.host.tenants()).toMatchObject([
    { class: '', stance: 'scheduled', why: expect.stringMatching(/^scheduled: /) },
  ]);
});

test('a daemon whose own policy is perf does not judge tenants under other policies', async () => {
  const world = new World(0, 'palos');
  world.start();
  await world.run(1e8);
  expect(world.host.tenants()).toMatchObject([{ class: '', why: '' }]);
});

test.skipIf(reason !== '')(
  'top says that a device is scheduled, and what a comparison with leaving the device alone has shown',
  { tags: ['long'], timeout: 60_000 },
  async () => {
    const socket = join(folder(), 's');
    await daemon(socket, ['--policy', 'fair']);
    await tenant(socket, 'mixed', HOG_AND_ECHO);
    const lines = isoverbs(['top', '--socket', socket, '--json', '--interval', '0.1']);
    const said = (): { stance?: string; why: string }[] =>
      lines
        .out()
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line).tenants[0] ?? { why: '' });
    // Two samples of the daemon are necessary for the first line.
    await until(() => said().some(({ why }) => /not compared yet with leaving the device alone$/.test(why)));
    await until(() => said().some(({ why }) => why.includes('with scheduling, ')), 40_000);
    const { stance, why } = said().at(-1)!;
    expect(stance).toBe('scheduled');
    const [, onUs, offUs] =
      /^scheduled: with scheduling, short messages take (.+) us instead of (.+), and /.exec(why)!;
    expect(Number(onUs) / Number(offUs)).toBeLessThan(0.5);
    const { stdout } = await isoverbs(['top', '--socket', socket, '--once', '--interval', '0.1']).ended;
    expect(stdout.replace(/\s+/g, ' ')).toContain('scheduled: with scheduling, short messages take');
  },
);
