/** Faults that a program or test injects into a fabric. */

import { REORDER_DELAY_NS, type Simulation } from '../../sim/simulation.ts';
import type { Host } from '../../sim/world.ts';
import { InvalidArgumentError, shown } from '../../verbs/errors.ts';

/** A fault from now on. `host` is a device name ('sim1') or an index. */
export type Fault =
  | { kill: string | number }
  | { linkDown: string | number }
  | { linkUp: string | number }
  /** Loss on the link of one host, or on all links. */
  | { loss: number; host?: string | number }
  /** Packets late by `delayNs` (default 2000) on the link of one host, or on all links. */
  | { reorder: number; delayNs?: number; host?: string | number }
  /** Duplicated packets on the link of one host, or on all links. */
  | { duplicate: number; host?: string | number };

export function requireProbability(name: string, value: unknown): number {
  if (typeof value === 'number' && value >= 0 && value <= 1) return value;
  throw new InvalidArgumentError(`${name} must be a probability from 0 to 1, got ${shown(value)}`);
}

export function requireDelay(verb: string, delayNs: unknown): number {
  if (typeof delayNs === 'number' && delayNs >= 0 && Number.isFinite(delayNs)) return delayNs;
  throw new InvalidArgumentError(`${verb}: the delay must be a number of nanoseconds, got ${shown(delayNs)}`);
}

/** Applies a fault. `managers` are connection managers, whose peers learn of a host that died. */
export function applyFault(
  simulation: Simulation,
  managers: { hostDied(host: number): void }[],
  fault: Fault,
): void {
  const { hosts } = simulation.world;
  const hostOf = (name: string | number) => {
    const index = typeof name === 'number' ? name : Number(/^sim(\d+)$/.exec(name)?.[1] ?? Number.NaN);
    const host = hosts[index];
    if (host !== undefined) return host;
    throw new InvalidArgumentError(
      `fault: no host '${name}' in this fabric; it has sim0 .. sim${hosts.length - 1}`,
    );
  };
  if ('kill' in fault) {
    const host = hostOf(fault.kill);
    simulation.kill(host.index);
    for (const manager of managers) manager.hostDied(host.index);
  } else if ('linkDown' in fault) {
    simulation.setLink(hostOf(fault.linkDown).index, false);
  } else if ('linkUp' in fault) {
    simulation.setLink(hostOf(fault.linkUp).index, true);
  } else {
    applyToLinks(simulation, fault, fault.host === undefined ? hosts : [hostOf(fault.host)]);
  }
}

type LinkFault = Extract<Fault, { host?: string | number }>;

/** Applies a fault with a probability to the links of these hosts. */
function applyToLinks({ world }: Simulation, fault: LinkFault, hosts: Host[]): void {
  if ('loss' in fault) {
    const loss = requireProbability('fault: loss', fault.loss);
    for (const host of hosts) world.setLoss(host, loss);
  } else if ('reorder' in fault) {
    const reorder = requireProbability('fault: reorder', fault.reorder);
    const delayNs = requireDelay('fault: delayNs', fault.delayNs ?? REORDER_DELAY_NS);
    for (const host of hosts) world.faults.setReorder(host.index, reorder, delayNs);
  } else if ('duplicate' in fault) {
    const duplicate = requireProbability('fault: duplicate', fault.duplicate);
    for (const host of hosts) world.faults.setDuplicate(host.index, duplicate);
  } else {
    throw new InvalidArgumentError(
      'fault: one of kill, linkDown, linkUp, loss, reorder, duplicate must be given',
    );
  }
}
