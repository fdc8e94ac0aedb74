/** `isoverbs bench` against perftest's own programs, in both roles. */
import { describe, expect, test } from 'vitest';
import { againstPerftest } from './peers/perftest.ts';
import { isInstalled } from './peers/program.ts';
import { here } from './peers/stage.ts';

/** Each test once, and each option once. */
const CASES = [
  ['write_bw', '-n 300'],
  ['send_bw', '-n 300'],
  ['read_bw', '-n 300'],
  ['atomic_bw', '-n 300'],
  ['write_lat', '-n 300'],
  ['send_lat', '-n 300'],
  ['read_lat', '-n 300'],
  ['atomic_lat', '-n 300'],
  ['write_bw', '-n 300 -c UC -x 1'],
  ['send_bw', '-n 300 -q 4 -s 4096'],
  ['send_lat', '-n 300 -c UD'],
  ['write_bw', '-n 100 -b -s 4096'],
  ['send_bw', '-n 100 -b -s 4096'],
  ['write_bw', '-D 2 -s 2'],
  ['write_lat', '-D 2'],
  ['write_bw', '-n 400 -l 4 --report_gbits -m 1024'],
  ['send_bw', '-n 20 -a'],
  ['send_bw', '-n 300 -e -s 4096'],
  ['send_lat', '-n 300 -e'],
  ['read_bw', '-n 300 -e'],
  ['send_bw', '-n 300 --use-srq -q 2 -s 4096'],
  ['send_lat', '-n 300 --use-srq'],
  ['write_bw', '-n 300 --perform_warm_up -s 4096'],
] as const;
/** The subset that CI runs: each test and each end once. */
const SOME = ['client write_bw -n 300', 'server send_lat -n 300', 'client write_lat -n 300'];
const BANDWIDTH_AVERAGE = 3;
const MESSAGE_RATE = 4;

let port = 18600;

describe.skipIf(!here || !isInstalled('ib_write_bw'))('perftest', () => {
  describe.each(['client', 'server'] as const)('we are the %s', (we) => {
    for (const [name, flags] of CASES) {
      const tags = SOME.includes(`${we} ${name} ${flags}`) ? [] : ['long'];
      test(`${name} ${flags}`, { tags, timeout: 90_000 }, async () => {
        const { ours, theirs } = await againstPerftest(name, we, port++, flags.split(' '));
        expect(ours[0]).toBe(theirs[0]);
        if (name.endsWith('_bw')) bandwidthsAgree(name, flags, ours, theirs);
        else if (!flags.includes('-D')) expect(ours[1]).toBe(theirs[1]);
      });
    }
  });
});

/** One end measures and reports to the other, except for SENDs, where each end measures. */
function bandwidthsAgree(name: string, flags: string, ours: number[], theirs: number[]): void {
  expect(ours[BANDWIDTH_AVERAGE]).toBeGreaterThan(0);
  expect(theirs[BANDWIDTH_AVERAGE]).toBeGreaterThan(0);
  if (name === 'send_bw' && !flags.includes('-b')) return;
  expect(ours[1]).toBe(theirs[1]);
  expect(ours[BANDWIDTH_AVERAGE]).toBeCloseTo(theirs[BANDWIDTH_AVERAGE], 1);
  expect(ours[MESSAGE_RATE]).toBeCloseTo(theirs[MESSAGE_RATE], 3);
}
