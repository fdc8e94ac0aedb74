/**
 * Memory in which peers report what has become of their ends of connections: one byte for each carrier. Each protection
 * domain has one region for each remote access, so that the key also shows a peer which connections may share a carrier.
 */
import { IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE } from '../../verbs/constants.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { MrInfo } from '../../verbs/types.ts';
import type { QpLedger } from '../qp-ledger.ts';

/** The connection's own queue pair must be used: its peer has changed or ended it. */
export const LEAVE = 1;
/** The peer sends nothing more over its end of this carrier. */
export const DONE = 2;
/** The peer's end of this carrier has failed. */
export const FAILED = 4;
const SLOTS = 4096;
/** Behind the slots, one byte with each combination of the values above, as sources of RDMA WRITEs. */
const VALUES = 8;

/** A byte of an anchor. */
export interface AnchorSlot {
  readonly anchor: Anchor;
  readonly index: number;
}

export class Anchor {
  readonly rkey: number;
  readonly lkey: number;
  private readonly mr: MrInfo;
  private readonly bytes: Uint8Array;
  private readonly free: number[] = [];
  /** By number (`numberOf`): the connections whose messages carriers may bring. */
  readonly members: (QpLedger | undefined)[] = [];
  private used = 0;

  constructor(next: Provider, pd: number) {
    this.mr = next.allocMr(pd, SLOTS + VALUES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    this.rkey = this.mr.rkey;
    this.lkey = this.mr.lkey;
    this.bytes = new Uint8Array(this.mr.memory, this.mr.byteOffset, SLOTS + VALUES);
    for (let value = 0; value < VALUES; value++) this.bytes[SLOTS + value] = value;
  }

  /** Null if all are in use. */
  take(): AnchorSlot | null {
    const index = this.free.pop() ?? (this.used < SLOTS ? this.used++ : -1);
    if (index < 0) return null;
    this.bytes[index] = 0;
    return { anchor: this, index };
  }

  give({ index }: AnchorSlot): void {
    this.free.push(index);
  }

  addressOf({ index }: AnchorSlot): number {
    return this.mr.addr + index;
  }

  /** The number by which peers name the connection of a slot: they derive it from the address of the slot. */
  numberOf(slot: AnchorSlot): number {
    return numberAt(this.addressOf(slot));
  }

  /** The address of a byte with this value. */
  valueAddress(value: number): number {
    return this.mr.addr + SLOTS + value;
  }

  valueOf({ index }: AnchorSlot): number {
    return this.bytes[index];
  }

  close(next: Provider): void {
    next.deregMr(this.mr.handle);
  }
}

/** The number of the connection of the slot with this address. */
export function numberAt(addr: number): number {
  return addr % SLOTS;
}
