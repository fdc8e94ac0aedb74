/** Passes calls to the device and records them with their results. */
import * as L from '../../verbs/layout.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { MrInfo } from '../../verbs/types.ts';
import { VERB_NAMES, type Verbs } from '../../verbs/verbs.ts';
import { Rings } from '../rings.ts';
import * as F from './format.ts';
import { Regions } from './regions.ts';
import type { RecordWriter } from './writer.ts';

type Call = (...args: never[]) => unknown;

export class Recorder {
  private readonly next: Provider;
  private readonly writer: RecordWriter;
  private readonly rings = new Rings();
  private readonly regions: Regions | null;
  private tickets = 0;

  constructor(next: Provider, writer: RecordWriter, data: boolean) {
    this.next = next;
    this.writer = writer;
    this.regions = data ? new Regions() : null;
  }

  /** Number of the next promised result. */
  get nextTicket(): number {
    return this.tickets + 1;
  }

  verbs(): Partial<Provider> {
    const { next } = this;
    const verbs: Record<string, unknown> = {};
    for (const verb of VERB_NAMES) {
      if (!F.SPECIAL_VERBS.has(verb)) verbs[verb] = this.wrapped(verb, next[verb]);
    }
    if (next.describePeer !== undefined) verbs.describePeer = this.wrapped('describePeer', next.describePeer);
    if (next.setPeer !== undefined) verbs.setPeer = this.wrapped('setPeer', next.setPeer);
    return {
      ...verbs,
      ...this.memoryVerbs(),
      ...this.ringVerbs(),
      ...this.eventVerbs(),
      ...this.dataVerbs(),
    };
  }

  /** Records an event before the program gets it. */
  event(source: F.EventSource, args: readonly unknown[]): void {
    this.recordNewData();
    this.writer.event(source, args);
  }

  /** Makes a call and records its outcome. */
  run<T>(name: string, args: readonly unknown[], call: () => T): T {
    try {
      const result = call();
      this.writer.call(name, args, { r: result });
      return result;
    } catch (error) {
      this.writer.call(name, args, { e: F.errorFields(error) });
      throw error;
    }
  }

  /** Returns `call` with recording. `fixed` replaces the recorded arguments. */
  wrapped(name: string, call: Call, fixed?: readonly unknown[]): Call {
    return (...args: never[]) => this.run(name, fixed ?? args, () => call(...args));
  }

  /** Records a call whose result arrives later, as an event. `kept` extracts the part to record. */
  promised<T>(
    name: string,
    args: readonly unknown[],
    call: () => Promise<T>,
    kept: (value: T) => unknown,
  ): Promise<T> {
    const ticket = ++this.tickets;
    this.writer.call(name, args, { r: ticket });
    return call().then(
      (value) => {
        this.event('settled', [ticket, kept(value)]);
        return value;
      },
      (error) => {
        this.event('settled', [ticket, null, F.errorFields(error)]);
        throw error;
      },
    );
  }

  private memoryVerbs(): Partial<Verbs> {
    const { next, regions } = this;
    const known = (name: string, call: (...args: never[]) => MrInfo) => {
      const wrapped = this.wrapped(name, call);
      return (...args: never[]) => {
        const info = wrapped(...args) as MrInfo;
        regions?.add(info);
        return info;
      };
    };
    return {
      allocMr: known('allocMr', next.allocMr) as Verbs['allocMr'],
      regMr: known('regMr', next.regMr) as Verbs['regMr'],
      regDmabufMr: this.wrapped('regDmabufMr', next.regDmabufMr) as Verbs['regDmabufMr'],
      reregMr: known('reregMr', next.reregMr) as Verbs['reregMr'],
      deregMr: (mr) => {
        this.run('deregMr', [mr], () => next.deregMr(mr));
        regions?.remove(mr);
      },
    };
  }

  private ringVerbs(): Partial<Verbs> {
    const rings = this.rings.verbs(this.next);
    return {
      createWrRing: this.wrapped('createWrRing', rings.createWrRing) as Verbs['createWrRing'],
      createWcRing: this.wrapped('createWcRing', rings.createWcRing) as Verbs['createWcRing'],
      destroyRing: this.wrapped('destroyRing', rings.destroyRing) as Verbs['destroyRing'],
    };
  }

  private eventVerbs(): Partial<Verbs> {
    const { next } = this;
    return {
      watchCompChannel: (channel, listener) => {
        const recorded = (cq: number) => {
          this.event('completion', [channel, cq]);
          listener?.(cq);
        };
        const passed = typeof listener === 'function' ? recorded : listener;
        this.run('watchCompChannel', [channel, listener], () => next.watchCompChannel(channel, passed));
      },
      watchAsyncEvents: (context, listener) => {
        const recorded = (event: number, element: number) => {
          this.event('async', [context, event, element]);
          listener?.(event, element);
        };
        const passed = typeof listener === 'function' ? recorded : listener;
        this.run('watchAsyncEvents', [context, listener], () => next.watchAsyncEvents(context, passed));
      },
    };
  }

  private dataVerbs(): Partial<Verbs> {
    const { next } = this;
    const post = (code: number) => {
      const verb = next[F.POST_VERBS[code]] as (...args: number[]) => number;
      return (queue: number, ring: number, start: number, count: number) =>
        this.post(code, queue, ring, start, count, verb);
    };
    const validate = post(3);
    return {
      postSend: post(0),
      postRecv: post(1),
      postSrqRecv: post(2),
      validateSend: (qp, ring, index) => validate(qp, ring, index, 1),
      pollCq: (cq, ring, start, max) => this.poll(cq, ring, start, max),
    };
  }

  private post(
    code: number,
    queue: number,
    handle: number,
    start: number,
    count: number,
    verb: (...args: number[]) => number,
  ): number {
    let result: number;
    try {
      result = verb(queue, handle, start, count);
    } catch (error) {
      this.writer.call(F.POST_VERBS[code], [queue, handle, start, count], { e: F.errorFields(error) });
      throw error;
    }
    const ring = this.rings.wr(handle);
    const slots = ring === undefined ? 0 : slotsInRing(start, count, ring.info.capacity);
    const extWords = ring?.extWords ?? 0;
    const words = new Uint32Array(F.POST_WORDS + slots * (L.SLOT_WORDS + extWords));
    words.set([code, queue, handle, start, count, result]);
    words[F.POST_SLOTS] = slots;
    words[F.POST_EXT_WORDS] = extWords;
    if (ring !== undefined) {
      words[F.POST_ERRNO] = ring.words[L.HDR_ERRNO];
      words[F.POST_REASON] = ring.words[L.HDR_REASON];
      ring.copySlots(start, slots, words, F.POST_WORDS);
      if (extWords > 0) ring.copyExts(start, slots, words, F.POST_WORDS + slots * L.SLOT_WORDS);
    }
    this.writer.post(words);
    return result;
  }

  private poll(cq: number, handle: number, start: number, max: number): number {
    let n: number;
    try {
      n = this.next.pollCq(cq, handle, start, max);
    } catch (error) {
      this.writer.call('pollCq', [cq, handle, start, max], { e: F.errorFields(error) });
      throw error;
    }
    if (n > 0) this.recordNewData();
    const words = new Uint32Array(F.POLL_WORDS + n * L.SLOT_WORDS);
    words.set([cq, handle, start, max, n, 1]);
    this.rings.wc(handle)?.copySlots(start, n, words, F.POLL_WORDS);
    this.writer.poll(words);
    return n;
  }

  /** Records changed memory ahead of the event or completion that announces it. */
  private recordNewData(): void {
    this.regions?.changes((mr, offsetBytes, bytes) => this.writer.data(mr, offsetBytes, bytes));
  }
}

/** Number of these slots that exist, since a caller may name slots outside the ring. */
export function slotsInRing(start: number, count: number, capacity: number): number {
  return start >= 0 && start < capacity && count > 0 ? Math.min(count, capacity - start) : 0;
}
