// @ts-nocheck
// Bandwidth by weight, and short messages first: tenants take turns that are as long as their weights say.
import { byTenant, Entities, NONE, Puller, plainRun, RunQueue, wireFactsOf } from 'isoverbs/kit';
import { createShim } from 'isoverbs/policies';

const PIECE_BYTES = 4096;
const SHORT_BYTES = 1024;

/** The order of the rounds: tenants, and the queue pairs of each. */
class Rounds {
  wakeNs = Number.POSITIVE_INFINITY;
  /** By tenant: its weight, and what it may still send in its turn; negative: it sent too much in the last one. */
  weights = [];
  leftBytes = [];
  /** Tenants with something to send; their queue pairs, a queue for each tenant. */
  round = new RunQueue();
  ready = new RunQueue();

  constructor(weights) {
    this.tenants = new Entities({
      keyOf: byTenant,
      onNew: (tenant, { context }) => {
        this.weights[tenant] = weights[context.tenant] ?? 1;
        this.leftBytes[tenant] = 0;
      },
    });
  }

  join(qp) {
    const tenant = this.tenants.of({ index: qp });
    this.ready.push(qp, tenant);
    this.round.push(tenant);
  }

  leave(qp) {
    const tenant = this.tenants.of({ index: qp });
    this.ready.remove(qp);
    if (this.ready.first(tenant) === NONE) this.round.remove(tenant);
  }

  next() {
    let tenant = this.round.first();
    while (tenant !== NONE && this.leftBytes[tenant] <= 0) {
      this.leftBytes[tenant] += PIECE_BYTES * this.weights[tenant];
      this.round.push(this.round.shift());
      tenant = this.round.first();
    }
    return tenant === NONE ? NONE : this.ready.first(tenant);
  }

  charge(qp, wireBytes) {
    const tenant = this.tenants.of({ index: qp });
    this.leftBytes[tenant] -= wireBytes;
    this.ready.push(this.ready.shift(tenant), tenant);
  }
}

export class WeightedRounds {
  name = 'weighted-rounds';
  needs = { wait: 'none' };
  slots = 16;
  crossChannel = true;
  /** By device: its order, and the puller that follows it. */
  devices = new Map();
  /** By queue pair. */
  of = [];
  pullers = [];

  /** `weights` is { a: 3 } or, on a command line, a:3/b:1. The window is a round trip of the link, and two pieces. */
  constructor({ weights = {}, windowBytes = 24_000 } = {}) {
    const isText = typeof weights === 'string';
    this.weights = isText ? Object.fromEntries(weights.split('/').map((one) => one.split(':'))) : weights;
    this.windowBytes = windowBytes;
    for (const [tenant, weight] of Object.entries(this.weights)) {
      if (!(weight > 0)) throw new Error(`weighted-rounds: the weight of ${tenant} must be above 0`);
    }
    if (!(windowBytes > 0)) throw new Error('weighted-rounds: windowBytes must be above 0');
  }

  setup({ context }) {
    if (this.devices.has(context.device)) return;
    const order = new Rounds(this.weights);
    const [wire, token] = [wireFactsOf(context.nic), this.pullers.length];
    const puller = new Puller({ order, wire, windowBytes: this.windowBytes, pieceBytes: PIECE_BYTES, token });
    this.pullers.push(puller);
    this.devices.set(context.device, { order, puller });
  }

  onQp(qp, change, out) {
    if (change === 'created') {
      this.of[qp.index] = this.devices.get(qp.context.device);
      this.of[qp.index].order.tenants.join(qp);
    }
    const { order, puller } = this.of[qp.index];
    puller.onQp(qp, change, out);
    if (change === 'destroyed') order.tenants.leave(qp);
  }

  onload(_qp, words, start, count) {
    return plainRun(words, start, count, SHORT_BYTES);
  }

  feed(qp, out) {
    this.of[qp.index].puller.enlist(qp, out);
  }

  onCompleted(qp, _count, out) {
    this.of[qp.index].puller.onCompleted(qp, out);
  }

  onTimer(token, out) {
    this.pullers[token].onTimer(out);
  }
}

/** For configuration files, and for drivers in other threads. */
export default (options) => new WeightedRounds(options);

/** An interceptor for the option `policy` of openDevice(). */
export const weightedRounds = (options) => createShim(() => new WeightedRounds(options));
