/**
 * Connects twins: queue pairs that a policy has next to the reliable connections of the application. Each end describes
 * its twins to the peer's shim, and connects them over the path of the application's own queue pair once that is in RTR.
 *
 * A twin serves one connection. If its queue pair fails or is reset, the twin fails too and stays unconnected.
 */
import { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_SQD } from '../../verbs/constants.ts';
import { IsoverbsError } from '../../verbs/errors.ts';
import type { PeerVerbs, Provider } from '../../verbs/provider.ts';
import type { QpLedger } from '../qp-ledger.ts';
import type { Resource, ResourceKeeper } from '../resource-keeper.ts';
import type { Tables } from '../tables.ts';
import { decodeChunks, type TwinAddress, TwinChunk, withChunk, withoutChunk, withTwins } from './chunks.ts';
import { pathOf } from './path.ts';

/** The parts of the shim that twins use. */
export interface TwinsHost {
  readonly policyName: string;
  readonly tables: Tables;
  readonly keeper: ResourceKeeper;
  readonly next: Provider;
  /** The layers below, or the part of this shim that describes something else. */
  readonly below: PeerVerbs;
  /** A twin of the queue pair was connected, and the policy does not know it yet. */
  changed(qp: QpLedger): void;
}

export class Twins {
  private readonly host: TwinsHost;
  /** By kind. */
  private readonly chunks: TwinChunk[] = [];

  constructor(host: TwinsHost) {
    this.host = host;
  }

  verbs(): PeerVerbs {
    return {
      describePeer: (qp) => this.describe(qp),
      setPeer: (qp, description) => this.set(qp, description),
    };
  }

  /** The application has modified the queue pair: connects its twins if there is a path. Returns whether it did. */
  connect(qp: QpLedger): boolean {
    if (qp.broken || qp.state < IBV_QPS_RTR || qp.state > IBV_QPS_SQD) return false;
    let isNew = false;
    for (const twin of qp.twins as Resource[]) {
      if (twin.peer === null || twin.connected || twin.ended) continue;
      const { peer } = twin;
      if (isAccepted(() => this.connectOne(qp, twin, peer))) isNew = true;
      else twin.ended = true;
    }
    return isNew;
  }

  /** Over the path of the queue pair. */
  private connectOne(qp: QpLedger, twin: Resource, peer: TwinAddress): void {
    const { keeper, next } = this.host;
    const path = pathOf(next.queryQp(qp.handle).attr, qp.state);
    keeper.toRts(twin, { ...path, destQpNum: peer.qpNum }, twin.options.access ?? qp.accessFlags);
    twin.connected = true;
  }

  /** The application has changed what its queue pair grants to the peer. */
  setAccess(qp: QpLedger): void {
    for (const twin of qp.twins as Resource[]) {
      if (!twin.connected || twin.options.access !== undefined) continue;
      // A twin that has failed cannot be modified.
      isAccepted(() => this.host.keeper.modify(twin, { qpAccessFlags: qp.accessFlags }));
    }
  }

  private describe(handle: number): Uint8Array | null {
    const { below, tables, keeper } = this.host;
    let description = below.describePeer?.(handle) ?? null;
    const qp = tables.qp(handle);
    if (qp === undefined || qp.state < IBV_QPS_INIT) return description;
    for (const [kind, twin] of (qp.twins as Resource[]).entries()) {
      if (twin.ended) continue;
      const chunk = this.chunk(kind);
      description = withChunk(description, chunk.kind, chunk.encode(keeper.addressOf(twin)));
    }
    return description;
  }

  private set(handle: number, bytes: Uint8Array | null): void {
    const { below, tables } = this.host;
    const qp = tables.qp(handle);
    let rest = bytes;
    for (const [kind, twin] of ((qp?.twins ?? []) as Resource[]).entries()) {
      const chunk = this.chunk(kind);
      const chunks = decodeChunks(rest);
      rest = withoutChunk(chunks, chunk.kind);
      if (!twin.connected) twin.peer = chunk.decode(chunks.get(chunk.kind) ?? []);
    }
    below.setPeer?.(handle, rest);
    if (qp !== undefined && this.connect(qp)) this.host.changed(qp);
  }

  private chunk(kind: number): TwinChunk {
    this.chunks[kind] ??= new TwinChunk(this.host.policyName, kind);
    return this.chunks[kind];
  }
}

/**
 * The verbs of two layers, of which the upper one agrees with the peer on twins only: it is a shim in another thread, which
 * does not see the receives.
 */
export function twinsOnly(below: PeerVerbs, above: PeerVerbs): PeerVerbs {
  return {
    describePeer: (qp) => withTwins(below.describePeer?.(qp) ?? null, above.describePeer?.(qp) ?? null),
    setPeer: (qp, description) => {
      below.setPeer?.(qp, description);
      above.setPeer?.(qp, withTwins(null, description));
    },
  };
}

/** Whether the device accepts what `act` asks of it. */
function isAccepted(act: () => void): boolean {
  try {
    act();
    return true;
  } catch (error) {
    if (error instanceof IsoverbsError) return false;
    throw error;
  }
}
