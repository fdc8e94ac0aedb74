/**
 * Labels: what a program declares of its contexts and queue pairs for policies. They are attributes at the seam that no
 * device sees. A queue pair takes a label that it has not itself from its context.
 */
import {
  ISO_QP_GROUP,
  ISO_QP_TRAFFIC,
  ISO_QP_WEIGHT,
  ISO_TRAFFIC_BANDWIDTH,
  ISO_TRAFFIC_UNDECLARED,
} from './constants.ts';
import { InvalidArgumentError, shown } from './errors.ts';

/** The labels that a queue pair may have itself. */
export interface QpLabels {
  /** Weight of the queue pair among those of its tenant, from 1e-6 to 1e6. */
  readonly qpWeight?: number;
  /** Name of the group that it belongs to, of at most 64 printable characters; '': none. */
  readonly group?: string;
  /** ISO_TRAFFIC_* */
  readonly traffic?: number;
}

/** All labels of a context or queue pair. */
export interface Labels extends Required<QpLabels> {
  /** Weight of the context's tenant among the tenants of the device, from 1e-6 to 1e6. */
  readonly weight: number;
}

/** Without any declaration. */
export const DEFAULT_LABELS: Labels = Object.freeze({
  weight: 1,
  group: '',
  qpWeight: 1,
  traffic: ISO_TRAFFIC_UNDECLARED,
});

/** The bits of modifyQp's mask that name labels. */
export const LABEL_BITS = ISO_QP_WEIGHT | ISO_QP_GROUP | ISO_QP_TRAFFIC;

/** Names of ISO_TRAFFIC_*, by value. */
export const TRAFFIC_NAMES = ['undeclared', 'latency', 'throughput', 'bandwidth'] as const;
/** A kind of traffic, by name. */
export type TrafficName = (typeof TRAFFIC_NAMES)[number];

const LABEL_NAMES = ['weight', 'group', 'qpWeight', 'traffic'] as const;
const QP_LABEL_NAMES = ['qpWeight', 'group', 'traffic'] as const;
const MIN_WEIGHT = 1e-6;
const MAX_WEIGHT = 1e6;
const MAX_GROUP_LENGTH = 64;
/** The most characters in the name of a tenant. */
export const MAX_TENANT_LENGTH = 128;
/** What `isTenant` accepts, for messages. */
export const TENANT_ACCEPTED = `must have 1 to ${MAX_TENANT_LENGTH} characters`;

/** Whether a number may be a weight. */
export function isWeight(value: unknown): value is number {
  return typeof value === 'number' && value >= MIN_WEIGHT && value <= MAX_WEIGHT;
}

/** Whether a text may name a tenant. The daemon refuses any other. */
export function isTenant(value: string): boolean {
  return value.length > 0 && value.length <= MAX_TENANT_LENGTH;
}

/** Whether a text may name a group; '' names none. */
export function isGroup(value: unknown): value is string {
  return typeof value === 'string' && value.length <= MAX_GROUP_LENGTH && !/\p{C}/u.test(value);
}

/** What each label accepts, for messages. */
const ACCEPTED: Record<keyof Labels, string> = {
  weight: `a number from ${MIN_WEIGHT} to ${MAX_WEIGHT}`,
  qpWeight: `a number from ${MIN_WEIGHT} to ${MAX_WEIGHT}`,
  group: `a name of at most ${MAX_GROUP_LENGTH} printable characters, or '' for none`,
  traffic: `one of ISO_TRAFFIC_* (${ISO_TRAFFIC_UNDECLARED} to ${ISO_TRAFFIC_BANDWIDTH})`,
};

function isValid(name: keyof Labels, value: unknown): boolean {
  if (name === 'group') return isGroup(value);
  if (name !== 'traffic') return isWeight(value);
  return Number.isInteger(value) && TRAFFIC_NAMES[value as number] !== undefined;
}

function requireLabels<T extends Partial<Labels>>(
  verb: string,
  given: T,
  names: readonly (keyof Labels)[],
  where: string,
): T {
  const found: [string, unknown][] = [];
  for (const name of names) {
    const value = given[name];
    if (value === undefined) continue;
    if (!isValid(name, value)) {
      throw new InvalidArgumentError(
        `${verb}: ${where}${name} must be ${ACCEPTED[name]}, got ${shown(value)}`,
        { verb },
      );
    }
    found.push([name, value]);
  }
  return Object.fromEntries(found) as T;
}

/** The labels among the options of a context. @throws InvalidArgumentError naming the label that is wrong */
export function contextLabels(verb: string, given: unknown): Partial<Labels> {
  if (typeof given !== 'object' || given === null) {
    throw new InvalidArgumentError(`${verb}: labels must be an object, got ${shown(given)}`, { verb });
  }
  const unknown = Object.keys(given).find((key) => !(LABEL_NAMES as readonly string[]).includes(key));
  if (unknown !== undefined) {
    throw new InvalidArgumentError(`${verb}: no label '${unknown}'; there are: ${LABEL_NAMES.join(', ')}`, {
      verb,
    });
  }
  return requireLabels(verb, given as Partial<Labels>, LABEL_NAMES, 'labels.');
}

/** The labels among the attributes of createQp. @throws InvalidArgumentError naming the label that is wrong */
export function qpLabels(verb: string, attr: QpLabels): QpLabels {
  return requireLabels(verb, attr, QP_LABEL_NAMES, '');
}

/** The labels that modifyQp's mask names. @throws InvalidArgumentError naming the label that is wrong */
export function maskedLabels(attr: QpLabels, mask: number): QpLabels {
  return qpLabels('modifyQp', {
    ...((mask & ISO_QP_WEIGHT) !== 0 && { qpWeight: attr.qpWeight }),
    ...((mask & ISO_QP_GROUP) !== 0 && { group: attr.group }),
    ...((mask & ISO_QP_TRAFFIC) !== 0 && { traffic: attr.traffic }),
  });
}

/** Whether createQp's attributes have labels. */
export function hasLabels(attr: QpLabels): boolean {
  return attr.qpWeight !== undefined || attr.group !== undefined || attr.traffic !== undefined;
}

/** Whether two sets of labels are equal. */
export function sameLabels(a: Labels, b: Labels): boolean {
  return LABEL_NAMES.every((name) => a[name] === b[name]);
}

/** Labels with some of them replaced; the same object if nothing differs. */
export function withLabels(labels: Labels, change: Partial<Labels>): Labels {
  const names = LABEL_NAMES.filter((name) => change[name] !== undefined && change[name] !== labels[name]);
  if (names.length === 0) return labels;
  return Object.freeze({ ...labels, ...Object.fromEntries(names.map((name) => [name, change[name]])) });
}
