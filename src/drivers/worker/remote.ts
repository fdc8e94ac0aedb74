/** The device as the worker's shim sees it: called there, or sent back to the application's thread. */
import { createRdmaCoreProvider } from '../../providers/rdma-core/index.ts';
import type { NicFacts } from '../../verbs/nic.ts';
import {
  type AsyncListener,
  type CompletionListener,
  type Provider,
  type RingInfo,
  type SleepKeeps,
  VERB_NAMES,
  type Verbs,
} from '../../verbs/provider.ts';
import * as P from './protocol.ts';
import type { Requests } from './requests.ts';

/** What events of the device in this thread lead to. */
export interface RemoteHost {
  /** A listener has run: there may be work. */
  stir(): void;
}

type ListenerOf<T> = Map<number, T>;

export interface Remote {
  provider: Provider;
  completionListeners: ListenerOf<CompletionListener>;
  asyncListeners: ListenerOf<AsyncListener>;
  /** A sleep that the application's thread was asked for is over. */
  slept(token: number): void;
  /** All contexts are closed: gives back what belongs to none. */
  close(): void;
}

/** The same provider, whose rings that nobody destroyed are destroyed by `close`. */
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

/** What the application's env must own: objects end with the env that made them. */
const MADE_THERE = ['openDevice', 'allocPd', 'createCompChannel', 'createCq', 'createQp'] as const;

/** The device of a provider that any thread may call: only what makes objects goes back. */
export function directRemote(requests: Requests, host: RemoteHost): Remote {
  const real = createRdmaCoreProvider();
  const made = MADE_THERE.map((verb) => [verb, (...args: unknown[]) => requests.ask(verb, args)]);
  const provider: Provider = {
    ...real,
    ...(Object.fromEntries(made) as Partial<Verbs>),
    // The front has asked the same device; and what is posted there is looked at once more.
    validateSend: () => 0,
    watchCompChannel: (channel, listener) =>
      real.watchCompChannel(
        channel,
        listener &&
          ((cq) => {
            host.stir();
            listener(cq);
          }),
      ),
    watchAsyncEvents: (context, listener) =>
      real.watchAsyncEvents(
        context,
        listener &&
          ((event, element) => {
            host.stir();
            listener(event, element);
          }),
      ),
    sleep: (context, delayNs, keeps) => real.sleep(context, delayNs, keeps).finally(() => host.stir()),
  };
  const listeners = { completionListeners: new Map(), asyncListeners: new Map() };
  return { ...withRings(provider), ...listeners, slept: () => {} };
}

/** The device of a provider that only the application's thread may call: everything goes back. */
export function sentBackRemote(requests: Requests, { name, wait }: P.WorkerSetup['provider']): Remote {
  const completionListeners: ListenerOf<CompletionListener> = new Map();
  const asyncListeners: ListenerOf<AsyncListener> = new Map();
  const sleepers = new Map<number, () => void>();
  let token = 0;
  const sent = VERB_NAMES.map((verb) => [verb, (...args: unknown[]) => requests.ask(verb, args)]);
  const watch = <T>(verb: string, all: ListenerOf<T>, of: number, listener: T | null) => {
    if (listener === null) all.delete(of);
    else all.set(of, listener);
    requests.ask(verb, [of, listener === null ? null : true]);
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
      requests.askWords(P.REQUEST_POST_SEND, qp, ring, start, count),
    postRecv: (qp: number, ring: number, start: number, count: number) =>
      requests.askWords(P.REQUEST_POST_RECV, qp, ring, start, count),
    validateSend: (qp: number, ring: number, index: number) =>
      requests.askWords(P.REQUEST_VALIDATE_SEND, qp, ring, index, 0),
    pollCq: (cq: number, ring: number, start: number, max: number) =>
      requests.askWords(P.REQUEST_POLL_CQ, cq, ring, start, max),
    describeNic: (context: number) => requests.ask('describeNic', [context]) as NicFacts | null,
    nowNs: (context: number) => requests.ask('nowNs', [context]) as number,
    sleep: (context: number, delayNs: number, keeps?: SleepKeeps) =>
      new Promise<void>((resolve) => {
        token = (token + 1) | 0;
        sleepers.set(token, resolve);
        requests.ask('sleep', [context, delayNs, token, keeps]);
      }),
  };
  const slept = (token: number) => {
    sleepers.get(token)?.();
    sleepers.delete(token);
  };
  // A shim asks for verbs and the time; how connections are made is the application's own business.
  return { ...withRings(provider as unknown as Provider), completionListeners, asyncListeners, slept };
}
