// `isoverbs bench --cpu auto`: the CPUs near a device.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { cpusNear } from '../../src/perftest/near-cpus.ts';
import { settingsOf, TESTS } from '../../src/perftest/settings.ts';

test('--cpu auto takes the CPUs that the kernel lists for the device, and says why there are none', () => {
  const sysfs = mkdtempSync(join(tmpdir(), 'isoverbs-sysfs-'));
  for (const device of ['mlx5_0', 'rxe0']) mkdirSync(join(sysfs, device, 'device'), { recursive: true });
  writeFileSync(join(sysfs, 'mlx5_0/device/local_cpulist'), '0-15,32-47\n');
  expect(cpusNear('mlx5_0', sysfs)).toBe('0-15,32-47');
  for (const device of ['rxe0', 'sim0']) {
    expect(() => cpusNear(device, sysfs)).toThrow(`--cpu auto: the kernel knows no CPUs near ${device}`);
  }
  rmSync(sysfs, { recursive: true });
});

test('--cpu takes lists and auto, and nothing else', () => {
  const cpuOf = (cpu: string) => settingsOf(TESTS[0], null, { cpu }).cpu;
  expect(['0', '0,2-3', 'auto'].map(cpuOf)).toEqual(['0', '0,2-3', 'auto']);
  for (const cpu of ['all', 'auto,1', '']) expect(() => cpuOf(cpu)).toThrow('--cpu takes a list of CPUs');
});
