/**
 * The tables of a NIC that schedules by weight (Palos, section IV): the weight of each queue pair, the granularity of
 * each group, and the labels of queue pairs that are served first. Software writes them through the labels of contexts,
 * groups and queue pairs (providers/labels.ts).
 */
import { ChunkWeights } from '../../../chunk-weights/chunk-weights.ts';
import { fitColumn } from '../../../shim/tables.ts';
import { ISO_TRAFFIC_LATENCY } from '../../../verbs/constants.ts';
import { DEFAULT_LABELS, type Labels } from '../../../verbs/labels.ts';
import type { NicParams } from '../../profile/params.ts';
import type { Qp } from '../../transport/qp.ts';
import { UrgentCap } from './urgent-cap.ts';

/** Chunks are fixed-point numbers with this many binary places. */
const FRACTION_BITS = 16;
const UNITS_PER_BYTE = 2 ** FRACTION_BITS;

const NO_MEMBER = -1;

/** A scheduler of a port of the NIC, which keeps what queue pairs have left of their chunks. */
export interface ChunkUser {
  /** The chunk of a member is about to change. */
  chunkChanges(member: number): void;
  /** The chunk of a member has changed. */
  chunkChanged(member: number): void;
}

/** The weights and labels of the queue pairs of one NIC. */
export class NicWeights {
  readonly urgentCap: UrgentCap;
  /** [0] payload bytes, with a fraction. An array, because V8 allocates a double that crosses a call. */
  readonly chunkBytes = new Float64Array(1);
  /**
   * In units of 2^-16 bytes rather than in bytes with 16 binary places of the granularity, because chunks would then be
   * whole bytes. Chunks of a few bytes are common when many queue pairs share a NIC with a heavy one.
   */
  private readonly chunks: ChunkWeights;
  private readonly users: ChunkUser[] = [];
  private used = 0;
  private readonly free: number[] = [];
  /** By member: the number of ports where it has work. */
  private activeAt: Uint8Array = new Uint8Array(16);

  /** @param clock [0] the current time in ns */
  constructor(params: Readonly<NicParams>, clock: Float64Array) {
    const { palosSums, palosChunkBytes, mtuBytes } = params;
    const bytesPerQp = palosChunkBytes === 0 ? mtuBytes : palosChunkBytes;
    this.chunks = new ChunkWeights({
      sums: palosSums,
      bytesPerQp: bytesPerQp * UNITS_PER_BYTE,
      fractionBits: 0,
    });
    this.urgentCap = new UrgentCap(params, clock);
  }

  /** Entries of the tables written so far. */
  get writes(): number {
    return this.chunks.writes;
  }

  /** Announces changes of chunks to a scheduler. */
  addUser(user: ChunkUser): void {
    this.users.push(user);
  }

  /** The member that stands for a queue pair. Without labels so far, its tenant and group have no name. */
  memberOf(qp: Qp): number {
    if (qp.member === NO_MEMBER) this.add(qp, '', DEFAULT_LABELS);
    return qp.member;
  }

  /** Sets the labels of a queue pair of a tenant. */
  setLabels(qp: Qp, tenant: string, labels: Labels): void {
    const { member } = qp;
    if (member === NO_MEMBER) {
      this.add(qp, tenant, labels);
      return;
    }
    const { chunks, users } = this;
    for (const user of users) user.chunkChanges(member);
    chunks.move(member, chunks.groupOf(tenant, labels.group));
    chunks.setWeight(member, labels.qpWeight);
    for (const user of users) user.chunkChanged(member);
    this.urgentCap.setLabelled(member, labels.traffic === ISO_TRAFFIC_LATENCY);
  }

  /** Sets the weight of a tenant. */
  setTenantWeight(tenant: string, weight: number): void {
    this.chunks.setTenantWeight(tenant, weight);
  }

  /** Sets the weight of a group of a tenant. */
  setGroupWeight(tenant: string, group: string, weight: number): void {
    this.chunks.setGroupWeight(tenant, group, weight);
  }

  /** Removes a destroyed queue pair, which its ports have removed already. */
  remove(qp: Qp): void {
    const { member } = qp;
    if (member === NO_MEMBER) return;
    qp.member = NO_MEMBER;
    this.urgentCap.setLabelled(member, false);
    this.chunks.remove(member);
    this.free.push(member);
  }

  /** A member has work at one more port. */
  began(member: number): void {
    if (this.activeAt[member]++ === 0) this.chunks.setActive(member, true);
  }

  /** A member has no more work at a port. */
  rested(member: number): void {
    if (--this.activeAt[member] === 0) this.chunks.setActive(member, false);
  }

  /** Sets chunkBytes to what a member with work may send in a turn. */
  readChunk(member: number): void {
    this.chunkBytes[0] = this.chunks.chunkBytes(member) / UNITS_PER_BYTE;
  }

  private add(qp: Qp, tenant: string, { weight, group, qpWeight, traffic }: Labels): void {
    const { chunks } = this;
    const member = this.free.pop() ?? this.used++;
    this.activeAt = fitColumn(this.activeAt, member);
    this.activeAt[member] = 0;
    qp.member = member;
    const index = chunks.groupOf(tenant, group);
    chunks.setTenantWeight(tenant, weight);
    chunks.add(member, index, qpWeight);
    this.urgentCap.setLabelled(member, traffic === ISO_TRAFFIC_LATENCY);
  }
}
