/**
 * Memory windows (InfiniBand 10.6.7): keys to a part of a region, bound and invalidated by the send queue. A
 * bound window is an entry in the table of keys. A window of type 2 belongs to the queue pair that bound it
 * (2B): instead of a protection domain, its entry has a domain that stands for that queue pair: its negated number. The
 * path of plain regions therefore needs no case for windows.
 */
import * as C from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import type { Qp } from '../transport/qp.ts';
import type { World } from '../world.ts';
import { keptViewsOf, type Region } from './memory.ts';

const TWO32 = 4294967296;
const REMOTE_WRITES = C.IBV_ACCESS_REMOTE_WRITE | C.IBV_ACCESS_REMOTE_ATOMIC;
const WINDOW_ACCESS = REMOTE_WRITES | C.IBV_ACCESS_REMOTE_READ | C.IBV_ACCESS_ZERO_BASED;
const NOTHING = new Uint8Array(0);
const NO_VIEWS = keptViewsOf(NOTHING);
/** The domain of unbound windows, which no queue pair and no protection domain has. */
const NO_DOMAIN = 0;

export class Window {
  readonly id: number;
  readonly type: number;
  readonly host: number;
  readonly pd: number;
  /** The key after all binds posted so far. */
  key: number;
  /** The current key. */
  keyNow: number;
  /** The region it is bound to; null while its key opens nothing. */
  region: Region | null = null;
  /** Type 2: number of the queue pair that bound it. */
  qpn = 0;

  constructor(id: number, type: number, host: number, pd: number, key: number) {
    this.id = id;
    this.type = type;
    this.host = host;
    this.pd = pd;
    this.key = this.keyNow = key;
  }
}

export function allocWindow(world: World, type: number, host: number, pd: number): Window {
  const window = new Window(world.windows.length, type, host, pd, world.regions.takeKey());
  world.windows.push(window);
  close(world, window);
  return window;
}

/** Frees a window, bound or not. Its key gives no access afterwards. */
export function freeWindow(world: World, window: Window): void {
  close(world, window);
  world.regions.releaseKey(window.keyNow);
  world.windows[window.id] = undefined;
}

/** The region or window that a packet's rkey opens at the packet's address, or undefined. */
export function reachOf(world: World, qp: Qp, p: number, length: number, access: number): Region | undefined {
  world.regions.from[0] = world.packets.addr[p];
  return reach(world, qp, world.packets.rkey[p], length, access);
}

/** The region or window that an rkey opens for this queue pair at world.regions.from[0], or undefined. */
export function reach(
  world: World,
  qp: Qp,
  rkey: number,
  length: number,
  access: number,
  pd = qp.pd,
): Region | undefined {
  const { regions } = world;
  // Windows of type 2 belong to their queue pair, not to the protection domain.
  return (
    regions.remote(qp.host, pd, rkey, length, access) ??
    regions.remote(qp.host, -qp.qpn, rkey, length, access)
  );
}

/** The REASON_* number for which this BIND_MW or LOCAL_INV may not be posted. */
export function windowReason(world: World, qp: Qp, w: Uint32Array, at: number): number {
  const op = w[at + L.WR_OP];
  if (op >>> 16 !== 0) return L.REASON_SGE_COUNT;
  if (((op >>> 8) & C.IBV_SEND_INLINE) !== 0) return L.REASON_INLINE;
  if ((op & 0xff) === C.IBV_WR_LOCAL_INV) return L.REASON_NONE;
  if ((op & 0xff) !== C.IBV_WR_BIND_MW) return L.REASON_OPCODE;
  if ((w[at + L.WR_BIND_ACCESS] & ~WINDOW_ACCESS) !== 0) return L.REASON_FLAGS;
  const window = world.hooks.windowOf(w[at + L.WR_BIND_MW]);
  if (window === undefined || window.host !== qp.host || window.pd !== qp.pd) return L.REASON_WINDOW;
  const mr = w[at + L.WR_BIND_MR];
  const length = lengthOf(w, at);
  // A bind can unbind a window of type 1 only. One of type 2 is invalidated instead.
  if (mr === 0) {
    return length === 0 && window.type === C.IBV_MW_TYPE_1 ? L.REASON_NONE : L.REASON_WINDOW;
  }
  const region = world.hooks.regionOf(mr);
  if (region === undefined || region.host !== qp.host || region.pd !== qp.pd) return L.REASON_WINDOW;
  const offset = addrOf(w, at) - region.addr;
  const inside = offset >= 0 && offset + length <= region.lengthBytes;
  return inside ? L.REASON_NONE : L.REASON_WINDOW;
}

/** Fixes the window, the region and the new key of a BIND_MW at posting time. */
export function fixBind(world: World, qp: Qp, at: number): void {
  const w = qp.sq.words;
  const window = world.hooks.windowOf(w[at + L.WR_BIND_MW])!;
  const tag = window.type === C.IBV_MW_TYPE_1 ? window.key + 1 : w[at + L.WR_RKEY];
  window.key = ((window.key & ~0xff) | (tag & 0xff)) >>> 0;
  w[at + L.WR_RKEY] = window.key;
  w[at + L.WR_BIND_MR] = world.hooks.regionOf(w[at + L.WR_BIND_MR])?.lkey ?? 0;
  qp.sqTarget[qp.sq.posted & qp.sq.mask] = window.id;
}

/** A BIND_MW failed or was flushed: the window keeps its current key. */
export function bindFailed(world: World, qp: Qp, seq: number): void {
  const window = world.windows[qp.sqTarget[seq & qp.sq.mask]];
  if (window !== undefined) window.key = window.keyNow;
}

/** Executes the BIND_MW or LOCAL_INV at `seq`. Returns IBV_WC_SUCCESS or the status of the failure. */
export function executeWindowOp(world: World, qp: Qp, seq: number): number {
  const at = qp.sq.at(seq);
  const w = qp.sq.words;
  if ((w[at + L.WR_OP] & 0xff) === C.IBV_WR_LOCAL_INV) {
    return invalidate(world, qp, w[at + L.WR_IMM]) ? C.IBV_WC_SUCCESS : C.IBV_WC_LOC_QP_OP_ERR;
  }
  const window = world.windows[qp.sqTarget[seq & qp.sq.mask]];
  if (window === undefined) return C.IBV_WC_MW_BIND_ERR;
  const lkey = w[at + L.WR_BIND_MR];
  const region = lkey === 0 ? undefined : world.regions.get(lkey);
  const length = lkey === 0 ? 0 : lengthOf(w, at);
  const access = w[at + L.WR_BIND_ACCESS];
  if (!mayBind(window, length, access)) return C.IBV_WC_MW_BIND_ERR;
  if (length > 0 && (region === undefined || !mayBeBound(region, access))) return C.IBV_WC_MW_BIND_ERR;
  close(world, window);
  window.keyNow = w[at + L.WR_RKEY];
  if (length > 0) open(world, qp, window, region!, addrOf(w, at), length, access);
  else close(world, window);
  return C.IBV_WC_SUCCESS;
}

/** A window of type 2 is bound once and freed by an invalidation. One of type 1 is never zero-based. */
function mayBind(window: Window, length: number, access: number): boolean {
  if (window.type === C.IBV_MW_TYPE_1) return (access & C.IBV_ACCESS_ZERO_BASED) === 0;
  return window.region === null && length > 0;
}

function mayBeBound(region: Region, access: number): boolean {
  if ((region.access & C.IBV_ACCESS_MW_BIND) === 0) return false;
  if ((region.access & C.IBV_ACCESS_ZERO_BASED) !== 0) return false;
  return (access & REMOTE_WRITES) === 0 || (region.access & C.IBV_ACCESS_LOCAL_WRITE) !== 0;
}

/**
 * Unbinds the window of type 2 with this key, for a LOCAL_INV or the peer's SEND_WITH_INV. Returns false when
 * this queue pair may not unbind such a window; keys of regions cannot be invalidated.
 */
export function invalidate(world: World, qp: Qp, key: number): boolean {
  const window = world.regions.at(key)?.window ?? null;
  if (window === null || window.keyNow !== key || window.type !== C.IBV_MW_TYPE_2) return false;
  if (window.host !== qp.host || window.pd !== qp.pd) return false;
  if (window.qpn !== 0 && window.qpn !== qp.qpn) return false;
  close(world, window);
  return true;
}

function open(
  world: World,
  qp: Qp,
  window: Window,
  region: Region,
  addr: number,
  length: number,
  access: number,
): void {
  const { host, pd, keyNow } = window;
  const offset = addr - region.addr;
  window.region = region;
  region.windows++;
  if (window.type === C.IBV_MW_TYPE_2) window.qpn = qp.qpn;
  const bytes = region.bytes.subarray(offset, offset + length);
  world.regions.set(keyNow, {
    lkey: -1,
    rkey: keyNow,
    host,
    pd: window.type === C.IBV_MW_TYPE_2 ? -qp.qpn : pd,
    access,
    addr: (access & C.IBV_ACCESS_ZERO_BASED) !== 0 ? 0 : addr,
    lengthBytes: length,
    bytes,
    views: keptViewsOf(bytes),
    windows: 0,
    window,
  });
}

/** Makes the window's key open nothing. */
function close(world: World, window: Window): void {
  const { host, keyNow } = window;
  if (window.region !== null) window.region.windows--;
  window.region = null;
  window.qpn = 0;
  world.regions.set(keyNow, {
    lkey: -1,
    rkey: keyNow,
    host,
    pd: NO_DOMAIN,
    access: 0,
    addr: 0,
    lengthBytes: 0,
    bytes: NOTHING,
    views: NO_VIEWS,
    windows: 0,
    window,
  });
}

function lengthOf(w: Uint32Array, at: number): number {
  return w[at + L.WR_BIND_LENGTH_LO] + w[at + L.WR_BIND_LENGTH_HI] * TWO32;
}

function addrOf(w: Uint32Array, at: number): number {
  return w[at + L.WR_BIND_ADDR_LO] + w[at + L.WR_BIND_ADDR_HI] * TWO32;
}
