/**
 * What the daemon and its clients say over their socket: frames of a length (32 bits, little endian) and so many bytes
 * of JSON. The first frame of either side carries the version; numbers that change in microseconds are in memory that
 * both map (pages.ts).
 */
import { z } from 'zod';
import { HandshakeError } from '../verbs/errors.ts';
import { CLASSES } from './rules.ts';

/** Raised by changes that an older end would misread. */
export const VERSION = 1;
/** Nobody needs longer ones. */
export const MAX_FRAME_BYTES = 64 * 1024;
/** Of those to the daemon, with names whose every letter is escaped; what thousands of clients begin it must hold. */
export const MOST_ASKED_BYTES = 4096;
const LENGTH_BYTES = 4;
/** Of what is wrong with a message: the names in it are the sender's, and go to a log. */
const MOST_SHOWN = 200;

const name = z.string().max(128);
const weight = z.number().min(1e-3).max(1e6);
const gbps = z.number().positive().max(1e6);
const slot = z.number().int().min(0).max(65535);

/** What a client says of itself; who it is the daemon asks the kernel. */
const hello = z.strictObject({
  type: z.literal('hello'),
  version: z.number().int(),
  /** A tool asks and sets, and joins nothing. */
  role: z.enum(['shim', 'tool']).default('shim'),
  /** Declared: the daemon's rules decide what of it counts. */
  tenant: name.optional(),
  weight: weight.optional(),
  class: z.enum(CLASSES).optional(),
});

export const toDaemon = z.discriminatedUnion('type', [
  hello,
  /** A context opened a device; `slot` is the client's choice of a free place in its pages. */
  z.strictObject({ type: z.literal('join'), slot, device: name.min(1), tenant: name.default('') }),
  z.strictObject({ type: z.literal('leave'), slot }),
  /** A counter that others are concerned by has changed. */
  z.strictObject({ type: z.literal('ring') }),
  z.strictObject({ type: z.literal('tenants') }),
  z.strictObject({
    type: z.literal('set'),
    tenant: name.min(1),
    weight: weight.optional(),
    /** null: a share by weight again. */
    gbps: gbps.nullable().optional(),
    /** null: none, whatever the rules say. */
    maxQps: z.number().int().positive().max(1e9).nullable().optional(),
    maxRequestsPerS: z.number().positive().max(1e12).nullable().optional(),
  }),
]);

const tenantRow = z.object({
  device: z.string(),
  tenant: z.string(),
  weight: z.number(),
  /** Of its own; null: a share. */
  gbps: z.number().nullable(),
  /** delay, messages, bandwidth, idle; and why it has what it has. */
  class: z.string(),
  why: z.string(),
  contexts: z.number(),
  processes: z.number(),
  qps: z.number(),
  /** On the wire, as a policy that classifies reports it. */
  wireGbps: z.number(),
  /** Since the tenant came, contexts that have closed included: requests of its programs, and bytes of their messages. */
  sentRequests: z.number(),
  sentBytes: z.number(),
  /** Requests that are held just now; from post to completion, of some. */
  heldRequests: z.number(),
  latencyNs: z.number(),
  /** Limits; null: none. */
  maxQps: z.number().nullable(),
  maxRequestsPerS: z.number().nullable(),
  rateGbps: z.number(),
  split: z.boolean(),
  qNumAllow: z.number(),
});

export const toClient = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('welcome'),
    version: z.number().int(),
    /** Places in each of the two pages that come with it. */
    slots: z.number().int().min(0).max(65536),
    /** What the daemon runs with, as ISOVERBS_POLICY has it; '': nothing. */
    policy: z.string(),
    /** Who the daemon takes the client for. */
    tenant: z.string(),
  }),
  z.object({ type: z.literal('joined'), slot, tenant: z.string() }),
  z.object({ type: z.literal('refused'), slot: slot.optional(), reason: z.string() }),
  /** A grant has changed. */
  z.object({ type: z.literal('ring') }),
  /** `more`: the list goes on in the next one. */
  z.object({
    type: z.literal('tenants'),
    /** By the daemon's own clock, from which rates follow; another daemon's begins anew. */
    nowNs: z.number(),
    rows: z.array(tenantRow),
    more: z.boolean().default(false),
  }),
  z.object({
    type: z.literal('done'),
    /** Whether there is such a tenant now; what was set holds for one that comes later, too. */
    isKnown: z.boolean().default(true),
  }),
]);

export type ToDaemon = z.infer<typeof toDaemon>;
export type Hello = z.infer<typeof hello>;
export type ToClient = z.infer<typeof toClient>;
export type TenantRow = z.infer<typeof tenantRow>;

/** One message as a frame. */
export function frame(message: z.input<typeof toDaemon> | z.input<typeof toClient>): Buffer {
  const text = Buffer.from(JSON.stringify(message));
  if (text.length > MAX_FRAME_BYTES)
    throw new HandshakeError(`a message of ${text.length} bytes is too long`);
  const bytes = Buffer.alloc(LENGTH_BYTES + text.length);
  bytes.writeUInt32LE(text.length);
  text.copy(bytes, LENGTH_BYTES);
  return bytes;
}

/** Cuts a stream into messages, however it comes in pieces. */
export class Frames<T> {
  private readonly schema: z.ZodType<T>;
  private readonly mostBytes: number;
  /** What has come and was not read: the bytes from `at` to `end`, in room for twice as much at most. */
  private room: Buffer = Buffer.alloc(0);
  private at = 0;
  private end = 0;

  constructor(schema: z.ZodType<T>, mostBytes = MAX_FRAME_BYTES) {
    this.schema = schema;
    this.mostBytes = mostBytes;
  }

  /** All messages that are whole with these bytes. @throws HandshakeError as next() */
  push(bytes: Uint8Array): T[] {
    this.add(bytes);
    const messages: T[] = [];
    while (this.isWhole) messages.push(this.next());
    return messages;
  }

  /** Copied, behind what is there. */
  add(bytes: Uint8Array): void {
    const held = this.end - this.at;
    if (this.room.length < this.end + bytes.length) {
      const needed = held + bytes.length;
      // Moved to the front if that makes room enough, however small the pieces are.
      const room = this.room.length < 2 * needed ? Buffer.alloc(held > 0 ? 2 * needed : needed) : this.room;
      this.room.copy(room, 0, this.at, this.end);
      this.room = room;
      this.at = 0;
      this.end = held;
    }
    this.room.set(bytes, this.end);
    this.end += bytes.length;
  }

  /** Whether a message is there. @throws HandshakeError for what is no frame: nothing behind it can be read */
  get isWhole(): boolean {
    if (this.end - this.at < LENGTH_BYTES) return false;
    const length = this.room.readUInt32LE(this.at);
    if (length > 0 && length <= this.mostBytes) return this.end - this.at - LENGTH_BYTES >= length;
    throw new HandshakeError(`a frame of ${length} bytes: it has 1 to ${this.mostBytes}`);
  }

  /** The first message, of which the whole is there. @throws HandshakeError for what is no JSON or no message */
  next(): T {
    const from = this.at + LENGTH_BYTES;
    const to = from + this.room.readUInt32LE(this.at);
    const text = this.room.subarray(from, to);
    this.at = to;
    if (to === this.end) {
      this.room = Buffer.alloc(0);
      [this.at, this.end] = [0, 0];
    }
    return this.parse(text);
  }

  /** Whether a frame has begun and not ended. */
  get isCut(): boolean {
    return this.end > this.at;
  }

  private parse(text: Buffer): T {
    let value: unknown;
    try {
      value = JSON.parse(text.toString('utf8'));
    } catch {
      throw new HandshakeError('a frame that is no JSON');
    }
    const checked = this.schema.safeParse(value);
    if (checked.success) return checked.data;
    const { path, message } = checked.error.issues[0];
    const why = [...path, message].join(': ').slice(0, MOST_SHOWN);
    throw new HandshakeError(`a message that is none: ${why}`);
  }
}

/** A schema compiles itself at its first message, which takes as long as all else of a join: it is done before. */
export function prepare(): void {
  const frames = new Frames<ToClient>(toClient);
  frames.push(frame({ type: 'welcome', version: VERSION, slots: 0, policy: '', tenant: '' }));
  frames.push(frame({ type: 'joined', slot: 0, tenant: '' }));
}
