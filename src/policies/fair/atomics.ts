/**
 * Shares the rate at which peers execute atomics. Every device executes the atomics of all queue pairs one after
 * another, far more slowly than the link carries them, and each queue pair can have as many of them there as it may
 * have outstanding. Therefore, if several tenants send atomics to a peer, these wait in front of the sender's device,
 * so that only as many are in flight as keep the peer busy. The atomics of a single tenant pass.
 */
import type { Actions, QpView } from '../../shim/policy.ts';
import { fitColumn } from '../../shim/tables.ts';
import type { EventClock } from '../kit/event-clock.ts';
import { Puller } from '../kit/puller.ts';
import { NONE } from '../kit/run-queue.ts';
import { BLOCKED, step } from '../kit/step.ts';
import type { WireFacts } from '../kit/wire.ts';
import { isAtomic } from '../link/link-scheduler.ts';
import { type Costs, DominantOrder } from './dominant-order.ts';

/** Atomics in flight, as a multiple of those that a peer executes in the latency of a short message. */
const IN_FLIGHT = 1.5;
/** Atomics of a turn of a queue pair, and those that a tenant may be behind after a time in which it sent fewer. */
const TURN_ATOMICS = 4;
const LAG_ATOMICS = 8;
/** The most peers whose atomics are shared. Atomics to further peers pass. */
const MOST_PEERS = 64;

/** What sharing the atomics of a device requires. */
export interface AtomicsOptions {
  /** Time for which an atomic occupies the device that executes it; 0: unknown, so that all atomics pass. */
  readonly gapNs: number;
  readonly latencyNs: number;
  readonly wire: WireFacts;
  readonly token: number;
  readonly clock: EventClock;
  readonly tenantOf: (qp: { readonly index: number }) => number;
  /** Whether the tenant of the queue pair may send now. */
  readonly mayGo: (qp: QpView, out: Actions) => boolean;
  /** The next request of the queue pair is not an atomic, or its tenant may not send now. */
  readonly stray: (qp: QpView) => void;
  /** An atomic was issued. */
  readonly issued: (qp: QpView) => void;
}

/** The atomics to one peer. */
class PeerAtomics {
  readonly order: DominantOrder;
  readonly puller: Puller;
  /** The only tenant that has sent any; NONE: there are several. */
  tenant: number;
  private readonly options: AtomicsOptions;

  constructor(options: AtomicsOptions, tenant: number) {
    const { gapNs, latencyNs, wire, token, clock, tenantOf } = options;
    const costs: Costs = {
      nsPerByte: 0,
      nsPerRequest: gapNs,
      turnBytes: TURN_ATOMICS,
      missTurnBytes: TURN_ATOMICS,
      lagNs: LAG_ATOMICS * gapNs,
      tinyBytes: 0,
    };
    this.options = options;
    this.tenant = tenant;
    this.order = new DominantOrder(
      (index) => tenantOf({ index }),
      costs,
      () => false,
    );
    this.puller = new Puller({
      order: this.order,
      wire,
      windowBytes: Math.ceil((IN_FLIGHT * latencyNs) / gapNs) + 1,
      pieceBytes: wire.mtuBytes,
      token,
      clock,
      issue: this.issue,
      loadOf: () => 1,
    });
  }

  private readonly issue = (qp: QpView, out: Actions, pieceBytes: number): number => {
    const { order, options } = this;
    if (!isAtomic(out.nextOpcode(qp)) || !options.mayGo(qp, out)) {
      options.stray(qp);
      return BLOCKED;
    }
    // More would wait at the device, and take the place of others.
    const bytes = out.inflight(qp) < Math.max(1, qp.maxRdAtomic) ? step(qp, out, pieceBytes) : BLOCKED;
    if (bytes === BLOCKED) return BLOCKED;
    out.signalNow(qp);
    order.spend(qp.index, 1);
    options.issued(qp);
    return bytes;
  };
}

/** The atomics that one device sends. */
export class AtomicShares {
  private readonly options: AtomicsOptions;
  /** By name of the peer, and in the order in which they were added. */
  private readonly byName = new Map<string, number>();
  private readonly peers: PeerAtomics[] = [];
  /** By queue pair: its peer plus one; 0: it has sent no atomics. */
  private peerOf: Int32Array = new Int32Array(64);
  /** One more than the largest tenant so far. */
  private tenants = 0;

  constructor(options: AtomicsOptions) {
    this.options = options;
  }

  /** A tenant begins. */
  begin(tenant: number): void {
    this.tenants = Math.max(this.tenants, tenant + 1);
    for (const { order } of this.peers) order.begin(tenant);
  }

  /** Whether the tenant has sent more atomics than those being served, so that it must be remembered. */
  isAhead(tenant: number): boolean {
    return this.peers.some(({ order }) => order.isAhead(tenant));
  }

  /** Whether atomics that a queue pair posts must wait for their turns. Notes that it posts some. */
  mustWait(qp: QpView, out: Actions): boolean {
    const peer = this.peerAt(qp, out);
    if (peer === undefined) return false;
    const tenant = this.options.tenantOf(qp);
    if (peer.tenant === tenant) return false;
    peer.tenant = NONE;
    return true;
  }

  private peerAt(qp: QpView, out: Actions): PeerAtomics | undefined {
    return this.ofQp(qp) ?? this.connect(qp, out);
  }

  /** A queue pair sends its first atomic. Undefined: atomics to its peer pass. */
  private connect(qp: QpView, out: Actions): PeerAtomics | undefined {
    const { byName, peers, options } = this;
    if (options.gapNs === 0) return undefined;
    let index = byName.get(qp.dgid);
    if (index === undefined) {
      if (peers.length === MOST_PEERS) return undefined;
      index = peers.length;
      peers.push(new PeerAtomics(options, options.tenantOf(qp)));
      byName.set(qp.dgid, index);
      for (let tenant = 0; tenant < this.tenants; tenant++) peers[index].order.begin(tenant);
    }
    this.peerOf = fitColumn(this.peerOf, qp.index);
    this.peerOf[qp.index] = index + 1;
    peers[index].order.reset(qp.index);
    // Its first completion may put it into the order.
    this.weigh(peers[index], qp);
    peers[index].puller.onQp(qp, 'created', out);
    return peers[index];
  }

  private weigh({ order }: PeerAtomics, qp: QpView): void {
    order.setWeight(this.options.tenantOf(qp), qp.labels.weight);
    order.setQpWeight(qp.index, qp.labels.qpWeight);
  }

  /** The oldest held request of a queue pair is an atomic. Returns whether it waits for its turn. */
  enlist(qp: QpView, out: Actions): boolean {
    if (!this.mustWait(qp, out)) return false;
    const peer = this.peerAt(qp, out)!;
    this.weigh(peer, qp);
    peer.puller.enlist(qp, out);
    return true;
  }

  /** A queue pair was modified, or destroyed. */
  changed(qp: QpView, out: Actions): void {
    const peer = this.ofQp(qp);
    if (peer === undefined) return;
    // In another state, it may have another peer.
    peer.puller.onQp(qp, 'destroyed', out);
    this.peerOf[qp.index] = 0;
  }

  private ofQp({ index }: QpView): PeerAtomics | undefined {
    const peer = index < this.peerOf.length ? this.peerOf[index] : 0;
    // An array has no index -1, and looking for one takes long.
    return peer > 0 ? this.peers[peer - 1] : undefined;
  }

  /** Whether atomics of the queue pair wait for their turns. */
  isShared(qp: QpView): boolean {
    return this.ofQp(qp)?.tenant === NONE;
  }

  /** A queue pair that `isShared` has completed something. */
  onCompleted(qp: QpView, out: Actions): void {
    this.ofQp(qp)!.puller.onCompleted(qp, out);
  }

  onTimer(out: Actions): void {
    for (const { puller } of this.peers) puller.onTimer(out);
  }
}
