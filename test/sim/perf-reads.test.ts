// READ isolation of perf across outages: peers that close and open again, agents that fall silent, and idle readers.
// @module-tag wide
import { expect, test } from 'vitest';
import { registryFor } from '../../src/coordinator/registry.ts';
import { createPolicy } from '../../src/policies/index.ts';
import { createFabric, type Fabric } from '../../src/providers/sim/index.ts';
import { compose } from '../../src/shim/compose.ts';
import * as V from '../../src/verbs/index.ts';
import { eachShort } from '../support/variants.ts';
import { connect, type End, makeEnd } from './helpers.ts';

const LARGE = 65_536;
const STEP_NS = 100_000;

/** Requests from one host to another: READs of 64 KiB, WRITEs of as much, or WRITEs of 16 bytes. */
class Flow {
  readonly a: End;
  readonly b: End;
  done = 0;
  private open = 0;
  private readonly opcode: 'read' | 'write';
  private readonly bytes: number;

  constructor(a: End, b: End, opcode: 'read' | 'write', bytes: number) {
    [this.a, this.b, this.opcode, this.bytes] = [a, b, opcode, bytes];
    connect(a, b);
  }

  poll(): void {
    const { a } = this;
    for (let n = 1; n > 0; ) {
      n = a.v.pollCq(a.sendCq, a.wc.ring, 0, 64);
      this.open -= n;
      this.done += n;
    }
  }

  step(depth = 1): void {
    const { a, b, opcode, bytes } = this;
    this.poll();
    for (; this.open < depth; this.open++) {
      a.send.clear();
      a.send[opcode](0, V.IBV_SEND_SIGNALED, a.mr.addr, bytes, a.mr.lkey, b.mr.addr, b.mr.rkey);
      expect(a.v.postSend(a.qp, a.send.ring, 0, 1)).toBe(1);
    }
  }
}

function destroy({ v, qp, sendCq, recvCq, mr, pd, context }: End): void {
  v.destroyQp(qp);
  v.destroyCq(sendCq);
  v.destroyCq(recvCq);
  v.deregMr(mr.handle);
  v.deallocPd(pd);
  v.closeDevice(context);
}

function hosts(options: Record<string, unknown> = {}) {
  const inner = createFabric({ hosts: 3, seed: 1, autoAdvance: false, profile: 'minimal' });
  const perf = createPolicy('perf', { samplePeriodNs: 10_000, windowNs: 160_000, ...options });
  const fabric = { ...inner, provider: compose(inner.provider, [perf]) } as Fabric;
  const ends = (from: number, to: number) => [from, to].map((host) => makeEnd(fabric, host));
  const flow = (from: number, to: number, opcode: 'read' | 'write', bytes: number) => {
    const [a, b] = ends(from, to);
    return new Flow(a, b, opcode, bytes);
  };
  const run = async (flows: readonly Flow[], ns: number, depth = 1, stepNs = STEP_NS) => {
    for (const endNs = inner.nowNs + ns; inner.nowNs < endNs; ) {
      for (const one of flows) one.step(depth);
      await inner.advance(stepNs);
    }
  };
  const drain = async (flows: readonly Flow[]) => {
    await inner.advance(1e6);
    for (const one of flows) one.poll();
  };
  const does = () => fabric.provider.policyStates!().find(({ device }) => device === 'sim1')?.does;
  return { inner, fabric, flow, run, drain, does, registry: registryFor(inner.provider) };
}

const SPLIT = 'its messages are split';

test('a peer that closes and opens again, 20 times, leaves no member behind and raises nothing', async () => {
  const { flow, run, drain, does, inner, registry } = hosts();
  for (let round = 0; round < 20; round++) {
    const [reader, small] = [flow(1, 0, 'read', LARGE), flow(0, 1, 'write', 16)];
    await run([reader, small], 2e6);
    expect(does()).toBe(SPLIT);
    await drain([reader, small]);
    for (const end of [reader.b, small.a, reader.a, small.b]) destroy(end);
    await inner.advance(2e6);
  }
  for (const device of ['sim0', 'sim1']) {
    const rows = Array.from({ length: 16 }, () => registry.coordinatorFor(device).join('')!.row);
    expect(rows).toEqual(Array.from({ length: 16 }, (_, i) => i));
  }
});

test('a reader finds a peer that was opened again, and is cut there', async () => {
  const { flow, fabric, run, drain, does, inner } = hosts();
  const reader = flow(1, 0, 'read', LARGE);
  await run([reader], 3e6);
  expect(does()).toBe('left alone');
  await drain([reader]);
  destroy(reader.b);
  await inner.advance(1e6);
  const { v, pd, sendCq, recvCq } = reader.a;
  v.destroyQp(reader.a.qp);
  const cap = { maxSendWr: 64, maxRecvWr: 64, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
  const made = v.createQp(pd, { qpType: V.IBV_QPT_RC, sendCq, recvCq, cap, sqSigAll: false });
  const again = new Flow(
    { ...reader.a, qp: made.handle, qpNum: made.qpNum },
    makeEnd(fabric, 0),
    'read',
    LARGE,
  );
  const small = flow(0, 2, 'write', 16);
  await run([again, small], 60e6);
  expect(does()).toBe(SPLIT);
});

test('a reader that was idle for longer than its membership is cut again', async () => {
  const { flow, run, drain, does, inner } = hosts();
  const [reader, small] = [flow(1, 0, 'read', LARGE), flow(0, 1, 'write', 16)];
  await run([reader, small], 10e6);
  await drain([reader, small]);
  await inner.advance(1.6e9);
  await run([reader, small], 3e6);
  expect(does()).toBe(SPLIT);
});

test('READs are not cut for a tenant that has left while the agents of the peer are down', async () => {
  const { flow, run, does, registry } = hosts();
  const [reader, small] = [flow(1, 0, 'read', LARGE), flow(0, 1, 'write', 16)];
  await run([reader, small], 5e6);
  expect(does()).toBe(SPLIT);
  registry.setAgentsDown('sim0', true);
  await run([reader], 60e6);
  expect(does()).toBe('left alone');
});

eachShort(1, [0, 60_000, 150_000])(
  'READs that wait for a slot go on when the agents of the peer fall silent after %i ns, and take turns again afterwards',
  async (afterNs) => {
    const { flow, run, registry } = hosts({ rotation: 'on' });
    const [reader, writer] = [flow(1, 0, 'read', LARGE), flow(0, 2, 'write', LARGE)];
    await run([reader, writer], 3e6 + afterNs, 4, 5000);
    registry.setAgentsDown('sim0', true);
    const before = reader.done;
    await run([reader], 10e6, 4, 5000);
    expect(reader.done - before).toBeGreaterThan(500);
    registry.setAgentsDown('sim0', false);
    const [reads, writes] = [reader.done, writer.done];
    await run([reader, writer], 10e6, 4, 5000);
    expect(reader.done - reads).toBeGreaterThan(500);
    expect(writer.done - writes).toBeGreaterThan(500);
  },
);
