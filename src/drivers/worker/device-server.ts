/** Serves the worker from the application's thread: executes verbs of the device in the thread that owns it. */

import { receiveMessageOnPort } from 'node:worker_threads';
import * as L from '../../verbs/layout.ts';
import type { Provider, SleepKeeps } from '../../verbs/provider.ts';
import type { RingInfo } from '../../verbs/types.ts';
import type { WorkerLink } from './link.ts';
import * as P from './protocol.ts';
import { replyOf } from './reply.ts';

/**
 * A ring shared with the worker, and the device's own ring of the same shape, because simulated devices do
 * not read shared memory.
 */
interface Twin {
  readonly info: RingInfo;
  readonly real: Uint32Array;
  readonly shared: Uint32Array;
}

type OnEvent = (of: number, event: 'completion' | 'async' | 'slept', args: number[]) => void;

export class DeviceServer {
  private readonly next: Provider;
  link: WorkerLink;
  private readonly onEvent: OnEvent;
  private readonly twins = new Map<number, Twin>();
  /** By context: completion channels that the shim created for itself or for the application. */
  private readonly channels = new Map<number, number[]>();

  constructor(next: Provider, link: WorkerLink, onEvent: OnEvent) {
    this.next = next;
    this.link = link;
    this.onEvent = onEvent;
  }

  /** Executes the request that is in the control words or on the port, and answers it. */
  serve(): void {
    const { control, requests } = this.link;
    const kind = control[P.REQUEST_KIND];
    if (kind === P.REQUEST_MESSAGE) {
      const message: P.Request | undefined = receiveMessageOnPort(requests)?.message;
      if (message === undefined) throw new Error('the worker announced a request but sent no message');
      const { verb, args } = message;
      requests.postMessage(replyOf(() => this.run(verb, args)));
      return;
    }
    const reply = replyOf(() => this.hot(kind));
    control[P.FAILED] = 'error' in reply ? 1 : 0;
    if ('error' in reply) requests.postMessage(reply);
    else control[P.RESULT] = reply.value as number;
  }

  /** After the worker's death, channels that it created would prevent the context from being closed. */
  closeChannels(context: number): void {
    for (const channel of this.channels.get(context) ?? []) {
      try {
        this.next.destroyCompChannel(channel);
      } catch {
        // The object is already closed.
      }
    }
    this.channels.delete(context);
  }

  private hot(kind: number): number {
    const { control } = this.link;
    const [object, ring, start, count] = [P.REQUEST_A, P.REQUEST_B, P.REQUEST_C, P.REQUEST_D].map(
      (i) => control[i],
    );
    const twin = this.twins.get(ring);
    if (twin === undefined) throw new Error(`the worker named ring ${ring}, which does not exist`);
    const { real, shared } = twin;
    if (kind === P.REQUEST_POLL_CQ) {
      const n = this.next.pollCq(object, ring, start, count);
      const at = L.slotAt(start);
      shared.set(real.subarray(at, at + n * L.SLOT_WORDS), at);
      return n;
    }
    this.copySlots(twin, start, kind === P.REQUEST_VALIDATE_SEND ? 1 : count);
    const result =
      kind === P.REQUEST_POST_SEND
        ? this.next.postSend(object, ring, start, count)
        : kind === P.REQUEST_POST_RECV
          ? this.next.postRecv(object, ring, start, count)
          : this.next.validateSend(object, ring, start);
    shared[L.HDR_ERRNO] = real[L.HDR_ERRNO];
    shared[L.HDR_REASON] = real[L.HDR_REASON];
    return result;
  }

  private copySlots({ info, real, shared }: Twin, start: number, count: number): void {
    const at = L.slotAt(start);
    real.set(shared.subarray(at, at + count * L.SLOT_WORDS), at);
    const ext = L.extAt(start, info.capacity, info.extBytes);
    const extWords = count * (info.extBytes >> 2);
    real.set(shared.subarray(ext, ext + extWords), ext);
  }

  private run(verb: string, args: unknown[]): unknown {
    const { next } = this;
    const [of, second] = args as [number, number];
    switch (verb) {
      case 'createWrRing':
      case 'createWcRing':
        return this.ring((next[verb] as (...args: unknown[]) => RingInfo)(...args));
      case 'allocMr': {
        // Memory that both threads can access.
        const [pd, lengthBytes, access] = args as [number, number, number];
        return next.regMr(pd, new SharedArrayBuffer(lengthBytes), 0, lengthBytes, access);
      }
      case 'destroyRing':
        next.destroyRing(of);
        this.twins.delete(of);
        return undefined;
      case 'createCompChannel': {
        const channel = next.createCompChannel(of);
        this.channels.set(of, [...(this.channels.get(of) ?? []), channel]);
        return channel;
      }
      case 'watchCompChannel':
        return next.watchCompChannel(
          of,
          args[1] === null ? null : (cq) => this.onEvent(of, 'completion', [cq]),
        );
      case 'watchAsyncEvents':
        return next.watchAsyncEvents(
          of,
          args[1] === null ? null : (event, element) => this.onEvent(of, 'async', [event, element]),
        );
      case 'describeNic':
        return next.describeNic?.(of) ?? null;
      case 'sleep':
        void next
          .sleep(of, second, args[3] as SleepKeeps)
          .then(() => this.onEvent(args[2] as number, 'slept', []));
        return undefined;
      default:
        return (next[verb as keyof Provider] as (...args: unknown[]) => unknown)(...args);
    }
  }

  private ring(info: RingInfo): RingInfo {
    const memory = new SharedArrayBuffer(info.memory.byteLength);
    this.twins.set(info.handle, {
      info,
      real: new Uint32Array(info.memory),
      shared: new Uint32Array(memory),
    });
    return { ...info, memory: memory as unknown as ArrayBuffer };
  }
}
