// Source ports by flow: what leaves a device, as captured, and that all of it arrives.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { requireUdp } from '../../src/providers/soft/native.ts';
import { FIRST_FLOW_PORT, FLOW_PORTS, flowLabelOf, sourcePortOf } from '../../src/roce/flow.ts';
import { ROCE_PORT } from '../../src/roce/icrc.ts';
import { gidToBytes, IBV_SEND_SIGNALED } from '../../src/verbs/index.ts';
import { packetOf, readPcapng } from '../support/pcapng.ts';
import { absent, type End, openEnd, twoDevices } from './rig.ts';

const NET = 83;
const FLOWS = 4;
const STEP = FLOW_PORTS / FLOWS;
const CONNECTIONS = 12;
const BYTES = 40_000;
const folder = mkdtempSync(join(tmpdir(), 'isoverbs-soft-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Connects queue pairs between two devices, WRITEs over all of them at once, and compares what has arrived. */
async function writeOverAll(file: string, flows: number): Promise<void> {
  const network = twoDevices(NET, { flows, pcap: file });
  const ends: [End, End][] = Array.from({ length: CONNECTIONS }, () => [
    openEnd(network, 'soft0'),
    openEnd(network, 'soft1'),
  ]);
  for (const [i, [a, b]] of ends.entries()) {
    a.qp.connectTo(b.qp.endpoint());
    b.qp.connectTo(a.qp.endpoint());
    for (let at = 0; at < BYTES; at++) a.mr.bytes[at] = (at * 31 + i) & 0xff;
    const batch = a.context.sendBatch({ capacity: 1 });
    batch.write(1, IBV_SEND_SIGNALED, a.mr.addr, BYTES, a.mr.lkey, b.mr.addr, b.mr.rkey);
    a.qp.postSend(batch);
  }
  for (const [a, b] of ends) {
    expect((await a.cq.next()).statusText).toBe('SUCCESS');
    expect(Buffer.compare(b.mr.bytes.subarray(0, BYTES), a.mr.bytes.subarray(0, BYTES))).toBe(0);
  }
  for (const name of ['soft0', 'soft1']) {
    expect(network.counters(name)).toMatchObject({ malformed: 0, badIcrc: 0, refused: 0, unsent: 0 });
  }
  expect(network.counters('soft1')?.received).toBe(network.counters('soft0')?.sent);
  for (const { context } of ends.flat()) context.close();
}

/** The source ports of the packets that leave, by the queue pair that they are for. */
function portsByPeer(file: string): Map<number, Set<number>> {
  const ports = new Map<number, Set<number>>();
  for (const one of readPcapng(file).frames.filter(({ outbound }) => outbound)) {
    const { destQp } = packetOf(one);
    ports.set(destQp, (ports.get(destQp) ?? new Set()).add(one.frame.readUInt16BE(34)));
  }
  return ports;
}

test('source ports are those of the formulas of Linux', () => {
  for (const [local, remote] of [
    [1, 1],
    [17, 23],
    [0xffffff, 0xffffff],
    [0x123456, 0xfedcba],
  ]) {
    let v = BigInt(local) * BigInt(remote);
    v ^= v >> 20n;
    v ^= v >> 40n;
    const label = Number(v & 0xfffffn);
    expect(flowLabelOf(local, remote)).toBe(label);
    expect(sourcePortOf(label)).toBe(((label & 0x3fff) ^ ((label & 0xfc000) >> 14)) | 0xc000);
  }
});

describe.skipIf(absent !== null)('flows of user-space RoCE', () => {
  test('each connection has one of several source ports, and everything arrives', async () => {
    const file = join(folder, 'flows.pcapng');
    await writeOverAll(file, FLOWS);
    const ports = portsByPeer(file);
    expect(ports.size).toBe(2 * CONNECTIONS);
    for (const [, used] of ports) expect(used.size).toBe(1);
    const all = new Set([...ports.values()].flatMap((used) => [...used]));
    expect(all.size).toBeGreaterThan(1);
    for (const port of all) expect((port - FIRST_FLOW_PORT) % STEP).toBe(0);
  });

  test('with one flow, all leave from the port of RoCEv2', async () => {
    const file = join(folder, 'one.pcapng');
    await writeOverAll(file, 1);
    const all = [...portsByPeer(file).values()].flatMap((used) => [...used]);
    expect(new Set(all)).toEqual(new Set([ROCE_PORT]));
  });

  test('packets are not appended to another kind of file', () => {
    const file = join(folder, 'notes.txt');
    writeFileSync(file, 'not packets');
    const network = twoDevices(NET, { pcap: file });
    expect(() => openEnd(network, 'soft0')).toThrow(/notes\.txt is another kind of file/);
    expect(readFileSync(file, 'utf8')).toBe('not packets');
  });

  test('a flow whose port is taken has one of the next, and then that of RoCEv2', async () => {
    const native = requireUdp();
    const gid = gidToBytes(`::ffff:127.${NET}.0.1`);
    const taken = Array.from({ length: FLOWS }, (_, flow) => FIRST_FLOW_PORT + flow * STEP);
    const further = Array.from({ length: 7 }, (_, i) => FIRST_FLOW_PORT + 1 + i);
    const fds = [...taken, ...further].map((port) => native.openUdp(gid, port, 1 << 16, 0));
    const file = join(folder, 'taken.pcapng');
    await writeOverAll(file, FLOWS);
    for (const fd of fds) native.closeFd(fd);
    // Packets to the connections of the first device leave from the other one, whose ports are free.
    const frames = readPcapng(file).frames.filter(({ outbound, at }) => outbound && at === 'soft0');
    const used = new Set(frames.map(({ frame }) => frame.readUInt16BE(34)));
    expect(used.size).toBeGreaterThan(1);
    for (const port of used) {
      expect(
        port === ROCE_PORT || (port > FIRST_FLOW_PORT + STEP && (port - FIRST_FLOW_PORT) % STEP === 1),
      ).toBe(true);
    }
  });

  test.each([0, 65, 1.5])('%d flows are refused', (flows) => {
    expect(() => twoDevices(NET, { flows })).toThrow(/flows must be a whole number from 1 to 64/);
  });
});
