// Facts files: merged over what devices say, and reported if they were measured on another device.
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { loadConfig } from '../../src/config.ts';
import { openDevice } from '../../src/open.ts';
import { differences, type FactsFile, factsInterceptor, readFacts } from '../../src/providers/facts.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { inheritByChildren } from '../../src/register-children.ts';
import { compose } from '../../src/shim/compose.ts';
import { ConfigError } from '../../src/verbs/errors.ts';

const FILE: FactsFile = {
  format: 'isoverbs-facts-1',
  date: '2026-01-02T03:04:05.000Z',
  device: 'sim0',
  driver: 'sim:cx6-100g',
  firmware: '0.1',
  mtuBytes: 4096,
  linkGbps: 100,
  maxGbps: 98.5,
  maxMmps: 75,
  qpMmps: 8,
  chunks: [
    { chunkBytes: 1024, gbps: 20 },
    { chunkBytes: 5120, gbps: 80 },
  ],
  tailNs: { 'fe80::1': 2345 },
};
const { maxGbps, maxMmps, qpMmps, chunks, tailNs } = FILE;
const MEASURED = { maxGbps, maxMmps, qpMmps, chunks, tailNs };

const folder = () => mkdtempSync(join(tmpdir(), 'isoverbs-facts-'));
function saved(content: unknown): string {
  const path = join(folder(), 'facts.json');
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
  return path;
}
const devices = () => createFabric({ profile: 'cx6-100g' }).provider;

/** The warnings that `run` causes. */
function warningsOf(run: () => void): { text: string; code: string }[] {
  const spy = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
  try {
    run();
    return spy.mock.calls.map(([text, options]) => ({
      text: String(text),
      code: (options as { code: string }).code,
    }));
  } finally {
    spy.mockRestore();
  }
}

afterEach(() => {
  delete process.env.ISOVERBS_FACTS;
});

describe('factsInterceptor()', () => {
  test('adds the facts of the file to those of the device, without a warning if nothing differs', () => {
    const provider = compose(devices(), [factsInterceptor(saved(FILE))]);
    const said = warningsOf(() => {
      for (const name of ['sim0', 'sim1']) {
        const context = provider.openDevice(name);
        expect(provider.describeNic?.(context)).toMatchObject({ linkGbps: 100, mtuBytes: 4096, ...MEASURED });
        provider.closeDevice(context);
      }
    });
    expect(said).toEqual([]);
  });

  test('warns once per device, names what differs, and uses the file all the same', () => {
    const path = saved({ ...FILE, firmware: '0.0.9', linkGbps: 40 });
    const provider = compose(devices(), [factsInterceptor(path)]);
    const said = warningsOf(() => {
      for (let i = 0; i < 3; i++) {
        const context = provider.openDevice('sim0');
        expect(provider.describeNic?.(context)).toMatchObject({ linkGbps: 100, maxGbps });
      }
    });
    expect(said).toEqual([{ text: expect.stringContaining(path), code: 'ISO_STALE_FACTS' }]);
    expect(said[0].text).toContain('may be wrong for sim0: firmware 0.0.9, now 0.1; link rate 40, now 100');
  });

  test('a device that describes no NIC has no facts', () => {
    const { describeNic: _, ...bare } = devices();
    const provider = compose(bare, [factsInterceptor(saved(FILE))]);
    expect(provider.describeNic?.(provider.openDevice('sim0'))).toBe(null);
  });
});

test.each([
  [{ device: 'mlx5_0' }, ['device sim0, now mlx5_0']],
  [{ device: 'sim7' }, []],
  [{ firmware: '1' }, ['firmware 0.1, now 1']],
  [{ mtuBytes: 1024, linkGbps: null }, ['MTU 4096, now 1024', 'link rate 100, now unknown']],
])('differences() for a present device with %j', (changes, expected) => {
  const present = { device: 'sim0', firmware: '0.1', mtuBytes: 4096, linkGbps: 100, ...changes };
  expect(differences(FILE, present)).toEqual(expected);
});

test.each<[string, unknown, RegExp]>([
  ['torn', JSON.stringify(FILE).slice(0, 100), /JSON/],
  ['empty', '', /JSON/],
  ['of another program', { name: 'x' }, /not a facts file of this version/],
  ['of another version', { ...FILE, format: 'isoverbs-facts-0' }, /not a facts file of this version/],
  ['with a rate of 0', { ...FILE, maxGbps: 0 }, /maxGbps/],
  ['with a rate that no device has', { ...FILE, qpMmps: 1e-9 }, /qpMmps/],
  ['with a rate above all links', { ...FILE, maxGbps: 1e9 }, /maxGbps/],
  ['with an unknown key', { ...FILE, colour: 'red' }, /colour/],
  ['without chunks', { ...FILE, chunks: [] }, /chunks/],
  ['with unsorted chunks', { ...FILE, chunks: chunks?.toReversed() }, /ascending order of chunkBytes/],
  ['with a negative tail', { ...FILE, tailNs: { 'fe80::1': -1 } }, /tailNs/],
])('readFacts() refuses a file %s, and says what to do', (_, content, what) => {
  const path = saved(content);
  expect(() => readFacts(path)).toThrow(ConfigError);
  expect(() => readFacts(path)).toThrow(what);
  expect(() => readFacts(path)).toThrow(`isoverbs calibrate --out ${path}`);
});

test('readFacts() refuses a missing file', () => {
  expect(() => readFacts(join(folder(), 'none.json'))).toThrow(/no such file/);
});

test('openDevice() adds the facts of the file that ISOVERBS_FACTS names', () => {
  const provider = devices();
  const maxOf = () => {
    const context = openDevice('sim0', { provider });
    const reported = context.provider.describeNic?.(context.handle)?.maxGbps;
    context.close();
    return reported;
  };
  expect(maxOf()).toBe(null);
  process.env.ISOVERBS_FACTS = saved(FILE);
  expect(maxOf()).toBe(maxGbps);
});

test('loadConfig() takes the path from the file, relative to it, or from ISOVERBS_FACTS', () => {
  const cwd = folder();
  writeFileSync(join(cwd, 'isoverbs.config.json'), '{"facts":"nics/a.json"}');
  expect(loadConfig({ cwd, env: {} }).facts).toBe(join(cwd, 'nics/a.json'));
  expect(loadConfig({ cwd, env: { ISOVERBS_FACTS: 'b.json' } }).facts).toBe(join(cwd, 'b.json'));
  const env = {};
  inheritByChildren('file:///register.js', loadConfig({ cwd, env: { ISOVERBS_FACTS: 'b.json' } }), env);
  expect(env).toMatchObject({ ISOVERBS_FACTS: join(cwd, 'b.json') });
});
