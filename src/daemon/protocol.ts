/**
 * The messages between the daemon and its clients: each frame is a length (32 bits, little endian) followed
 * by that many bytes of JSON. The first frame in each direction carries the version. Numbers that change
 * within microseconds are in memory that both sides map (pages.ts). A seat's number is called `slot` on the
 * wire.
 */
import { z } from 'zod';
import { MAX_MESSAGE_WORDS } from '../coordinator/agent.ts';
import { HandshakeError } from '../verbs/errors.ts';
import { isGroupName } from '../verbs/groups.ts';
import { isGroup, MAX_TENANT_LENGTH, TRAFFIC_NAMES } from '../verbs/labels.ts';
import { MAX_RATES } from '../verbs/rate-targets.ts';
import { ratesByTarget } from './weights.ts';

/** Incremented for changes that an older peer would misread. */
export const VERSION = 6;
/** The size limit for every message. */
export const MAX_FRAME_BYTES = 64 * 1024;
/**
 * The limit for messages to the daemon. It allows for names whose every character is escaped, and bounds what
 * the daemon stores for thousands of clients with unfinished messages.
 */
export const MAX_REQUEST_BYTES = 4096;
const LENGTH_BYTES = 4;
/** Limits what is logged of an invalid message, because the names in it are the sender's. */
const MAX_SHOWN_CHARS = 200;

const name = z.string().max(128);
const tenant = z.string().max(MAX_TENANT_LENGTH);
const weight = z.number().min(1e-6).max(1e6);
const group = z.string().refine(isGroup);
const traffic = z.enum(TRAFFIC_NAMES);
/** Weights of groups, by name. */
const groups = z.record(z.string().refine(isGroupName), weight.nullable());
const gbps = z.number().positive().max(1e6);
const slot = z.number().int().min(0).max(65535);
/** Words between contexts and agents: 64-bit floating-point numbers, little endian. */
const words = z
  .base64()
  .max(Math.ceil((8 * MAX_MESSAGE_WORDS) / 3) * 4)
  .refine((text) => Buffer.byteLength(text, 'base64') % 8 === 0);

/** A client's declarations about itself. The kernel reports the client's identity to the daemon. */
const hello = z.strictObject({
  type: z.literal('hello'),
  version: z.number().int(),
  /** A tool queries and changes settings, and joins no device. */
  role: z.enum(['shim', 'tool']).default('shim'),
  /** The daemon's rules decide which of these count. */
  tenant: tenant.optional(),
  weight: weight.optional(),
  traffic: traffic.optional(),
});

export const toDaemon = z.discriminatedUnion('type', [
  hello,
  /** A context has opened a device. `slot` is a free seat in the client's pages, chosen by the client. */
  z.strictObject({ type: z.literal('join'), slot, device: name.min(1), tenant: tenant.default('') }),
  z.strictObject({ type: z.literal('leave'), slot }),
  /** The program of the context in a seat has set weights of groups; null: it has given up the group. */
  z.strictObject({ type: z.literal('group'), slot, groups }),
  /** A counter that affects others has changed. */
  z.strictObject({ type: z.literal('ring') }),
  /**
   * How many queue pairs of the context in a seat have each of the rates of this version, in their order (`rates` of
   * `joined` and `labels`).
   */
  z.strictObject({
    type: z.literal('rated'),
    slot,
    version: z.number().int(),
    qps: z
      .array(
        z
          .number()
          .int()
          .min(0)
          .max(2 ** 24),
      )
      .max(MAX_RATES),
  }),
  /** The context in a seat sends words to an agent of its device. */
  z.strictObject({ type: z.literal('tell'), slot, agent: name, words }),
  z.strictObject({ type: z.literal('tenants') }),
  z.strictObject({
    type: z.literal('set'),
    tenant: tenant.min(1),
    /** Whether the setting is also kept for a tenant that is not present. Default true. */
    future: z.boolean().optional(),
    weight: weight.optional(),
    /** Labels of all contexts. Null: the programs' own, whatever the rules contain. */
    qpWeight: weight.nullable().optional(),
    group: group.nullable().optional(),
    traffic: traffic.nullable().optional(),
    /** Weights of groups. Null: as the programs set them. */
    groups: groups.optional(),
    /** Null restores a share by weight. */
    gbps: gbps.nullable().optional(),
    /** Rates of groups and queue pairs, by target. Null: none, whatever the rules contain. */
    rates: ratesByTarget(gbps.nullable()).optional(),
    /** Null removes the limit, whatever the rules contain. */
    maxQps: z.number().int().positive().max(1e9).nullable().optional(),
    maxRequestsPerS: z.number().positive().max(1e12).nullable().optional(),
  }),
]);

/** A process of a tenant at a device: sums over its contexts, as in the row of the tenant. */
const programRow = z.object({
  /** As the daemon sees it; 0: it is in a PID namespace that the daemon does not see. */
  pid: z.number(),
  contexts: z.number(),
  qps: z.number(),
  sentRequests: z.number(),
  sentBytes: z.number(),
  heldRequests: z.number(),
  latencyNs: z.number(),
});

/** A device, with what is known of it. */
const deviceRow = z.object({
  device: z.string(),
  /** 0: unknown. */
  linkGbps: z.number(),
  /** Whether each process simulates the device, in virtual time. */
  isVirtualTime: z.boolean(),
  /** What is known of its NIC, without tables; null: nothing. */
  nic: z.looseObject({}).nullable(),
});

const tenantRow = z
  .object({
    device: z.string(),
    tenant: z.string(),
    weight: z.number(),
    /** A fixed rate; null for a share by weight. */
    gbps: z.number().nullable(),
    /**
     * Rates of its groups and queue pairs in Gbit/s: the first by target, the number of queue pairs that have each, and the
     * number of the other rates. Absent: it has none.
     */
    rates: z.record(z.string(), z.number()).optional(),
    ratedQps: z.record(z.string(), z.number()).optional(),
    moreRates: z.number().optional(),
    /** Rates by rules and operators that have no effect, because the tenant has too many. Absent: none. */
    excessRates: z.number().optional(),
    /** Labels of all its contexts; null for the programs' own. */
    qpWeight: z.number().nullable(),
    group: z.string().nullable(),
    traffic: traffic.nullable(),
    /** Weights of its groups: of the first by name, and the number of the others. Absent: it has none. */
    groups: z.record(z.string(), z.number()).optional(),
    moreGroups: z.number().optional(),
    contexts: z.number(),
    processes: z.number(),
    qps: z.number(),
    /**
     * Requests posted by the tenant's programs since it appeared, including those of closed contexts, and the bytes of
     * their messages.
     */
    sentRequests: z.number(),
    sentBytes: z.number(),
    /** Requests held at this moment; the time from post to completion, sampled. */
    heldRequests: z.number(),
    latencyNs: z.number(),
    /** Limits; null for none. */
    maxQps: z.number().nullable(),
    maxRequestsPerS: z.number().nullable(),
    /** Its processes, the one with the most requests first, and the number of those that are not listed. Absent: none. */
    programs: z.array(programRow).optional(),
    morePrograms: z.number().optional(),
    // What rulers say of the tenant (Decider.describe). Those that say other things have more fields.
    /**
     * What the tenant sends: delay, messages, bandwidth or idle; '' where no ruler says. `why` is the reason for what it
     * gets.
     */
    class: z.string(),
    why: z.string(),
    /** Its rate on the wire, and the rate that it may send at. */
    wireGbps: z.number(),
    rateGbps: z.number(),
    /** Whether its large messages are split, and how many of its queue pairs may send at the same time; 0: all. */
    split: z.boolean(),
    qNumAllow: z.number(),
    referenceShare: z.number(),
  })
  .catchall(
    z
      .union([z.number(), z.string(), z.boolean(), z.record(z.string(), z.number()), z.array(programRow)])
      .nullable(),
  );

/** Labels that the daemon gives to a context; those that are absent are the program's own. */
const labels = z.object({
  weight: weight.optional(),
  qpWeight: weight.optional(),
  group: group.optional(),
  traffic: traffic.optional(),
});

/**
 * Weights of groups of a tenant; null: none is in force. The rules or an operator have fixed those named in `fixed`. With
 * `isAll`, groups that are absent have none.
 */
const givenGroups = z.object({
  groups: z.record(z.string(), weight.nullable()),
  fixed: z.array(z.string()).readonly().default([]),
  isAll: z.boolean().optional(),
});

/**
 * Rates of groups and queue pairs of a tenant by target, each with the number of contexts that share it. The version
 * changes with the targets.
 */
const givenRates = z.object({
  version: z.number(),
  rates: z.record(z.string(), z.tuple([gbps, z.number().min(1)])),
});

const columnNames = z.array(z.string()).readonly();

export const toClient = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('welcome'),
    version: z.number().int(),
    /** Seats in each of the two pages that come with this message. */
    slots: z.number().int().min(0).max(65536),
    /** The columns of a seat, by ruler: first those of every member. */
    layout: z
      .array(
        z.object({
          name: z.string(),
          reports: columnNames,
          grants: columnNames,
          defaults: z.array(z.number()).readonly(),
        }),
      )
      .readonly(),
    /** The daemon's default policy, in the form of ISOVERBS_POLICY; '' if there is none. */
    policy: z.string(),
    /** The provider whose devices programs should prefer; '' if the daemon prefers none. */
    provider: z.string().default(''),
    /** The tenant that the daemon assigned to the client. */
    tenant: z.string(),
    /** The agents that run in the daemon. */
    agents: z.array(z.string()).readonly().default([]),
  }),
  z.object({
    type: z.literal('joined'),
    slot,
    tenant: z.string(),
    labels: labels.default({}),
    /** Absent: none. */
    rates: givenRates.optional(),
    /** Whether weights of groups are in force, which follow in `groups`. */
    hasGroups: z.boolean().default(false),
  }),
  /** The labels of the context in a seat, or rates of its tenant, have changed. */
  z.object({ type: z.literal('labels'), slot, labels, rates: givenRates.optional() }),
  /** Weights of groups of the tenant of the context in a seat have changed. */
  givenGroups.extend({ type: z.literal('groups'), slot }),
  z.object({
    type: z.literal('refused'),
    slot: slot.optional(),
    reason: z.string(),
    /**
     * Of a connection, `denied`: the daemon and the client understand each other, but the client may not connect. Absent:
     * they do not, because their versions differ.
     */
    kind: z.literal('denied').optional(),
  }),
  /** The agents no longer know the context in a seat, because the rules have changed. */
  z.object({ type: z.literal('line'), slot }),
  /** An agent sends words to the context in a seat. */
  z.object({ type: z.literal('told'), slot, agent: z.string(), words }),
  /** `more` means that the list continues in the next message. */
  z.object({
    type: z.literal('tenants'),
    /** The daemon's own clock, for computing rates. Another daemon's clock starts at another time. */
    nowNs: z.number(),
    rows: z.array(tenantRow),
    /** The devices that have had tenants, and the daemon's default policy; only in the first message of a list. */
    devices: z.array(deviceRow).optional(),
    policy: z.string().optional(),
    more: z.boolean().default(false),
  }),
  z.object({
    type: z.literal('done'),
    /** Whether the tenant is present; a setting also applies to a tenant that comes later. */
    isKnown: z.boolean().default(true),
  }),
]);

export type ToDaemon = z.infer<typeof toDaemon>;
export type Hello = z.infer<typeof hello>;
export type ToClient = z.infer<typeof toClient>;
export type GivenLabels = z.infer<typeof labels>;
export type GivenGroups = z.infer<typeof givenGroups>;
export type GivenRates = z.infer<typeof givenRates>;
export type TenantRow = z.infer<typeof tenantRow>;
export type ProgramRow = z.infer<typeof programRow>;
export type DeviceRow = z.infer<typeof deviceRow>;

/** Encodes words for a message. */
export function encodeWords(given: ArrayLike<number>): string {
  const bytes = Buffer.alloc(8 * given.length);
  for (let i = 0; i < given.length; i++) bytes.writeDoubleLE(given[i], 8 * i);
  return bytes.toString('base64');
}

/** The words of a message. */
export function decodeWords(text: string): Float64Array {
  const bytes = Buffer.from(text, 'base64');
  return Float64Array.from({ length: bytes.length / 8 }, (_, i) => bytes.readDoubleLE(8 * i));
}

/** Encodes one message as a frame. */
export function frame(message: z.input<typeof toDaemon> | z.input<typeof toClient>): Buffer {
  const text = Buffer.from(JSON.stringify(message));
  if (text.length > MAX_FRAME_BYTES)
    throw new HandshakeError(
      `a message of ${text.length} bytes is too long; the limit is ${MAX_FRAME_BYTES}`,
    );
  const bytes = Buffer.alloc(LENGTH_BYTES + text.length);
  bytes.writeUInt32LE(text.length);
  text.copy(bytes, LENGTH_BYTES);
  return bytes;
}

/** Cuts a byte stream into messages, regardless of how the bytes arrive. */
export class FrameReader<T> {
  private readonly schema: z.ZodType<T>;
  private readonly maxBytes: number;
  /** Received bytes not yet read, from `start` to `end`. The buffer has at most twice the space they need. */
  private buffer: Buffer = Buffer.alloc(0);
  private start = 0;
  private end = 0;

  constructor(schema: z.ZodType<T>, maxBytes = MAX_FRAME_BYTES) {
    this.schema = schema;
    this.maxBytes = maxBytes;
  }

  /** Adds bytes and returns all messages that are now complete. @throws HandshakeError as next() */
  push(bytes: Uint8Array): T[] {
    this.add(bytes);
    const messages: T[] = [];
    while (this.isComplete) messages.push(this.next());
    return messages;
  }

  /** Appends a copy of the bytes. */
  add(bytes: Uint8Array): void {
    const held = this.end - this.start;
    if (this.buffer.length < this.end + bytes.length) {
      const needed = held + bytes.length;
      // Moves the content to the front if that frees enough space, even when bytes arrive in small pieces.
      const room =
        this.buffer.length < 2 * needed ? Buffer.alloc(held > 0 ? 2 * needed : needed) : this.buffer;
      this.buffer.copy(room, 0, this.start, this.end);
      this.buffer = room;
      this.start = 0;
      this.end = held;
    }
    this.buffer.set(bytes, this.end);
    this.end += bytes.length;
  }

  /**
   * Whether a complete message has arrived. @throws HandshakeError for an invalid frame, after which nothing
   * can be read
   */
  get isComplete(): boolean {
    if (this.end - this.start < LENGTH_BYTES) return false;
    const length = this.buffer.readUInt32LE(this.start);
    if (length > 0 && length <= this.maxBytes) return this.end - this.start - LENGTH_BYTES >= length;
    throw new HandshakeError(`a frame of ${length} bytes; a frame has 1 to ${this.maxBytes}`);
  }

  /**
   * Removes and returns the first message, which must be complete. @throws HandshakeError if it is not JSON
   * or not a valid message
   */
  next(): T {
    const from = this.start + LENGTH_BYTES;
    const to = from + this.buffer.readUInt32LE(this.start);
    const text = this.buffer.subarray(from, to);
    this.start = to;
    if (to === this.end) {
      this.buffer = Buffer.alloc(0);
      [this.start, this.end] = [0, 0];
    }
    return this.parse(text);
  }

  /** Whether a frame has begun but is not complete. */
  get isPartial(): boolean {
    return this.end > this.start;
  }

  private parse(text: Buffer): T {
    let value: unknown;
    try {
      value = JSON.parse(text.toString('utf8'));
    } catch {
      throw new HandshakeError('a frame that is not JSON');
    }
    const checked = this.schema.safeParse(value);
    if (checked.success) return checked.data;
    const { path, message } = checked.error.issues[0];
    const why = [...path, message].join(': ').slice(0, MAX_SHOWN_CHARS);
    throw new HandshakeError(`an invalid message: ${why}`);
  }
}

/**
 * Compiles the schemas in advance: a schema compiles itself at its first message, which takes as long as the
 * rest of a join.
 */
export function prepare(): void {
  const frames = new FrameReader<ToClient>(toClient);
  frames.push(frame({ type: 'welcome', version: VERSION, slots: 0, layout: [], policy: '', tenant: '' }));
  frames.push(frame({ type: 'joined', slot: 0, tenant: '' }));
}
