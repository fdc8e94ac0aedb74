// isoverbs mix --pcap: captures of whole mixtures, which tshark reads where it is installed.
// @module-tag wide
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { parseApp } from '../../src/mix/parse.ts';
import { CableCapture } from '../../src/mix/record/cable-capture.ts';
import { runMix } from '../../src/mix/run.ts';
import { DEFAULTS, type MixSpec } from '../../src/mix/spec.ts';
import { encodePacket, RocePacket } from '../../src/roce/codec.ts';
import { frameHeaderBytes, writeFrameHeaders } from '../../src/roce/frame.ts';
import { sealPacket } from '../../src/roce/icrc.ts';
import * as O from '../../src/roce/opcodes.ts';
import {
  FRAME_OFFSET,
  interfaceBlock,
  OUTBOUND,
  sectionBlock,
  writePacketBlock,
} from '../../src/roce/pcapng.ts';
import { packetOf, readPcapng } from '../support/pcapng.ts';
import { eachShort } from '../support/variants.ts';
import { command } from './command.ts';

const folder = mkdtempSync(join(tmpdir(), 'pcap-'));
afterAll(() => rmSync(folder, { recursive: true }));
const file = join(folder, 'run.pcapng');

const specOf = (apps: string[], more: Partial<MixSpec>): MixSpec => ({
  ...DEFAULTS,
  durationNs: 200e3,
  warmupNs: 0,
  ...more,
  apps: apps.map((app) => parseApp(`${app}${app.includes(':') ? ',' : ':'}stop=30us`)),
});

/** Runs a mixture with and without a capture. */
async function capture(apps: string[], more: Partial<MixSpec> = {}, ends: string[] | null = null) {
  const spec = specOf(apps, more);
  const plain = await runMix(spec);
  const result = await runMix(spec, [new CableCapture(file, ends)]);
  expect(result).toEqual(plain);
  return { result, ...readPcapng(file) };
}

const MARKING = { congestionControl: 'dcqcn', ecnKminBytes: 4000 };
const MIXTURES: [name: string, apps: string[], more: Partial<MixSpec>][] = [
  ['WRITEs on a cable', ['B:size=64KiB', 'D'], {}],
  ['READs and atomics', ['B:op=read,size=64KiB', 'D:op=atomic'], {}],
  ['datagrams and UC', ['M:op=send,transport=ud', 'B:op=send,transport=uc,size=10001'], {}],
  ['responses under a policy', ['B:size=64KiB', 'D:op=send,size=64,reply=200'], { policy: 'perf' }],
  [
    'a switch that marks',
    ['B:to=2,size=64KiB,qps=2', 'B:host=1,size=64KiB,to=2'],
    { hosts: 3, set: MARKING },
  ],
];

describe('isoverbs mix --pcap', () => {
  test.each(MIXTURES)('%s: every packet is captured, and the run is the same', async (_, apps, more) => {
    const { result, frames } = await capture(apps, more);
    const packets = frames
      .filter(({ outbound, at }) => outbound && at.startsWith('host'))
      .map((one) => packetOf(one))
      .filter(({ opcode }) => (opcode & 0x1f) !== O.ACKNOWLEDGE && opcode !== O.CNP);
    // All messages have ended, so none is on its way.
    expect(packets).toHaveLength(result.packets);
    for (const one of frames) packetOf(one);
  });

  test('only the ends that are named are captured', async () => {
    const { frames, interfaces } = await capture(['D'], { hosts: 3 }, ['host1', 'switch0.2']);
    expect(interfaces).toEqual(['host1', 'switch0.2']);
    expect(new Set(frames.map(({ at }) => at))).toEqual(new Set(['host1']));
    expect(frames.some(({ outbound }) => outbound)).toBe(true);
    expect(frames.some(({ outbound }) => !outbound)).toBe(true);
  });

  test('a switch sends what it received, later and in order', async () => {
    const { frames } = await capture(['B:size=64KiB'], { hosts: 3 });
    const times = (at: string, outbound: boolean) =>
      frames
        .filter((one) => one.at === at && one.outbound === outbound && one.frame.length > 1000)
        .map(({ atNs }) => atNs);
    const [left, entered] = [times('host0', true), times('switch0.0', false)];
    const [forwarded, arrived] = [times('switch0.1', true), times('host1', false)];
    expect(left.length).toBeGreaterThan(50);
    for (const [i, leftNs] of left.entries()) {
      expect(entered[i]).toBeGreaterThan(leftNs);
      expect(forwarded[i]).toBeGreaterThan(entered[i]);
      expect(arrived[i]).toBeGreaterThan(forwarded[i]);
    }
  });

  test('long captures are written in parts, in order', async () => {
    const { frames } = await capture(['B', 'B:host=1,to=0'], { durationNs: 500e3 });
    expect(frames.reduce((sum, { frame }) => sum + frame.length, 0)).toBeGreaterThan(2 ** 22);
    for (const [i, { atNs }] of frames.entries()) {
      if (i > 0) expect(atNs).toBeGreaterThanOrEqual(frames[i - 1].atNs);
    }
  });

  test('an end that does not exist and a file that cannot be written are refused', async () => {
    const run = (pcap: string, ...more: string[]) =>
      command('mix', '--app', 'D', '--duration', '20us', '--warmup', '0us', '--pcap', pcap, ...more);
    expect(await run(`${file}@host2`)).toMatchObject({
      code: 2,
      err: expect.stringContaining("pcap: no cable ends at 'host2'; use one of host0, host1"),
    });
    expect((await run(join(folder, 'none', 'a'))).err).toContain('create the folder');
    expect((await run('@host0')).err).toContain('is not of the form FILE or FILE@END');
    expect((await run(`${file}@`)).err).toContain('is not of the form FILE or FILE@END');
    expect((await run(file, '--provider', 'rdma-core')).err).toContain('--pcap is for simulated devices');
    expect(await run(`${file}@host0,host1`)).toMatchObject({ code: 0 });
    expect(readPcapng(file).interfaces).toEqual(['host0', 'host1']);
  });
});

const hasTshark = spawnSync('tshark', ['--version']).status === 0;
const reason = hasTshark ? '' : ' (skipped: tshark is not installed; apt-get install tshark)';

/** The values of fields in each packet that a filter selects. */
function dissect(filter: string, ...fields: string[]): string[][] {
  const list = fields.flatMap((field) => ['-e', field]);
  // It takes the payload of short SENDs for RPC over RDMA.
  const args = [
    '--disable-protocol',
    'rpcordma',
    '-r',
    file,
    '-Y',
    filter,
    '-T',
    'fields',
    '-E',
    'occurrence=f',
    ...list,
  ];
  const { status, stdout, stderr } = spawnSync('tshark', args, { encoding: 'utf8', maxBuffer: 1 << 28 });
  if (status !== 0) throw new Error(stderr);
  return stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.split('\t'));
}

/** Writes a file with one packet of each opcode, and returns the opcodes. */
function writeEachOpcode(): number[] {
  const opcodes = Array.from({ length: 256 }, (_, opcode) => opcode).filter(O.isOpcode);
  const packet = new RocePacket();
  Object.assign(packet, {
    destQp: 0x123,
    sourceQp: 0x456,
    psn: 7,
    rkey: 0x89abcdef,
    dmaLength: 6,
    qkey: 0x11,
  });
  Object.assign(packet, { payloadBytes: 6, srqNumber: 0x77, immediate: 0xdeadbeef, invalidateKey: 0x99 });
  const address = (last: number) => Uint8Array.of(10, 0, 0, last);
  const path = { sourcePort: 0xc000, identification: 0, trafficClass: 0, flowLabel: 0, hopLimit: 64 };
  const route = { ...path, source: address(1), dest: address(2) };
  const mac = new Uint8Array(6).fill(2);
  const blocks = opcodes.map((opcode, i) => {
    packet.opcode = opcode;
    const block = Buffer.alloc(256);
    const at = FRAME_OFFSET + frameHeaderBytes(route);
    const bytes = sealPacket(route, block, at, encodePacket(packet, block, at));
    writeFrameHeaders(route, mac, mac, bytes, block, FRAME_OFFSET);
    return block.subarray(0, writePacketBlock(block, 0, at - FRAME_OFFSET + bytes, 0, i, OUTBOUND));
  });
  writeFileSync(file, Buffer.concat([sectionBlock('test'), interfaceBlock('a', 'all opcodes'), ...blocks]));
  return opcodes;
}

describe.skipIf(!hasTshark)(`tshark${reason}`, () => {
  test('dissects the headers of every opcode without a complaint', () => {
    const opcodes = writeEachOpcode();
    expect(dissect('_ws.malformed || _ws.expert', 'frame.number', '_ws.expert.message')).toEqual([]);
    const fields = ['bth.opcode', 'reth.r_key', 'deth.srcqp', 'immdt', 'ieth'];
    const rows = dissect('infiniband', ...fields.map((field) => `infiniband.${field}`));
    expect(rows.map(([opcode]) => Number(opcode))).toEqual(opcodes);
    for (const [i, [, rkey, sourceQp, immediate, key]] of rows.entries()) {
      // tshark does not know the headers of XRC.
      if ((opcodes[i] & O.TRANSPORT_MASK) === O.XRC) continue;
      const headers = O.headersOf(opcodes[i]);
      const expected = (some: number, text: string) => ((headers & some) === 0 ? '' : text);
      expect([opcodes[i], rkey, sourceQp, immediate, key]).toEqual([
        opcodes[i],
        expected(O.RETH | O.ATOMIC_ETH, '0x89abcdef'),
        expected(O.DETH, '0x00000456'),
        expected(O.IMM_DT, 'deadbeef'),
        expected(O.IETH, '00000099'),
      ]);
    }
  });

  eachShort(3, MIXTURES)('dissects %s without a complaint', async (_, apps, more) => {
    const { frames } = await capture(apps, more);
    expect(dissect('_ws.malformed || _ws.expert', 'frame.number', '_ws.expert.message')).toEqual([]);
    const rows = dissect(
      'infiniband',
      'frame.interface_name',
      'infiniband.bth.opcode',
      'infiniband.bth.destqp',
      'infiniband.bth.psn',
      'infiniband.bth.padcnt',
      'infiniband.reth.r_key',
      'infiniband.reth.dmalen',
      'infiniband.aeth.msn',
    );
    expect(rows).toHaveLength(frames.length);
    for (const [i, [at, opcode, destQp, psn, pad, rkey = '', dmaLength = '', msn = '']] of rows.entries()) {
      const packet = packetOf(frames[i]);
      const headers = O.headersOf(packet.opcode);
      const has = (some: number) => (headers & some) !== 0;
      expect([at, Number(opcode), Number(destQp), Number(psn), Number(pad)]).toEqual([
        frames[i].at,
        packet.opcode,
        packet.destQp,
        packet.psn,
        packet.padCount,
      ]);
      expect(Number(rkey)).toBe(has(O.RETH | O.ATOMIC_ETH) ? packet.rkey : 0);
      expect(Number(dmaLength)).toBe(has(O.RETH) ? packet.dmaLength : 0);
      expect(Number(msn)).toBe(has(O.AETH) ? packet.msn : 0);
    }
  });
});
