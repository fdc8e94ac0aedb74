// The directory of a fleet: what daemons announce, and how it is limited.
import { expect, test } from 'vitest';
import { ANNOUNCE_NS, FleetDirectory, MAX_HOSTS, SILENT_NS } from '../../src/daemon/fleet/directory.ts';
import { encodeAnnouncement } from '../../src/daemon/fleet/wire.ts';

const GID = '::ffff:10.0.0.1';

function directory() {
  const changes: string[] = [];
  const made = new FleetDirectory((gid, qpNum, isAlive) => changes.push(`${gid} ${qpNum} ${isAlive}`));
  made.expire(0);
  const announce = (id: string, gids: readonly string[], qpNum: number, nowNs: number) => {
    const devices = gids.length === 0 ? [] : [{ name: 'd', qpNum, gids: [...gids], agents: ['a'] }];
    return made.hear(id, encodeAnnouncement({ host: `host ${id}`, devices }), nowNs);
  };
  return { made, changes, announce };
}

test('a daemon is gone when it announces nothing for 1.75 s', () => {
  const { made, changes, announce } = directory();
  expect(announce('1', [GID], 7, 0)).toBe(true);
  expect(made.at(GID)).toMatchObject({ name: 'd', qpNum: 7, agents: ['a'] });
  for (let ns = 0; ns <= SILENT_NS; ns += ANNOUNCE_NS) made.expire(ns);
  expect([made.size, changes]).toEqual([1, [`${GID} 7 true`]]);
  made.expire(SILENT_NS + 1);
  expect([made.size, made.at(GID), changes.at(-1)]).toEqual([0, undefined, `${GID} 7 false`]);
});

test('daemons are not gone because this process did not run', () => {
  const { made, announce } = directory();
  announce('1', [GID], 7, 0);
  made.expire(10 * SILENT_NS);
  expect(made.size).toBe(1);
  made.expire(10 * SILENT_NS + ANNOUNCE_NS);
  expect(made.size).toBe(0);
});

test('a change replaces devices, and what stays is not reported as gone', () => {
  const { made, changes, announce } = directory();
  announce('1', [GID, '::1'], 7, 0);
  announce('1', [GID, '::2'], 7, 1);
  expect(changes.filter((one) => one.endsWith('false'))).toEqual(['::1 7 false']);
  announce('1', [GID], 8, 2);
  expect(changes.slice(-3)).toEqual([`${GID} 7 false`, '::2 7 false', `${GID} 8 true`]);
  announce('1', [], 0, 3);
  expect([made.size, changes.at(-1)]).toEqual([0, `${GID} 8 false`]);
});

test('the first daemon keeps a GID until it leaves', () => {
  const { made, announce } = directory();
  announce('1', [GID], 7, 0);
  announce('2', [GID], 9, 0);
  expect(made.at(GID)?.qpNum).toBe(7);
  announce('1', [], 0, 1);
  expect(made.at(GID)).toBeUndefined();
  announce('2', [GID], 9, 2);
  expect(made.at(GID)?.qpNum).toBe(9);
});

test('a daemon that changes its announcement without pause is limited, and so is the number of daemons', () => {
  const { made, announce } = directory();
  let accepted = 0;
  for (let i = 0; i < 1000; i++) if (announce('1', [GID], i, 0)) accepted++;
  expect(accepted).toBe(1 + 32);
  for (let i = 0; i < 2 * MAX_HOSTS; i++) {
    announce(`${i + 2}`, [`::${(i + 2).toString(16)}`], 1, i);
    if (i === 1000) expect(made.size).toBe(256);
    if (i > 1000 && i % 100 === 0) made.expire(0);
  }
  expect(made.size).toBe(MAX_HOSTS);
  expect(announce('1', [GID], 999, 1e9)).toBe(true);
});

test('a daemon that ends and begins without pause is limited as well', () => {
  const { made, changes, announce } = directory();
  for (let ms = 0; ms < 10_000; ms += 50) {
    if (ms % 500 === 0) made.expire(ms * 1e6);
    announce('1', (ms / 50) % 2 === 0 ? [GID] : [], 7, ms * 1e6);
  }
  // 32 at once, then four a second.
  expect(changes.filter((one) => one.endsWith('false')).length).toBeLessThan(40);
  announce('1', [], 7, 20e9);
  for (let ns = 20e9; ns < 23e9; ns += ANNOUNCE_NS) made.expire(ns);
  expect([made.size, made.has('1')]).toEqual([0, false]);
});
