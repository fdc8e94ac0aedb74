/** The device as the worker's shim sees it: either called directly, or through the application's thread. */
import { createRdmaCoreProvider } from '../../providers/rdma-core/index.ts';
import { LABEL_BITS } from '../../verbs/labels.ts';
import type { NicFacts } from '../../verbs/nic.ts';
import type { Provider, SleepKeeps } from '../../verbs/provider.ts';
import type { AsyncListener, CompletionListener, RingInfo } from '../../verbs/types.ts';
import { VERB_NAMES, type Verbs } from '../../verbs/verbs.ts';
import { Deadlines } from './deadlines.ts';
import * as P from './protocol.ts';
import type { Requests } from './requests.ts';

/** The reactions to device events in this thread. */
export interface RemoteHost {
  /** A listener has run, so there may be work. */
  resume(): void;
}

type ListenerOf<T> = Map<number, T>;

export interface RemoteDevice {
  provider: Provider;
  completionListeners: ListenerOf<CompletionListener>;
  asyncListeners: ListenerOf<AsyncListener>;
  /** Deadlines of the shim's timers on the clock of the device; null: the application's thread keeps them. */
  deadlines: Deadlines | null;
  /** A sleep requested from the application's thread has ended. */
  slept(token: number): void;
  /** All contexts are closed; releases what belongs to none of them. */
  close(): void;
}

/** The same provider, with a `close` that destroys the rings that are still there. */
function withRings(provider: Provider): { provider: Provider; close(): void } {
  const open = new Set<number>();
  const added = (info: RingInfo): RingInfo => {
    open.add(info.handle);
    return info;
  };
  const destroyRing = (ring: number) => {
    provider.destroyRing(ring);
    open.delete(ring);
  };
  const rings = {
    createWrRing: (capacity: number, sges: number, inlineBytes: number) =>
      added(provider.createWrRing(capacity, sges, inlineBytes)),
    createWcRing: (capacity: number) => added(provider.createWcRing(capacity)),
    destroyRing,
  };
  return { provider: { ...provider, ...rings }, close: () => open.forEach(destroyRing) };
}

/**
 * Verbs whose objects must belong to the application's env, because objects end with the env that created
 * them; and verbs of labels and groups, which are kept where the context was opened.
 */
const CREATED_THERE = [
  'openDevice',
  'setLabels',
  'createGroup',
  'setGroup',
  'destroyGroup',
  'allocPd',
  'createCompChannel',
  'createCq',
  'createQp',
] as const;

/**
 * The device of a provider that any thread may call: only creating objects goes through the application's
 * thread.
 */
export function directRemote(requests: Requests, host: RemoteHost): RemoteDevice {
  const real = createRdmaCoreProvider();
  const deadlines = new Deadlines(() => real.nowNs(0));
  const made = CREATED_THERE.map((verb) => [verb, (...args: unknown[]) => requests.call(verb, args)]);
  const provider: Provider = {
    ...real,
    ...(Object.fromEntries(made) as Partial<Verbs>),
    modifyQp: (qp, attr, mask) => {
      if ((mask & LABEL_BITS) === 0) real.modifyQp(qp, attr, mask);
      else requests.call('modifyQp', [qp, attr, mask]);
    },
    // Validated already: the front has asked the same device, and posting validates once more.
    validateSend: () => 0,
    watchCompChannel: (channel, listener) =>
      real.watchCompChannel(
        channel,
        listener &&
          ((cq) => {
            host.resume();
            listener(cq);
          }),
      ),
    watchAsyncEvents: (context, listener) =>
      real.watchAsyncEvents(
        context,
        listener &&
          ((event, element) => {
            host.resume();
            listener(event, element);
          }),
      ),
    createAlarm: (_context, keeps, listener) => deadlines.create(keeps, listener),
    sleep: (context, delayNs, keeps) => real.sleep(context, delayNs, keeps).finally(() => host.resume()),
  };
  const listeners = { completionListeners: new Map(), asyncListeners: new Map() };
  return { ...withRings(provider), ...listeners, deadlines, slept: () => {} };
}

/** The device of a provider that only the application's thread may call: every verb goes through that thread. */
export function sentBackRemote(requests: Requests, { name, wait }: P.WorkerSetup['provider']): RemoteDevice {
  const completionListeners: ListenerOf<CompletionListener> = new Map();
  const asyncListeners: ListenerOf<AsyncListener> = new Map();
  const sleepers = new Map<number, () => void>();
  let token = 0;
  const sent = VERB_NAMES.map((verb) => [verb, (...args: unknown[]) => requests.call(verb, args)]);
  const watch = <T>(verb: string, all: ListenerOf<T>, of: number, listener: T | null) => {
    if (listener === null) all.delete(of);
    else all.set(of, listener);
    requests.call(verb, [of, listener === null ? null : true]);
  };
  const provider = {
    ...(Object.fromEntries(sent) as unknown as Verbs),
    name,
    wait,
    threads: 'one' as const,
    interceptors: [],
    watchCompChannel: (channel: number, listener: CompletionListener | null) =>
      watch('watchCompChannel', completionListeners, channel, listener),
    watchAsyncEvents: (context: number, listener: AsyncListener | null) =>
      watch('watchAsyncEvents', asyncListeners, context, listener),
    postSend: (qp: number, ring: number, start: number, count: number) =>
      requests.callWords(P.REQUEST_POST_SEND, qp, ring, start, count),
    postRecv: (qp: number, ring: number, start: number, count: number) =>
      requests.callWords(P.REQUEST_POST_RECV, qp, ring, start, count),
    validateSend: (qp: number, ring: number, index: number) =>
      requests.callWords(P.REQUEST_VALIDATE_SEND, qp, ring, index, 0),
    pollCq: (cq: number, ring: number, start: number, max: number) =>
      requests.callWords(P.REQUEST_POLL_CQ, cq, ring, start, max),
    describeNic: (context: number) => requests.call('describeNic', [context]) as NicFacts | null,
    nowNs: (context: number) => requests.call('nowNs', [context]) as number,
    sleep: (context: number, delayNs: number, keeps?: SleepKeeps) =>
      new Promise<void>((resolve) => {
        token = (token + 1) | 0;
        sleepers.set(token, resolve);
        requests.call('sleep', [context, delayNs, token, keeps]);
      }),
  };
  const slept = (token: number) => {
    sleepers.get(token)?.();
    sleepers.delete(token);
  };
  // A shim needs only the verbs and the time; the connection manager stays with the application.
  return {
    ...withRings(provider as unknown as Provider),
    completionListeners,
    asyncListeners,
    deadlines: null,
    slept,
  };
}
