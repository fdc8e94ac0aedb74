/**
 * The costs of requests, against the counters of the simulated NICs, for the victims and attackers of Husky (NSDI 2023) that
 * a mix can express. The tolerance was fixed before the first run.
 */
import { describe, expect, test } from 'vitest';
import { AppCosts } from '../../src/mix/nics/costs.ts';
import { parseApp } from '../../src/mix/parse.ts';
import { appsOf, paramsOf } from '../../src/mix/resolve.ts';
import type { MixResult, NicResult } from '../../src/mix/result.ts';
import { runMix } from '../../src/mix/run.ts';
import { DEFAULTS, type MixSpec } from '../../src/mix/spec.ts';
import * as K from '../../src/policies/kit/cost/vector.ts';

const TOLERANCE = 0.1;

/** Words of a NIC, with the counters that they predict. */
const COUNTERS: Readonly<Record<string, readonly [word: number, (nic: NicResult) => number]>> = {
  'PCIe read': [K.Cost.PCIE_READ, (nic) => nic.pcieReadBytes],
  'PCIe write': [K.Cost.PCIE_WRITE, (nic) => nic.pcieWriteBytes],
  steps: [K.Cost.UNIT_STEPS, (nic) => nic.unitSteps],
  packets: [K.Cost.RECEIVED_PACKETS, (nic) => nic.requestPackets],
  receiver: [K.Cost.RECEIVER_NS, (nic) => nic.receiverNs],
  atomics: [K.Cost.ATOMICS, (nic) => nic.atomics],
  receives: [K.Cost.RECEIVES, (nic) => nic.receives],
  contexts: [K.Cost.CONTEXTS, (nic) => nic.contexts.lookups],
  regions: [K.Cost.REGIONS, (nic) => nic.regions.lookups],
  pages: [K.Cost.PAGES, (nic) => nic.pages.lookups],
};

/** Known differences, each with its reason. */
const DATAGRAMS = ['host1 PCIe write']; // The model writes datagrams to host memory at no cost.
const ATOMIC_HEADERS = ['host0 out', 'host1 in']; // The model sends a RETH (16 bytes) in place of an AtomicETH (28).
// At these rates, the receiver's cores do not keep enough receives posted, so that messages are refused and sent again.
const REFUSED = ['host0 in', 'host0 steps', 'host0 contexts', 'host1 out', 'host1 PCIe read'];
const REFUSED_BACK = [
  ...['host0 out', 'host0 in', 'host0 PCIe read', 'host0 packets', 'host0 receiver', 'host0 contexts'],
  ...['host1 out', 'host1 in', 'host1 steps', 'host1 contexts'],
];

interface Case {
  readonly app: string;
  /** Virtual time of the warm-up, and of the measurement. */
  readonly ms: readonly [number, number];
  readonly differs?: Readonly<Record<string, readonly string[]>>;
}

const OPERATIONS = ['write', 'send', 'read'];
const each = (make: (op: string) => [string, Case][]) => OPERATIONS.flatMap(make);
const tiny = (app: string, op: string, components: readonly string[]): Case =>
  op === 'send' ? { app, ms: [2, 2], differs: { 'cx6-100g': components } } : { app, ms: [0.5, 0.5] };
const always = (components: readonly string[]) => ({
  differs: { 'cx6-100g': components, 'cx5-100g': components },
});

const VICTIMS: [string, Case][] = each((op) => [
  [`large_bw ${op}`, { app: `B:size=65536,depth=128,batch=128,op=${op}`, ms: [4, 4] }],
  [`small_tput ${op}`, tiny(`M:qps=128,cores=8,size=8,batch=16,op=${op}`, op, REFUSED)],
  [`mtu_tput ${op}`, { app: `M:qps=64,cores=4,size=4096,batch=16,op=${op}`, ms: [6, 6] }],
  [`te_many_qp 512 ${op}`, { app: `M:qps=96,cores=6,size=512,batch=1,depth=1,op=${op}`, ms: [0.5, 0.5] }],
  [`te_many_qp 4096 ${op}`, { app: `M:qps=96,cores=6,size=4096,batch=1,depth=1,op=${op}`, ms: [0.5, 1] }],
]);

const small = (op: string) => `M:qps=64,cores=8,size=8,batch=8,op=${op}`;
const receives = 'M:qps=32,cores=4,depth=1024,batch=64,op=';
const ATTACKERS: [string, Case][] = [
  ...each((op) => [
    // 16 batches of 128 MiB take 172 ms.
    [`BW-1MB ${op}`, { app: `B:qps=16,cores=1,size=1MiB,depth=128,batch=128,op=${op}`, ms: [90, 344] }],
    [`BW-4KB ${op}`, { app: `B:qps=64,cores=4,size=4096,depth=128,batch=128,op=${op}`, ms: [6, 12] }],
    [`PU-request forward ${op}`, tiny(small(op), op, REFUSED)],
    [`PU-request backward ${op}`, tiny(`${small(op)},host=1,to=0`, op, REFUSED_BACK)],
    [`Cache-QPC ${op}`, { app: `M:qps=512,cores=16,size=512,batch=1,op=${op}`, ms: [3, 1] }],
  ]),
  ['PU-request forward atomic', { app: small('atomic'), ms: [3, 3], ...always(ATOMIC_HEADERS) }],
  ...[257, 129].map((bytes): [string, Case] => [
    `PCIe-size ${bytes}`,
    { app: `M:qps=96,cores=6,size=${bytes},batch=1,depth=1024`, ms: [4, 1] },
  ]),
  ...[0, 1].map((host): [string, Case] => [
    `PCIe-loopback ${host}`,
    { app: `B:qps=8,cores=1,size=1MiB,depth=16,host=${host},to=${host}`, ms: [15, 30] },
  ]),
  ['Cache-recvwqe rc', { app: `${receives}send,size=4096`, ms: [12, 12] }],
  ['Cache-recvwqe uc', { app: `${receives}send,size=4096,transport=uc`, ms: [12, 12] }],
  ['Cache-recvwqe ud', { app: `${receives}send,size=4096,transport=ud`, ms: [12, 12], ...always(DATAGRAMS) }],
  ['Cache-recvwqe read', { app: `${receives}read,size=16KiB`, ms: [50, 50] }],
];

/** Those that run each time; the others are variations of them. */
const USUAL = ['large_bw write', 'mtu_tput read', 'te_many_qp 512 send', 'PU-request forward atomic'];

/**
 * Components in which the counters of a run differ by more than the tolerance from its requests times their cost, and
 * 'rate' if it had more requests a second than its scarcest resource allows, by more than the tolerance.
 */
async function differences(profile: string, { app, ms: [warmupMs, ms] }: Case): Promise<string[]> {
  const spec: MixSpec = {
    ...DEFAULTS,
    ...{ profile, payload: false, details: true, apps: [parseApp(app)] },
    ...{ warmupNs: warmupMs * 1e6, durationNs: (warmupMs + ms) * 1e6 },
  };
  const params = paramsOf(spec);
  const apps = appsOf(spec, params);
  const [{ host, to, qps }] = apps;
  const costs = new AppCosts(params, apps);
  const cost = costs.of(apps[0]);
  const result = await runMix(spec);
  // Delivered messages: completions are polled late while cores are busy.
  const { throughputGbps, messageBytes } = result.apps[0];
  const messages = (throughputGbps * ms * 1e6) / 8 / messageBytes;
  const expected = (word: number, at: number) =>
    messages * ((at === host ? cost[word] : 0) + (at === to ? cost[K.AT_PEER + word] : 0));
  const { perSecond } = costs.bottleneckOf(apps[0], qps);
  const rate = (messages * 1000) / ms > perSecond * (1 + TOLERANCE) ? ['rate'] : [];
  const counted = (result.nics ?? []).flatMap((nic) => {
    const isOff = (value: number, counted: number) => Math.abs(value - counted) > TOLERANCE * counted;
    const off = Object.entries(COUNTERS).filter(([, [word, counter]]) =>
      isOff(expected(word, nic.host), counter(nic)),
    );
    const linkOff = (['out', 'in'] as const).filter((direction) => {
      const word = direction === 'out' ? K.Cost.LINK_OUT : K.Cost.LINK_IN;
      return isOff(expected(word, nic.host), bytesOf(result, nic.host, direction));
    });
    return [...linkOff, ...off.map(([name]) => name)].map((name) => `host${nic.host} ${name}`);
  });
  return [...rate, ...counted];
}

function bytesOf({ links }: MixResult, host: number, direction: 'out' | 'in'): number {
  const end = direction === 'out' ? 'from' : 'to';
  return links.filter((link) => link[end] === `host${host}`).reduce((sum, { bytes }) => sum + bytes, 0);
}

describe.each(['cx6-100g', 'cx5-100g'])('on %s', (profile) => {
  for (const [name, one] of [...VICTIMS, ...ATTACKERS]) {
    const tags = USUAL.includes(name) ? [] : ['long'];
    test(`${name}: the NICs do what its requests cost`, { tags, timeout: 60_000 }, async () => {
      expect(await differences(profile, one)).toEqual(one.differs?.[profile] ?? []);
    });
  }
});
