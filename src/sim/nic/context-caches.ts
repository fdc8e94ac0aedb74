/**
 * NIC caches of host memory: contexts of queue pairs, entries of regions (MPT) and of their pages (MTT). A
 * miss costs a DMA read, for which the access waits.
 *
 * The caches start warm: while everything on the host fits and nothing was flushed, nothing misses, and look-ups are only
 * counted, if at all. From then on, the least recently used entry is evicted.
 */
import * as C from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import type { Region } from '../memory/memory.ts';
import type { NicParams } from '../profile/params.ts';
import type { WorkQueue } from '../queues/work-queue.ts';
import type { Qp } from '../transport/qp.ts';
import * as Q from '../transport/qp.ts';
import type { World } from '../world.ts';
import { LruCache } from './lru-cache.ts';
import type { Pcie } from './pcie.ts';

// V8 folds constants of the module itself into the code, but loads imported ones at each use.
const { IBV_QPS_RTR, IBV_QPS_SQE } = C;
const { WR_OP, WR_SGE0, SGE_WORDS, SGE_LENGTH, SGE_LO, SGE_HI, SGE_LKEY } = L;
const { RUN_SGE_ADDR } = Q;

/** Bytes read from host memory per entry of a region or page: whole cache lines. */
const MPT_BYTES = 64;
const MTT_BYTES = 64;
const TWO32 = 4294967296;

/** One of the caches of a NIC. */
class NicCache {
  /** Objects on the host that compete for the cache. */
  live = 0;
  /** Whether an access can miss: not everything on the host fits, or the cache was flushed. */
  canMiss = false;
  /** [0] look-ups, including those that need not be made only with `countsAll`, [1] misses. */
  readonly counts = new Float64Array(2);
  /** [0] time until the entry of the last access arrives. */
  readonly waitNs = new Float64Array(1);
  private readonly entries: number;
  private readonly entryBytes: number;
  private readonly pcie: Pcie;
  private readonly clock: Float64Array;
  /** Its stamps are the times at which the entries arrive. */
  private readonly lru: LruCache;
  private wasFlushed = false;

  constructor(entries: number, entryBytes: number, pcie: Pcie, clock: Float64Array) {
    this.entries = entries;
    this.entryBytes = entryBytes;
    this.pcie = pcie;
    this.clock = clock;
    this.lru = new LruCache(entries);
  }

  get fits(): boolean {
    return !this.canMiss;
  }

  /** So many objects were added; a negative number: removed. */
  count(objects: number): void {
    this.live += objects;
    this.canMiss = this.live > this.entries || this.wasFlushed;
  }

  /** Removes all entries. From now on, accesses are looked up even if everything on the host fits. */
  flush(): void {
    this.wasFlushed = true;
    this.canMiss = true;
    this.lru.clear();
  }

  /** Accesses an entry and sets `waitNs` to the time until it arrives. */
  use(first: number, second: number): void {
    const { lru, counts, waitNs, clock } = this;
    counts[0]++;
    if (!lru.touch(first, second)) {
      counts[1]++;
      this.pcie.readControl(this.entryBytes);
      lru.stamp(this.pcie.done);
    }
    lru.readStamp(waitNs);
    waitNs[0] = waitNs[0] > clock[0] ? waitNs[0] - clock[0] : 0;
  }

  /** An entry was in use until now. */
  leave(first: number, second: number): void {
    this.lru.refresh(first, second);
  }
}

/** The caches of one NIC. */
export class NicCaches {
  readonly contexts: NicCache;
  readonly regions: NicCache;
  readonly pages: NicCache;
  /** Receive queues whose next receives the NIC holds; null: all of them. */
  readonly receives: LruCache | null;
  /** [0] time until the memory accessed last can be translated. */
  readonly waitNs = new Float64Array(1);
  /** Whether memory must be looked up. If not, all of it fits into the caches, and nothing counts the look-ups. */
  looksUp = false;
  private isCounting = false;
  private readonly pageBytes: number;
  private readonly flushes: boolean;

  constructor(params: Readonly<NicParams>, pcie: Pcie, clock: Float64Array) {
    this.pageBytes = params.pageBytes;
    this.flushes = params.mrFlush === 'all';
    this.contexts = new NicCache(params.qpcEntries, params.qpcBytes, pcie, clock);
    this.regions = new NicCache(params.mptEntries, MPT_BYTES, pcie, clock);
    this.pages = new NicCache(params.mttEntries, MTT_BYTES, pcie, clock);
    const { recvWqeEntries, wqeFetchBatch } = params;
    const queues = Math.max(1, Math.floor(recvWqeEntries / wqeFetchBatch));
    this.receives = recvWqeEntries === Number.POSITIVE_INFINITY ? null : new LruCache(queues);
  }

  /** A region was registered (1) or removed (-1). */
  count(region: Region, sign: number): void {
    if (sign < 0 && this.flushes) {
      this.regions.flush();
      this.pages.flush();
    }
    this.regions.count(sign);
    this.pages.count(sign * Math.max(1, Math.ceil(region.lengthBytes / this.pageBytes)));
    this.updateLooksUp();
  }

  /** Whether look-ups are counted even while everything fits. Timing does not depend on it. */
  set countsAll(countsAll: boolean) {
    this.isCounting = countsAll;
    this.updateLooksUp();
  }

  private updateLooksUp(): void {
    this.looksUp = this.regions.canMiss || this.pages.canMiss || this.isCounting;
  }

  /** Translates `length` bytes of a region from start[0] of its buffer on, and raises `waitNs` to the time it takes. */
  find(name: number, start: Float64Array, length: number): void {
    let waitNs = 0;
    if (!this.regions.canMiss) this.regions.counts[0]++;
    else {
      this.regions.use(name, 0);
      waitNs = this.regions.waitNs[0];
    }
    const first = Math.floor(start[0] / this.pageBytes);
    const last = Math.floor((start[0] + Math.max(length, 1) - 1) / this.pageBytes);
    if (!this.pages.canMiss) this.pages.counts[0] += last - first + 1;
    else {
      let longest = 0;
      for (let page = first; page <= last; page++) {
        this.pages.use(name, page);
        if (this.pages.waitNs[0] > longest) longest = this.pages.waitNs[0];
      }
      // The location of the page entries is known only from the region's entry.
      waitNs += longest;
    }
    if (waitNs > this.waitNs[0]) this.waitNs[0] = waitNs;
  }
}

/** Counts the queue pair's context after a change of state: connected queue pairs have one. */
export function noteState(world: World, qp: Qp): void {
  const connected = qp.state >= IBV_QPS_RTR && qp.state <= IBV_QPS_SQE;
  if (connected === qp.hasContext) return;
  qp.hasContext = connected;
  world.hosts[qp.host].caches.contexts.count(connected ? 1 : -1);
}

/** Accesses the context of a queue pair. Returns true when it misses; contexts.waitNs is the delay. */
export function missesContext(world: World, qp: Qp): boolean {
  const { contexts } = world.hosts[qp.host].caches;
  if (contexts.canMiss) {
    contexts.use(qp.qpn, 0);
    return contexts.waitNs[0] > 0;
  }
  contexts.counts[0]++;
  return false;
}

/** A processing unit finished with a queue pair, whose context was in use until now. */
export function leaveContext(world: World, qp: Qp): void {
  const { contexts } = world.hosts[qp.host].caches;
  if (contexts.canMiss) contexts.leave(qp.qpn, 0);
}

/**
 * Translates the memory of `length` bytes of request `seq`, from byte `offset` of the message on. Returns
 * true when that takes time; caches.waitNs is the delay. Invalid keys are detected elsewhere.
 */
export function missesLocal(
  world: World,
  qp: Qp,
  queue: WorkQueue,
  seq: number,
  offset: number,
  length: number,
): boolean {
  const { caches } = world.hosts[qp.host];
  if (!caches.looksUp) return false;
  caches.waitNs[0] = 0;
  const at = queue.at(seq);
  const elements = queue.words[at + WR_OP] >>> 16;
  let skip = offset;
  let left = length;
  for (let i = 0; i < elements && left > 0; i++) {
    const w = i < 2 ? queue.words : queue.ext;
    const e = i < 2 ? at + WR_SGE0 + i * SGE_WORDS : queue.extAt(seq) + (i - 2) * SGE_WORDS;
    const bytes = w[e + SGE_LENGTH];
    if (skip >= bytes) {
      skip -= bytes;
      continue;
    }
    const part = Math.min(bytes - skip, left);
    world.regions.from[0] = w[e + SGE_LO] + w[e + SGE_HI] * TWO32 + skip;
    findPart(world, caches, w[e + SGE_LKEY], false, part);
    left -= part;
    skip = 0;
  }
  return caches.waitNs[0] > 0;
}

/** Does the same for the request at `cur`, whose step is done. */
export function missesRun(world: World, qp: Qp, offset: number, length: number): boolean {
  if (qp.runSgeBytes < 0) return missesLocal(world, qp, qp.sq, qp.cur, offset, length);
  const { caches } = world.hosts[qp.host];
  if (!caches.looksUp) return false;
  caches.waitNs[0] = 0;
  world.regions.from[0] = qp.runs[qp.runRow + RUN_SGE_ADDR] + offset;
  findPart(world, caches, qp.runLkey, false, length);
  return caches.waitNs[0] > 0;
}

/** Does the same for bytes that a remote key opens. */
export function missesRemote(
  world: World,
  host: number,
  rkey: number,
  addr: number,
  length: number,
): boolean {
  const { caches } = world.hosts[host];
  if (!caches.looksUp) return false;
  caches.waitNs[0] = 0;
  world.regions.from[0] = addr;
  findPart(world, caches, rkey, true, length);
  return caches.waitNs[0] > 0;
}

function findPart(world: World, caches: NicCaches, key: number, isRemote: boolean, length: number): void {
  const name = world.regions.position(key, isRemote, length);
  if (name >= 0) caches.find(name, world.regions.start, length);
}
