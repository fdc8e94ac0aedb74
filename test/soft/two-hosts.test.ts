// Two hosts: network namespaces of one machine, with a cable between them. Needs a build.
// @module-tag wide
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { FIRST_FLOW_PORT } from '../../src/roce/flow.ts';
import { packetOf, readPcapng } from '../support/pcapng.ts';
import { absent } from './rig.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const SCRIPT = resolve(import.meta.dirname, 'children/two-hosts.sh');
const can = (...words: string[]) => spawnSync(words[0], words.slice(1)).status === 0;
const here =
  absent === null && can('unshare', '-rnm', 'ip', 'link', 'add', 'va', 'type', 'veth') && can('ss');
const CAN_CAPTURE = can('dumpcap', '--version');
const UDP = 17;
const IPV4 = 0x0800;

test.skipIf(!here)(
  'cases of the verbs suite run over a cable, and no packet avoids it',
  { timeout: 60_000 },
  () => {
    const inherited = Object.entries(process.env).filter(([key]) => !/^(VITEST|NODE_|ISOVERBS_SO)/.test(key));
    const words = ['test/verbs/uc.test.ts', '-t', 'on soft'];
    const { status, stdout, stderr } = spawnSync('scripts/test-cable', words, {
      cwd: ROOT,
      env: Object.fromEntries(inherited),
      encoding: 'utf8',
    });
    expect(status, stdout + stderr).toBe(0);
    expect(stdout).toMatch(/packets over the cable: \d+ one way, \d+ the other; not over the cable: 0\n/);
  },
);

test.skipIf(!here)(
  'a file reaches the other host over IPv4 and IPv6, with right ICRCs and source ports on the cable',
  { tags: ['long'], timeout: 60_000 },
  () => {
    const folder = mkdtempSync(join(tmpdir(), 'isoverbs-soft-'));
    const file = join(folder, 'cable.pcapng');
    const inherited = Object.entries(process.env).filter(([key]) => !/^(ISOVERBS_|VITEST|NODE_)/.test(key));
    const words = ['-rnm', SCRIPT, ...(CAN_CAPTURE ? [file] : [])];
    const { status, stdout, stderr } = spawnSync('unshare', words, {
      cwd: ROOT,
      env: Object.fromEntries(inherited),
      encoding: 'utf8',
    });
    expect(status, stdout + stderr).toBe(0);
    expect(stdout.match(/^sent 1048576 bytes, .*sha256 ok$/gm)).toHaveLength(2);
    const refusal =
      'connect: soft0 (127.0.0.1) cannot reach 10.8.0.1: the loopback interface reaches only this host';
    expect(stdout.split(refusal)).toHaveLength(3);
    if (CAN_CAPTURE) {
      const frames = readPcapng(file).frames.filter(({ frame }) => {
        return frame.readUInt16BE(12) === IPV4 && frame[23] === UDP;
      });
      // A packet of the file has 1024 bytes on this cable.
      expect(frames.length).toBeGreaterThan(1024);
      for (const frame of frames) packetOf(frame);
      // The connection has a source port of its own, in either direction.
      const ports = new Set(frames.map(({ frame }) => frame.readUInt16BE(34)));
      expect([...ports].every((port) => port >= FIRST_FLOW_PORT)).toBe(true);
    }
    rmSync(folder, { recursive: true });
  },
);
