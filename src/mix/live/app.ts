/** One application on real devices, in one thread: both of its ends, and the loop that posts and polls for them. */
import { type CompletionQueue, Context, type ProtectionDomain, type QueuePair } from '../../objects/index.ts';
import { RandomStream } from '../../sim/kernel/random.ts';
import { ISO_TRAFFIC_UNDECLARED } from '../../verbs/constants.ts';
import { TRAFFIC_NAMES } from '../../verbs/labels.ts';
import type { PolicyState, Provider } from '../../verbs/provider.ts';
import { brokenInvariants } from '../invariants.ts';
import type { App } from '../resolve.ts';
import type { AppResult } from '../result.ts';
import { resultOf } from '../run.ts';
import type { Clock } from './clock.ts';
import { LiveConnection, LiveMeter } from './connection.ts';
import { prevailing } from './prevailing.ts';
import { type LiveSpec, type MessageBuffers, messageBuffersOf } from './spec.ts';

/** Each application starts at a random time within this interval. */
const PHASE_NS = 100_000;
/** How long outstanding requests may take to complete after the end of the run. */
export const DRAIN_TIMEOUT_NS = 20e9;
/** How often the policy's states are read in the measured time; the threads of others may wait for a CPU at any moment. */
const STATE_SAMPLES = 8;
const TYPES = { rc: 'RC', uc: 'UC', ud: 'UD' } as const;
const ACCESS = { remoteWrite: true, remoteRead: true, remoteAtomic: true };

/** The results of one application, and the prevailing state of the policy in its thread. */
export interface LiveOutcome {
  readonly result: AppResult;
  readonly verified: number;
  readonly broken: readonly string[];
  readonly states: readonly PolicyState[];
}

export class LiveApp {
  private readonly app: App;
  private readonly provider: Provider;
  private readonly spec: LiveSpec;
  private readonly clock: Clock;
  private readonly buffers: MessageBuffers;
  private readonly meter: LiveMeter;
  private readonly contexts: Context[] = [];
  private readonly connections: LiveConnection[];

  constructor(app: App, provider: Provider, spec: LiveSpec, clock: Clock) {
    this.app = app;
    this.provider = provider;
    this.spec = spec;
    this.clock = clock;
    this.buffers = messageBuffersOf(app);
    this.meter = new LiveMeter(Math.max(spec.warmupNs, app.startNs), Math.min(spec.durationNs, app.stopNs));
    this.connections = this.connect();
  }

  private connect(): LiveConnection[] {
    const { app, buffers, clock, meter, spec } = this;
    const isPulled = app.op === 'read' || app.op === 'atomic';
    const fromBytes = app.qps * buffers.from * buffers.fromBytes;
    const toBytes = app.qps * buffers.to * buffers.toBytes;
    const [here, there] = [app.host, app.to].map((host) => this.open(host).allocPd());
    const local = here.allocate(isPulled ? toBytes : fromBytes, { access: ACCESS });
    const remote = there.allocate(isPulled ? fromBytes : toBytes, { access: ACCESS });
    const idle = [here, there].map(({ context }) => context.createCq({ cqe: 1, channel: null }));
    return Array.from({ length: app.qps }, (_, index) => {
      const sendCq = here.context.createCq({ cqe: buffers.from, channel: null });
      const qp = this.createQp(here, { sendCq, recvCq: idle[0], sends: buffers.from, receives: 1 });
      const receives = app.op === 'send' ? buffers.to : 1;
      const recvCq = app.op === 'send' ? there.context.createCq({ cqe: receives, channel: null }) : idle[1];
      const peer = this.createQp(there, { sendCq: idle[1], recvCq, sends: 1, receives });
      const ah = this.connectPair(here, qp, peer);
      const random = {
        thinkTimes: new RandomStream(spec.seed, 'think', index),
        sizes: new RandomStream(0, 'size', index),
      };
      const ends = { here: here.context, there: there.context, local, remote, qp, peer, ah };
      return new LiveConnection({ app, index, buffers, clock, meter, ...random, ...ends });
    });
  }

  private open(host: number): Context {
    const { devices } = this.spec;
    const { tenant, weight, qpLabels, groupWeight } = this.app;
    const context = new Context(this.provider, devices[host % devices.length], {
      tenant,
      labels: { weight },
      ...(groupWeight !== null && { groups: { [qpLabels.group ?? '']: groupWeight } }),
    });
    this.contexts.push(context);
    return context;
  }

  private createQp(
    pd: ProtectionDomain,
    o: { sendCq: CompletionQueue; recvCq: CompletionQueue; sends: number; receives: number },
  ): QueuePair {
    const { app } = this;
    const { traffic = ISO_TRAFFIC_UNDECLARED, ...labels } = app.qpLabels;
    return pd.createQp({
      type: TYPES[app.transport],
      sendCq: o.sendCq,
      recvCq: o.recvCq,
      cap: {
        maxSendWr: o.sends,
        maxRecvWr: o.receives,
        maxSendSge: 1,
        maxRecvSge: 1,
        maxInlineData: app.inline ? app.maxBytes : 0,
      },
      labels: { ...labels, traffic: TRAFFIC_NAMES[traffic] },
    });
  }

  /** Takes both queue pairs to RTS. Returns the address handle of the peer for datagrams, otherwise 0. */
  private connectPair(pd: ProtectionDomain, qp: QueuePair, peer: QueuePair): number {
    const { app } = this;
    if (app.rateGbps > 0) qp.rateLimit({ rateLimitKbps: Math.max(1, Math.round(app.rateGbps * 1e6)) });
    if (app.transport === 'ud') {
      qp.start();
      peer.start();
      return pd.createAhTo(peer.endpoint()).handle;
    }
    // Some devices retry forever at 7, so on a machine with fewer cores than threads no connection times out.
    const options = { sl: app.class, minRnrTimer: 1, retryCnt: 7, access: ACCESS };
    const ends = [qp.endpoint(), peer.endpoint()];
    qp.connectTo(ends[1], options);
    peer.connectTo(ends[0], options);
    return 0;
  }

  /** Posts and polls from time 0 to the end, then waits for outstanding requests. Blocks the thread. */
  run(): LiveOutcome {
    const { app, spec, connections, meter } = this;
    this.pollUntil(app.startNs + new RandomStream(spec.seed, 'phase').next() * PHASE_NS);
    for (const connection of connections) connection.start();
    const states = this.measure(Math.max(spec.warmupNs, app.startNs), Math.min(app.stopNs, spec.durationNs));
    for (const connection of connections) connection.stop();
    this.drain(spec.durationNs + DRAIN_TIMEOUT_NS);
    for (const connection of connections) connection.verifyAll();
    const lost = meter.outstanding > 0 ? [`${app.name}: ${meter.outstanding} requests never completed`] : [];
    const wrong = meter.mismatches.map((sentence) => `${app.name}: ${sentence}`);
    const broken = [...lost, ...wrong, ...brokenInvariants(app, meter)];
    return { result: resultOf(app, meter), verified: meter.verified, broken, states };
  }

  /** Polls until the end of the measured time. Returns the prevailing states of the policy in it. */
  private measure(fromNs: number, toNs: number): PolicyState[] {
    const samples = Array.from({ length: STATE_SAMPLES }, (_, i) => {
      this.pollUntil(fromNs + ((toNs - fromNs) * (i + 1)) / STATE_SAMPLES);
      return this.provider.policyStates?.() ?? [];
    });
    return prevailing(samples);
  }

  private pollUntil(timeNs: number): void {
    const { clock, connections } = this;
    for (clock.read(); clock.now[0] < timeNs; clock.read()) {
      for (const connection of connections) connection.poll();
    }
  }

  /** Polls until nothing is outstanding, or until `timeNs`. */
  private drain(timeNs: number): void {
    const { clock, connections } = this;
    const isBusy = () => connections.some(({ outstanding }) => outstanding > 0);
    for (clock.read(); clock.now[0] < timeNs && isBusy(); clock.read()) {
      for (const connection of connections) connection.poll();
    }
  }

  close(): void {
    for (const context of this.contexts) context.close();
  }
}
