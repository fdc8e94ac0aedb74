// Options under a former name: they still work, with one warning, wherever options are given.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

// The warning comes once per process: each test gets modules that have not warned yet.
const load = () =>
  Promise.all([
    import('../../src/policies/index.ts'),
    import('../../src/policies/parse-options.ts'),
    import('../../src/policies/perf/options.ts'),
    import('../../src/config.ts'),
    import('../../src/providers/sim/index.ts'),
    import('../../src/shim/compose.ts'),
    import('../../src/cli/rulings.ts'),
  ]);
type Modules = Awaited<ReturnType<typeof load>>;

const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
let modules: Modules;
beforeEach(async () => {
  vi.resetModules();
  warn.mockClear();
  modules = await load();
});
afterEach(() => vi.resetModules());

const expectOneWarning = () => {
  expect(warn.mock.calls).toEqual([
    [
      'perf.turnNs is now called slotNs; the next release will not accept the old name',
      { code: 'ISO_RENAMED_OPTION' },
    ],
  ]);
};

test('parseOptions() takes the former name for the current one, and warns once', { tags: ['long'] }, () => {
  const [, { parseOptions }, { perfOptions }] = modules;
  expect(parseOptions('perf', perfOptions, { turnNs: '50us' }).slotNs).toBe(50_000);
  expect(parseOptions('perf', perfOptions, { turnNs: 60_000 }).slotNs).toBe(60_000);
  expectOneWarning();
});

test('a policy spec may have the former name', { tags: ['long'] }, () => {
  const [{ createPolicy }, , , { parsePolicies }] = modules;
  const [{ name, options }] = parsePolicies('perf:turnNs=50us', 'policy');
  expect(() => createPolicy(name, options)).not.toThrow();
  expectOneWarning();
});

test('a configuration file may have the former name', { tags: ['long'] }, () => {
  const [{ createPolicy }, , , { loadConfig }] = modules;
  const folder = mkdtempSync(join(tmpdir(), 'isoverbs-renamed-'));
  try {
    const path = join(folder, 'isoverbs.yaml');
    writeFileSync(path, 'policy: { name: perf, turnNs: 50us }\n');
    const { policies } = loadConfig({ cwd: folder, env: { ISOVERBS_CONFIG: path } });
    for (const { name, options } of policies) createPolicy(name, options);
    expect(policies).toHaveLength(1);
    expectOneWarning();
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('configurePolicy() at run time takes the former name', { tags: ['long'] }, () => {
  const [{ createPolicy }, , , , { createFabric }, { compose }] = modules;
  const fabric = createFabric({ profile: 'cx6-100g' });
  const provider = compose(fabric.provider, [createPolicy('perf')]);
  provider.openDevice('sim0');
  expect(() => provider.configurePolicy!('perf', { turnNs: 70_000 })).not.toThrow();
  expectOneWarning();
  expect(() => provider.configurePolicy!('perf', { turnNs: 1 })).toThrow(/slotNs/);
});

test("the daemon's policy may have the former name", () => {
  const [, , , , , , { rulingsOf }] = modules;
  expect(rulingsOf('perf:turnNs=50us')).toEqual(rulingsOf('perf:slotNs=50us'));
  expectOneWarning();
});

test('both names at once are a ConfigError that names the former one', () => {
  const [{ createPolicy }] = modules;
  expect(() => createPolicy('perf', { turnNs: 50_000, slotNs: 50_000 })).toThrow(
    expect.objectContaining({
      code: 'ISO_ERR_CONFIG',
      message: expect.stringContaining('perf.turnNs: this is the former name of perf.slotNs'),
    }),
  );
});

test('a thread whose options are checked elsewhere does not warn', () => {
  const [{ createPolicy }, { muteRenamedOptions }] = modules;
  muteRenamedOptions();
  expect(() => createPolicy('perf', { turnNs: 50_000 })).not.toThrow();
  expect(warn).not.toHaveBeenCalled();
});
