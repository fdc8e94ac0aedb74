/** replay: a provider that answers a program from its recording, without a device. */

import type { ConnectionManager } from '../../verbs/connection-manager.ts';
import { ReplayError } from '../../verbs/errors.ts';
import * as L from '../../verbs/layout.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { DeviceInfo, MrInfo, RingInfo } from '../../verbs/types.ts';
import { VERB_NAMES, type Verbs } from '../../verbs/verbs.ts';
import * as F from '../record/format.ts';
import { Rings } from '../rings.ts';
import { toJson } from '../values.ts';
import { ReplayMemory } from './memory.ts';
import { describePost, postDifference } from './posts.ts';
import { type Entry, RecordReader } from './reader.ts';
import { errorOf, ReplayedEvents } from './replayed-events.ts';

/** A recording that is being replayed. */
export interface Replay {
  /** Answers from the recording. Every verb @throws ReplayError when the recording has another call here */
  readonly provider: Provider;
  /** The devices of the recorded provider. */
  readonly devices: readonly DeviceInfo[];
  /** Whether the program has made all recorded calls. */
  readonly isDone: boolean;
  /** The next entry of the recording, in words. */
  readonly next: string;
}

/**
 * Opens a recording for replay. Results, arriving data and events come from the file, in the recorded order. The
 * program must make the recorded calls.
 * @throws FileError for a file that is not a recording, has another version, or is truncated
 */
export function createReplay(path: string): Replay {
  const replayer = new Replayer(path);
  return {
    provider: replayer.provider(),
    devices: replayer.reader.header.devices,
    get isDone() {
      return replayer.isDone;
    },
    get next() {
      return describe(replayer.reader.peek());
    },
  };
}

class Replayer {
  readonly reader: RecordReader;
  private readonly memory = new ReplayMemory();
  private readonly rings = new Rings();
  private readonly events = new ReplayedEvents((name, args) => this.call(name, args));
  private scheduled = false;
  private emptyPolls = 0;
  /** The first difference; after it, the program has no position in the recording. */
  private failure: ReplayError | null = null;

  constructor(path: string) {
    this.reader = new RecordReader(path);
  }

  get isDone(): boolean {
    return this.reader.peek()?.kind === 'end';
  }

  provider(): Provider {
    const { header } = this.reader;
    const verbs: Record<string, unknown> = {};
    for (const verb of VERB_NAMES) {
      if (!F.SPECIAL_VERBS.has(verb)) verbs[verb] = this.caller(verb);
    }
    if (header.peer) {
      verbs.describePeer = this.caller('describePeer');
      verbs.setPeer = this.caller('setPeer');
    }
    const provider = {
      ...verbs,
      ...this.memoryVerbs(),
      ...this.rings.verbs(this.ringVerbs() as Provider),
      ...this.eventVerbs(),
      ...this.dataVerbs(),
      ...this.timeAndPeers(),
      name: header.provider,
      threads: header.threads,
      wait: header.wait,
      cm: header.cm ? this.cm() : null,
      cmError: header.cmError,
      interceptors: ['replay'],
    };
    return Object.freeze(provider) as unknown as Provider;
  }

  /** Answers a call of the program, which must be the next call of the recording. */
  private call(name: string, args: readonly unknown[]): unknown {
    const text = toJson(args);
    const entry = this.nextCall();
    if (entry?.kind !== 'call' || entry.name !== name || entry.args !== text) {
      this.failDifferent(`${name}(${text.slice(1, -1)})`, entry);
    }
    this.advance();
    if (entry.outcome.e !== undefined) throw errorOf(entry.outcome.e);
    return entry.outcome.r;
  }

  private caller(name: string): (...args: unknown[]) => unknown {
    return (...args) => this.call(name, args);
  }

  /** The entry for the next call. Data and events before it are delivered first. */
  private nextCall(): Entry | null {
    if (this.failure !== null) throw this.failure;
    for (;;) {
      const entry = this.reader.peek();
      if (entry?.kind === 'data') this.writeData(entry);
      else if (entry?.kind === 'event') this.deliverEvent(entry);
      else return entry;
    }
  }

  private deliverNext(): void {
    for (;;) {
      const entry = this.reader.peek();
      if (entry?.kind === 'data') this.writeData(entry);
      else {
        if (entry?.kind === 'event') this.deliverEvent(entry);
        return;
      }
    }
  }

  private writeData(entry: Extract<Entry, { kind: 'data' }>): void {
    this.reader.take();
    this.memory.write(entry.mr, entry.offsetBytes, entry.bytes);
  }

  private deliverEvent(entry: Extract<Entry, { kind: 'event' }>): void {
    this.reader.take();
    this.events.deliver(entry.source, entry.args);
  }

  /** Moves to the next entry. Each event is delivered in a separate turn of the event loop. */
  private advance(): void {
    this.reader.take();
    this.scheduleEvents();
  }

  private scheduleEvents(): void {
    if (this.scheduled || !this.reader.isEventNext) return;
    this.scheduled = true;
    setImmediate(() => {
      this.scheduled = false;
      try {
        if (this.reader.isEventNext) this.deliverNext();
      } finally {
        this.scheduleEvents();
      }
    });
  }

  /** Repeats the first difference on every later call, because cleanup calls would hide it. */
  private failDifferent(made: string, entry: Entry | null): never {
    this.failure ??= new ReplayError(
      `${this.reader.path}: entry ${this.reader.taken}: the recorded program ${describe(entry)}, but this one calls ${made}`,
    );
    throw this.failure;
  }

  private memoryVerbs(): Partial<Verbs> {
    const { memory } = this;
    return {
      allocMr: (pd, lengthBytes, access) =>
        memory.own(this.call('allocMr', [pd, lengthBytes, access]) as MrInfo),
      regMr: (pd, buffer, byteOffset, lengthBytes, access) => {
        const info = this.call('regMr', [pd, buffer, byteOffset, lengthBytes, access]) as MrInfo;
        return memory.borrow(info, buffer);
      },
      regDmabufMr: (...args) => ({
        ...(this.call('regDmabufMr', args) as MrInfo),
        memory: new ArrayBuffer(0),
      }),
      reregMr: (mr, change) => {
        const info = this.call('reregMr', [mr, change]) as MrInfo;
        return memory.change(mr, info, change.translation?.memory);
      },
      deregMr: (mr) => {
        this.call('deregMr', [mr]);
        memory.drop(mr);
      },
    };
  }

  /** Replayed rings have new memory; the recording names them by handle. */
  private ringVerbs(): Pick<Verbs, 'createWrRing' | 'createWcRing' | 'destroyRing'> {
    const made = (info: unknown): RingInfo => {
      const { capacity, extBytes } = info as RingInfo;
      return { ...(info as RingInfo), memory: new ArrayBuffer(L.ringBytes(capacity, extBytes)) };
    };
    return {
      createWrRing: (...args) => made(this.call('createWrRing', args)),
      createWcRing: (...args) => made(this.call('createWcRing', args)),
      destroyRing: (ring) => {
        this.call('destroyRing', [ring]);
      },
    };
  }

  private eventVerbs(): Partial<Verbs> {
    return {
      watchCompChannel: (channel, listener) => {
        this.call('watchCompChannel', [channel, listener]);
        this.events.watchCompletions(channel, listener);
      },
      watchAsyncEvents: (context, listener) => {
        this.call('watchAsyncEvents', [context, listener]);
        this.events.watchAsync(context, listener);
      },
    };
  }

  private timeAndPeers(): Pick<Provider, 'nowNs' | 'sleep' | 'random' | 'rendezvous'> {
    const { events } = this;
    return {
      nowNs: this.caller('nowNs') as Provider['nowNs'],
      random: this.caller('random') as Provider['random'],
      sleep: (...args) => events.settledBy(this.call('sleep', args) as number, () => undefined),
      rendezvous: {
        listen: async (context, options, onWire) =>
          events.server(this.call('rendezvous.listen', [context, options]) as number, onWire),
        connect: async (context, options) =>
          events.settledBy(this.call('rendezvous.connect', [context, options]) as number, (value) =>
            events.wire(value),
          ),
      },
    };
  }

  private cm(): ConnectionManager {
    const verbs = F.CM_VERBS.map((verb) => [verb, this.caller(`cm.${verb}`)]);
    const watchEventChannel: ConnectionManager['watchEventChannel'] = (channel, listener) => {
      this.call('cm.watchEventChannel', [channel, listener]);
      this.events.watchCm(channel, listener);
    };
    return { ...Object.fromEntries(verbs), watchEventChannel };
  }

  private dataVerbs(): Partial<Verbs> {
    return {
      postSend: (qp, ring, start, count) => this.post(0, qp, ring, start, count),
      postRecv: (qp, ring, start, count) => this.post(1, qp, ring, start, count),
      postSrqRecv: (srq, ring, start, count) => this.post(2, srq, ring, start, count),
      validateSend: (qp, ring, index) => this.post(3, qp, ring, index, 1),
      pollCq: (cq, ring, start, max) => this.poll(cq, ring, start, max),
    };
  }

  private post(code: number, queue: number, handle: number, start: number, count: number): number {
    const entry = this.nextCall();
    const verb = F.POST_VERBS[code];
    // A post that threw was recorded as a call.
    if (entry?.kind === 'call' && entry.name === verb) {
      return this.call(verb, [queue, handle, start, count]) as number;
    }
    const ring = this.rings.wr(handle);
    const made = [code, queue, handle, start, count];
    if (entry?.kind !== 'post') this.failDifferent(`${verb}(${made.slice(1).join(',')})`, entry);
    const difference = postDifference(entry.words, made, ring);
    if (difference !== null) this.failDifferent(`${verb}(${made.slice(1).join(',')})${difference}`, entry);
    this.advance();
    if (ring !== undefined) {
      ring.words[L.HDR_ERRNO] = entry.words[F.POST_ERRNO];
      ring.words[L.HDR_REASON] = entry.words[F.POST_REASON];
    }
    return entry.words[F.POST_RESULT];
  }

  private poll(cq: number, handle: number, start: number, max: number): number {
    const entry = this.nextCall();
    const made = [cq, handle, start, max];
    if (entry?.kind === 'call' && entry.name === 'pollCq') return this.call('pollCq', made) as number;
    if (entry?.kind !== 'poll' || made.some((value, i) => entry.words[i] !== value >>> 0)) {
      this.failDifferent(`pollCq(${made.join(',')})`, entry);
    }
    const n = entry.words[F.POLL_COUNT];
    this.emptyPolls++;
    if (this.emptyPolls >= entry.words[F.POLL_REPEAT]) {
      this.emptyPolls = 0;
      this.advance();
    }
    const slots = entry.words.subarray(F.POLL_WORDS, F.POLL_WORDS + n * L.SLOT_WORDS);
    this.rings.wc(handle)?.words.set(slots, L.slotAt(start));
    return n;
  }
}

function describe(entry: Entry | null): string {
  if (entry === null) return 'made no further call (its process was killed there)';
  if (entry.kind === 'call') return `called ${entry.name}(${entry.args.slice(1, -1)})`;
  if (entry.kind === 'post') return `called ${describePost(entry.words)}`;
  if (entry.kind === 'poll') return `called pollCq(${entry.words.subarray(0, F.POLL_COUNT).join(',')})`;
  if (entry.kind === 'end') return 'made no further call';
  return 'received an event first';
}
