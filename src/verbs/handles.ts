/**
 * Handles: small positive integers, `kind << 27 | generation << 18 | index`, the same in the addon
 * (native/handles.h) and in providers written in TypeScript. The generation of a closed handle no longer matches, and a
 * handle of another type has another kind, so that neither is ever taken for a valid one.
 */
import { InvalidHandleError, shown } from './errors.ts';

/** Kinds of objects, in the upper bits of their handles. */
export const KIND_CONTEXT = 1;
export const KIND_PD = 2;
export const KIND_MR = 3;
export const KIND_CQ = 4;
export const KIND_QP = 5;
export const KIND_CHANNEL = 6;
export const KIND_WR_RING = 7;
export const KIND_WC_RING = 8;
export const KIND_SRQ = 9;
export const KIND_AH = 10;
export const KIND_MW = 11;
export const KIND_XRCD = 12;
export const KIND_CM_CHANNEL = 13;
export const KIND_CM_ID = 14;

/** Names of the kinds, for messages. */
export const KIND_NAMES: readonly string[] = [
  'nothing',
  'context',
  'protection domain',
  'memory region',
  'completion queue',
  'queue pair',
  'completion channel',
  'work-request ring',
  'completion ring',
  'shared receive queue',
  'address handle',
  'memory window',
  'XRC domain',
  'CM event channel',
  'CM identifier',
];

const INDEX_BITS = 18;
const INDEX_MASK = (1 << INDEX_BITS) - 1;
const GENERATION_MASK = 0x1ff;

/** The index of a handle in its table. */
export function handleIndex(handle: number): number {
  return handle & INDEX_MASK;
}

/** Describes what is wrong with a handle, for people. */
export function describeHandle(handle: unknown): string {
  if (typeof handle !== 'number' || !Number.isInteger(handle) || handle <= 0) return shown(handle);
  const kind = KIND_NAMES[handle >> 27];
  return kind === undefined || kind === KIND_NAMES[0]
    ? `${handle}`
    : `a ${kind}'s handle that is closed or foreign`;
}

/** Items by handle. Freed entries are reused in the order in which they were freed, so that a stale handle stays stale for long. */
export class HandleTable<T extends object> {
  readonly kind: number;
  readonly items: (T | undefined)[] = [];
  private readonly handles: number[] = [];
  private readonly free: number[] = [];
  private live = 0;

  constructor(kind: number) {
    this.kind = kind;
  }

  /** Number of live items. */
  get size(): number {
    return this.live;
  }

  /** Adds an item; returns its handle. */
  add(item: T): number {
    const reused = this.free.length > 64 || this.items.length > INDEX_MASK ? this.free.shift() : undefined;
    const index = reused ?? this.items.length;
    const generation = reused === undefined ? 0 : ((this.handles[index] >> INDEX_BITS) + 1) & GENERATION_MASK;
    const handle = (this.kind << 27) | (generation << INDEX_BITS) | index;
    this.items[index] = item;
    this.handles[index] = handle;
    this.live++;
    return handle;
  }

  /** The item, or undefined for anything that is not a live handle of this table. */
  get(handle: number): T | undefined {
    // Only a number may be masked: a bigint throws, and an object would run its own code.
    if (typeof handle !== 'number') return undefined;
    const index = handle & INDEX_MASK;
    return this.handles[index] === handle ? this.items[index] : undefined;
  }

  /** The item. @throws InvalidHandleError (naming `verb`) for anything but a live handle of this table */
  require(handle: number, verb: string): T {
    const item = this.get(handle);
    if (item !== undefined) return item;
    const got =
      typeof handle === 'number' && handle >> 27 === this.kind
        ? 'one that is closed or foreign'
        : describeHandle(handle);
    throw new InvalidHandleError(`${verb} needs a live ${KIND_NAMES[this.kind]}, got ${got}`, { verb });
  }

  /** Removes an item; its handle is stale from then on. */
  delete(handle: number): void {
    const index = handle & INDEX_MASK;
    if (this.handles[index] !== handle || this.items[index] === undefined) return;
    this.items[index] = undefined;
    this.free.push(index);
    this.live--;
  }

  /** All live items. */
  *values(): IterableIterator<T> {
    for (const item of this.items) if (item !== undefined) yield item;
  }
}
