/** Two ends, each with its own shim or none, which agree as they would over a connection. */
import { createFabric, type Fabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import * as V from '../../src/verbs/index.ts';
import { type End, type EndOptions, makeEnd, modify, take, toInit, toRtr, toRts } from '../sim/helpers.ts';

export interface PeerWorld {
  a: End;
  b: End;
  fabric: Fabric;
}

export interface PeerOptions {
  a?: EndOptions;
  b?: EndOptions;
  /** Whether the ends agree before the queue pairs move to RTR. */
  agree?: boolean;
  wait?: boolean;
}

export function peerWorld(chainA: Interceptor[], chainB: Interceptor[], o: PeerOptions = {}): PeerWorld {
  const fabric = createFabric({ hosts: 2, seed: 1, wait: o.wait ?? true, autoAdvance: false });
  const on = (chain: Interceptor[]) => ({ ...fabric, provider: compose(fabric.provider, chain) });
  const a = makeEnd(on(chainA), 0, { bytes: 1 << 20, ...o.a });
  const b = makeEnd(on(chainB), 1, { bytes: 1 << 20, ...o.b });
  connectPeers(a, b, o.agree);
  return { a, b, fabric };
}

export function connectPeers(a: End, b: End, agreed = true): void {
  for (const end of [a, b]) toInit(end);
  if (agreed) agree(a, b);
  toRtr(a, b);
  toRtr(b, a);
  for (const end of [a, b]) toRts(end);
}

export function agree(a: End, b: End): void {
  const ofA = a.v.describePeer?.(a.qp) ?? null;
  const ofB = b.v.describePeer?.(b.qp) ?? null;
  a.v.setPeer?.(a.qp, ofB);
  b.v.setPeer?.(b.qp, ofA);
}

/** All completions of an end's queues, one line each. */
export function completionsOf(end: End): string[] {
  const lines: string[] = [];
  for (const cq of [end.sendCq, end.recvCq]) {
    for (let n = -1; n !== 0; ) {
      const wcs = take(end, cq);
      n = wcs.length;
      for (const wc of wcs) {
        const ok = wc.status === 'SUCCESS';
        const rest = ok && wc.recv ? ` ${wc.byteLen} imm ${wc.imm}` : '';
        lines.push(`${wc.recv ? 'recv' : 'send'} ${wc.wrId} ${wc.status}${ok ? ` ${wc.opcode}` : ''}${rest}`);
      }
    }
  }
  return lines;
}

/** Runs until no events are left, and returns the completions of both ends. */
export async function settle({ a, b, fabric }: PeerWorld): Promise<{ a: string[]; b: string[] }> {
  const seen = { a: [] as string[], b: [] as string[] };
  for (let idle = 0; idle < 3; ) {
    await fabric.run();
    const [ofA, ofB] = [completionsOf(a), completionsOf(b)];
    seen.a.push(...ofA);
    seen.b.push(...ofB);
    idle = ofA.length + ofB.length === 0 ? idle + 1 : 0;
  }
  return seen;
}

/** The number of pieces that an end's outermost shim has made. */
export function piecesOf(end: End): number {
  return end.v.counters?.()[0]?.internal.pieces ?? 0;
}

/** Closes all objects of an end, which fails if a shim has kept one. */
export function closeEnd(end: End): void {
  const { v } = end;
  v.destroyQp(end.qp);
  v.destroyCq(end.sendCq);
  v.destroyCq(end.recvCq);
  v.deregMr(end.mr.handle);
  for (const batch of [end.send, end.recv, end.wc]) batch.close();
  v.deallocPd(end.pd);
  v.closeDevice(end.context);
}

export function toState(end: End, qpState: number): void {
  modify(end, { qpState });
}

export const { IBV_SEND_SIGNALED: SIGNALED, IBV_SEND_FENCE: FENCE, IBV_SEND_SOLICITED: SOLICITED } = V;
