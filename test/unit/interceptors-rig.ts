/** Two connected ends on simulated devices, under interceptors. */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Connection, Context, connect, listen } from '../../src/objects/index.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import type { Provider } from '../../src/verbs/provider.ts';

const ALL = { remoteRead: true, remoteWrite: true, remoteAtomic: true };

/** A temporary folder for one test. */
export function scratch(): string {
  return mkdtempSync(join(tmpdir(), 'isoverbs-interceptors-'));
}

/** A simulated provider of two hosts under interceptors. */
export function simUnder(...interceptors: Interceptor[]): Provider {
  return compose(createFabric({ hosts: 2, seed: 1 }).provider, interceptors);
}

export interface PairOptions {
  maxSendWr?: number;
  maxSendSge?: number;
  maxInlineData?: number;
}

/** Opens both hosts and connects a queue pair of each. */
export async function pairOn(provider: Provider, options: PairOptions = {}) {
  const ends = ['sim0', 'sim1'].map((name) => {
    const context = new Context(provider, name);
    const pd = context.allocPd();
    const cq = context.createCq({ cqe: 4096 });
    return { context, pd, cq, mr: pd.allocate(1 << 16, { access: ALL }) };
  });
  const [a, b] = ends;
  const cap = { maxSendSge: 4, maxInlineData: 64, ...options };
  const accepted = new Promise<Connection>((resolve) => {
    void listen(a.context, { port: 7, pd: a.pd, sendCq: a.cq, cap }, resolve);
  });
  const client = await connect(b.context, { port: 7, host: 'sim0', pd: b.pd, sendCq: b.cq, cap });
  const server = await accepted;
  const close = () => {
    for (const { context } of ends) context.close();
  };
  return { a: { ...a, qp: server.qp }, b: { ...b, qp: client.qp }, close };
}

export type Pair = Awaited<ReturnType<typeof pairOn>>;
