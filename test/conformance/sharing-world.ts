/** Two hosts with connections that share queue pairs, under drum unless a test names another policy. */
import { createPolicy } from '../../src/policies/index.ts';
import { createFabric, type Fabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import * as V from '../../src/verbs/index.ts';
import { type End, makeEnd, post, take } from '../sim/helpers.ts';
import { smallCache } from './chains.ts';
import { agree, connectPeers, SIGNALED } from './peer-rig.ts';

/** Below a shim: the queue pairs of the device, and how many requests each of them has taken. */
export class Device {
  readonly posts = new Map<number, number>();
  private readonly pds = new Map<number, number>();
  isFull = false;
  /** Changes what is sent over shared queue pairs; `at`: the word of a SEND with immediate. */
  mangle: ((words: Uint32Array, at: number) => void) | null = null;
  private readonly rings = new Map<number, Uint32Array>();
  private next: V.Provider | null = null;

  /** Moves connected queue pairs to ERR. */
  fail(which: (qp: number) => boolean): void {
    for (const qp of this.posts.keys()) {
      const isConnected = this.next!.queryQp(qp).attr.qpState === V.IBV_QPS_RTS;
      if (isConnected && which(qp)) this.next!.modifyQp(qp, { qpState: V.IBV_QPS_ERR }, V.IBV_QP_STATE);
    }
  }

  /** All queue pairs of a protection domain answer no more. */
  vanish(pd: number): void {
    this.fail((qp) => this.pds.get(qp) === pd);
  }

  readonly interceptor: Interceptor = {
    name: 'device',
    wrap: (next) => ({
      openDevice: (name, options) => {
        this.next = next;
        return next.openDevice(name, options);
      },
      createQp: (pd, attr) => {
        // The program's queue pairs have two completion queues.
        if (this.isFull && attr.sendCq === attr.recvCq) throw new V.NoResourcesError('createQp: full');
        const info = next.createQp(pd, attr);
        this.posts.set(info.handle, 0);
        this.pds.set(info.handle, pd);
        return info;
      },
      destroyQp: (qp) => {
        next.destroyQp(qp);
        this.posts.delete(qp);
      },
      createWrRing: (capacity, sges, inlineBytes) => {
        const info = next.createWrRing(capacity, sges, inlineBytes);
        this.rings.set(info.handle, new Uint32Array(info.memory));
        return info;
      },
      postSend: (qp, ring, start, count) => {
        for (let i = start; this.mangle !== null && i < start + count; i++) {
          const words = this.rings.get(ring)!;
          const at = V.slotAt(i);
          if ((words[at + V.WR_OP] & 0xff) === V.IBV_WR_SEND_WITH_IMM) this.mangle(words, at);
        }
        const n = next.postSend(qp, ring, start, count);
        this.posts.set(qp, (this.posts.get(qp) ?? 0) + n);
        return n;
      },
    }),
  };
}

/** One context and protection domain on each of two hosts, with connections between them. */
export class World {
  readonly device = new Device();
  readonly fabric: Fabric;
  readonly provider: V.Provider;
  private readonly bases: [End, End];

  constructor(policy = createPolicy('drum', { connectionsPerQp: 4 })) {
    const fabric = createFabric({ hosts: 2, seed: 1, autoAdvance: false });
    this.provider = compose(fabric.provider, [policy, this.device.interceptor, smallCache]);
    this.fabric = { ...fabric, provider: this.provider };
    this.bases = [makeEnd(this.fabric, 0), makeEnd(this.fabric, 1)];
  }

  connection(pds: readonly [number?, number?] = []): [End, End] {
    const [a, b] = this.bases.map((base, i) => {
      const { v, sendCq, recvCq } = base;
      const pd = pds[i] ?? base.pd;
      const cap = { maxSendWr: 64, maxRecvWr: 64, maxSendSge: 4, maxRecvSge: 4, maxInlineData: 128 };
      const info = v.createQp(pd, { qpType: V.IBV_QPT_RC, sendCq, recvCq, cap, sqSigAll: false });
      return { ...base, pd, qp: info.handle, qpNum: info.qpNum };
    });
    this.connect(a, b);
    return [a, b];
  }

  connect(a: End, b: End): void {
    connectPeers(a, b);
    agree(a, b);
  }

  connections(count: number): [End, End][] {
    return Array.from({ length: count }, () => this.connection());
  }

  write(from: End, to: End, wrId: number, bytes = 64): void {
    from.send.write(wrId, SIGNALED, from.mr.addr, bytes, from.mr.lkey, to.mr.addr, to.mr.rkey);
    post(from);
  }

  /** Completions of all connections of this side so far: number and status. */
  async settle(end: End): Promise<string[]> {
    const lines: string[] = [];
    for (let idle = 0; idle < 12; ) {
      await this.fabric.run();
      const wcs = take(end);
      lines.push(...wcs.map(({ wrId, status }) => `${wrId} ${status}`));
      idle = wcs.length === 0 ? idle + 1 : 0;
    }
    return lines;
  }

  /** Requests that these ends' own queue pairs have taken. */
  onOwn(ends: readonly End[]): number {
    return ends.reduce((sum, { qp }) => sum + (this.device.posts.get(qp) ?? 0), 0);
  }
}
