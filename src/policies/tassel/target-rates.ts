/**
 * Rates that a daemon gives to groups and queue pairs of the contexts of one device in this process: which of them each
 * queue pair has, and how many queue pairs of each context have each, which the daemon learns. Nothing here runs for each
 * request.
 */

import { NO_RATES, type TargetRates } from '../../coordinator/rates.ts';
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import type { ContextView, QpView } from '../../shim/policy.ts';
import { addressOfGid } from '../../verbs/patterns.ts';
import { groupOfTarget, hasPeer } from '../../verbs/rate-targets.ts';

/** A context, and its queue pairs. */
interface Given {
  readonly context: ContextView;
  readonly qps: Set<QpView>;
  rates: TargetRates;
  /** By target: how many of the queue pairs have the rate. */
  counts: Map<string, number>;
  /** By group: how many of the queue pairs are in it. */
  readonly inGroup: Map<string, number>;
}

/** Where a queue pair was counted. */
interface Counted {
  readonly of: Given;
  readonly address: string;
  readonly group: string;
}

/** The rates that contexts are given. */
export class GivenTargets {
  private readonly registry: CoordinatorRegistry;
  /** By context, and by queue pair. */
  private readonly contexts: Given[] = [];
  private readonly counted: (Counted | undefined)[] = [];

  constructor(registry: CoordinatorRegistry) {
    this.registry = registry;
  }

  /** A queue pair was created, is about to have other labels, or is connected to another peer. */
  count(qp: QpView): void {
    const before = this.counted[qp.index];
    const { group } = qp.labels;
    const address = addressOfGid(qp.dgid);
    if (before !== undefined && before.address === address && before.group === group) return;
    this.discount(qp.index);
    const of = this.at(qp.context);
    of.qps.add(qp);
    this.counted[qp.index] = { of, address, group };
    this.tally(qp.index, 1);
    this.report(of);
  }

  /** A queue pair was destroyed. */
  drop(qp: QpView): void {
    const before = this.counted[qp.index];
    if (before === undefined) return;
    this.discount(qp.index);
    this.counted[qp.index] = undefined;
    before.of.qps.delete(qp);
    this.report(before.of);
  }

  private at(context: ContextView): Given {
    const known = this.contexts[context.index];
    if (known?.context === context) return known;
    const rates = this.registry.ratesOf(context);
    const given = { context, qps: new Set<QpView>(), rates, counts: new Map(), inGroup: new Map() };
    this.contexts[context.index] = given;
    return given;
  }

  private discount(qp: number): void {
    if (this.counted[qp] !== undefined) this.tally(qp, -1);
  }

  private tally(qp: number, change: number): void {
    const { of, address, group } = this.counted[qp]!;
    of.inGroup.set(group, (of.inGroup.get(group) ?? 0) + change);
    if (of.inGroup.get(group) === 0) of.inGroup.delete(group);
    for (const target of of.rates.keys())
      if (hasPeer(target, address)) of.counts.set(target, (of.counts.get(target) ?? 0) + change);
  }

  private report({ context, rates, counts, inGroup }: Given): void {
    // Another policy around this one may count the same queue pairs.
    if (rates.size === 0 || context.isInner === true || !this.registry.has(context)) return;
    const countOf = (target: string) => {
      const group = groupOfTarget(target);
      return (group === null ? counts.get(target) : inGroup.get(group)) ?? 0;
    };
    this.registry.countRated(context, [...rates.keys()].map(countOf));
  }

  /** Reads what a context is given. Returns its queue pairs if that has changed, and otherwise null. */
  read(context: ContextView): Iterable<QpView> | null {
    const given = this.at(context);
    const rates = this.registry.ratesOf(context);
    if (rates === given.rates) return null;
    given.rates = rates;
    given.counts = new Map();
    for (const { index } of given.qps) {
      const { address } = this.counted[index]!;
      for (const target of rates.keys())
        if (hasPeer(target, address)) given.counts.set(target, (given.counts.get(target) ?? 0) + 1);
    }
    this.report(given);
    return given.qps;
  }

  private ratesOf(qp: QpView): TargetRates {
    return this.counted[qp.index]?.of.rates ?? NO_RATES;
  }

  /** The lowest rate of a queue pair by its peer, in Gbit/s; Infinity: none. */
  gbpsOf(qp: QpView): number {
    let least = Number.POSITIVE_INFINITY;
    const { address = '' } = this.counted[qp.index] ?? {};
    for (const [target, { gbps }] of this.ratesOf(qp))
      if (gbps < least && hasPeer(target, address)) least = gbps;
    return least;
  }

  /**
   * The rate of the group of a queue pair in this process, in Gbit/s; Infinity: none.
   * @param tenantKeyOf of queue pairs
   */
  groupGbpsOf(qp: QpView, tenantKeyOf: (qp: QpView) => string): number {
    const { group } = qp.labels;
    const rate = this.ratesOf(qp).get(`group=${group}`);
    if (rate === undefined) return Number.POSITIVE_INFINITY;
    const tenant = tenantKeyOf(qp);
    const isSharer = ({ qps: [first], inGroup }: Given) =>
      first !== undefined && inGroup.has(group) && tenantKeyOf(first) === tenant;
    // The process may have more contexts in the group than the daemon knows of.
    const part = Math.min(1, this.contexts.filter(isSharer).length / rate.sharers);
    return rate.gbps * part;
  }
}
