// @ts-nocheck
// Weighted shares by demand, with a ruler for the coordinators of processes, workers and the daemon: a tenant that needs
// less than its share of the link gets what it needs, and the others divide the rest by weight.
import { BLOCKED, Bucket, NONE, RunQueue, step, wireBytes, wireFactsOf } from 'isoverbs/kit';
import { createCoordinatedShim, TENANT } from 'isoverbs/policies';
import { z } from 'zod';

// A context that waits for its rate demands all it can get, and any other one GROWTH times what it sends.
const [PIECE_BYTES, ALL_GBPS, GROWTH] = [16384, 1e5, 1.1];
const column = (name, more) => ({ name, unit: 'Gbit/s', min: 0, max: ALL_GBPS, default: 0, ...more });
const sum = (numbers) => numbers.reduce((total, one) => total + one, 0);

/** What each tenant of a device gets, by the demands of its members. */
class Shares {
  constructor(members) {
    this.members = members;
    this.demand = members.report('demandGbps');
    this.rate = members.grant('rateGbps');
    this.weight = members.report('weight', TENANT);
  }

  tenant(index, nowNs) {
    const { tenants } = this.members;
    const [first, end] = [tenants.firstOf(index), tenants.firstOf(index + 1)];
    const members = Array.from({ length: end - first }, (_, i) => tenants.memberAt(first + i));
    // A member that gives no sign of life demands nothing.
    const demands = members.map((one) => (this.members.isSilent(one, nowNs) ? 0 : this.demand.of(one)));
    const active = Math.max(1, demands.filter((demand) => demand > 0).length);
    return { members, active, weight: this.weight.of(members[0]), demand: sum(demands), gbps: 0 };
  }

  decide({ linkGbps }, nowNs, changed) {
    const { tenants } = this.members;
    tenants.group();
    const all = Array.from({ length: tenants.length }, (_, index) => this.tenant(index, nowNs));
    const totalWeight = sum(all.map(({ weight }) => weight));
    let [leftGbps, leftWeight] = [linkGbps || this.members.linkGbps || ALL_GBPS, totalWeight];
    // The smallest part of its share first: what a tenant leaves belongs to the next ones, and in the end to all.
    for (const one of all.sort((a, b) => a.demand / a.weight - b.demand / b.weight)) {
      one.gbps = Math.min(one.demand, (leftGbps * one.weight) / leftWeight);
      leftGbps -= one.gbps;
      leftWeight -= one.weight;
    }
    for (const { members, active, weight, gbps } of all) {
      const each = (gbps + (leftGbps * weight) / totalWeight) / active;
      for (const id of members) if (this.rate.set(id, each) && this.demand.of(id) === ALL_GBPS) changed(id);
    }
  }

  /** What `isoverbs tenants` shows. */
  describe(index) {
    const { members, active, demand } = this.tenant(index, 0);
    return { rateGbps: active * this.rate.of(members[0]), demandGbps: Math.min(demand, ALL_GBPS) };
  }
}

/** What the policy brings to coordinators: columns, rules made of its options, and what decides by them. */
const demandShares = {
  name: 'demand-shares',
  reports: [column('demandGbps')],
  grants: [column('rateGbps', { alone: ALL_GBPS })],
  rules: z.object({ linkGbps: z.coerce.number().min(0).default(0) }),
  begin: (members) => new Shares(members),
};

/** The part in each program: reports what its contexts demand, and sends at the rates that they are granted. */
class DemandShares {
  name = 'demand-shares';
  needs = { wait: 'none' };
  slots = 16;
  crossChannel = true;
  members = [];
  qps = [];
  waiting = new RunQueue(); // queue pairs that wait for tokens, a queue for each context

  constructor({ periodNs = 1e6, burstBytes = 65536, ...options }, coordinators) {
    if (!(periodNs >= 1e4)) throw new Error('demand-shares: periodNs must be at least 10000');
    Object.assign(this, { periodNs, burstBytes, options, coordinators });
  }

  setup({ context }) {
    this.coordinators.govern(context, demandShares, this.options);
    const page = this.coordinators.page(context);
    const [columns, bucket] = [page.columns(demandShares), new Bucket({ burst: this.burstBytes })];
    this.members[context.index] = { context, page, columns, bucket, wire: wireFactsOf(context.nic), sent: 0 };
  }

  onQp(qp, change) {
    this.qps[qp.index] = qp;
    if (change === 'destroyed') this.waiting.remove(qp.index);
  }

  onload = () => 0;

  feed(qp, out) {
    const member = this.members[qp.context.index];
    this.waiting.push(qp.index, qp.context.index);
    // Until the first period has shown what it sends, it demands all.
    if (member.columns.reports[0] === 0) this.report(member, ALL_GBPS, out);
    this.serve(member, out);
  }

  report({ context, columns: { reports } }, gbps, out) {
    const nowNs = out.nowNs(context);
    const isNews = Math.abs(gbps - reports[0]) > (GROWTH - 1) * reports[0];
    reports[0] = gbps;
    this.coordinators.decide(context, demandShares, nowNs, isNews);
    this.coordinators.announce(context.device);
    if (gbps > 0) out.timer(context, nowNs + this.periodNs, 2 * context.index);
  }

  serve(member, out) {
    const { waiting, qps } = this;
    const { context, page, columns, bucket, wire } = member;
    page.beat(); // a context that sends is alive, and a grant may have arrived
    bucket.fill(out.nowNs(context));
    bucket.setRate(columns.grants[0] / 8);
    while (waiting.first(context.index) !== NONE && bucket.tokens > 0) {
      const qp = qps[waiting.shift(context.index)];
      const opcode = out.nextOpcode(qp);
      const bytes = step(qp, out, PIECE_BYTES);
      if (bytes === BLOCKED) continue;
      bucket.take(wireBytes(wire, opcode, bytes));
      member.sent += wireBytes(wire, opcode, bytes);
      if (out.backlog(qp) > 0) waiting.push(qp.index, context.index);
    }
    if (waiting.first(context.index) !== NONE) out.timer(context, bucket.readyNs(1), 2 * context.index + 1);
  }

  onTimer(token, out) {
    const member = this.members[token >> 1];
    if (token % 2 === 0) {
      const isWaiting = this.waiting.first(token >> 1) !== NONE;
      this.report(member, isWaiting ? ALL_GBPS : (GROWTH * 8 * member.sent) / this.periodNs, out);
      member.sent = 0;
    }
    this.serve(member, out);
  }

  onGrants = ({ index }, out) => this.serve(this.members[index], out);
}

/** A daemon loads these rulers when its configuration names this module. */
export const rulers = [demandShares];

/** For configuration files, for drivers in other threads, and for the option `policy` of openDevice(). */
export default (options = {}) =>
  createCoordinatedShim('demand-shares', (coordinators) => new DemandShares(options, coordinators));
