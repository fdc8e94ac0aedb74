/**
 * Decides the identity of a client. The first matching rule of the configuration decides. Without one,
 * all clients of a person are one tenant, because otherwise each could take a share for every name it declares, and for
 * every subordinate user ID.
 * What a client declares about itself counts only if it is trusted.
 */
import { HandshakeError } from '../verbs/errors.ts';
import type { TrafficName } from '../verbs/labels.ts';
import { fits } from '../verbs/patterns.ts';
import { hasId, type UserIds } from './identity/user-ids.ts';

/** Labels that rules, operators and trusted programs give to all contexts of a tenant; null: the program's own. */
export interface TenantLabels {
  readonly qpWeight: number | null;
  readonly group: string | null;
  readonly traffic: TrafficName | null;
}

/** As if no label were given. */
export const NO_LABELS: TenantLabels = { qpWeight: null, group: null, traffic: null };

/** The kernel's report about a client, and the client's declarations. */
export interface ClientFacts {
  readonly pid: number;
  readonly uid: number;
  /** The user to whom the user ID belongs (identity/owners.ts). Absent: the user itself. */
  readonly owner?: number;
  readonly gid: number;
  /** The path of its cgroup, and its command line; null if they cannot be read. */
  readonly cgroup: string | null;
  readonly command: string | null;
  /** Declared by the client. */
  readonly tenant?: string;
  readonly weight?: number;
  readonly traffic?: TrafficName;
}

/** All conditions that are present must match. */
export interface Match {
  /** A user also stands for its subordinate user IDs. */
  readonly uid?: UserIds;
  readonly gid?: number;
  /** `*` matches any text. */
  readonly cgroup?: string;
  readonly command?: string;
  readonly declared?: string;
}

export interface Rule {
  readonly match: Match;
  /** Default: the tenant without a rule. */
  readonly tenant?: string;
  readonly weight?: number;
  readonly qpWeight?: number;
  readonly group?: string;
  readonly traffic?: TrafficName;
  /** Weights of the tenant's groups, by name. */
  readonly groups?: Readonly<Record<string, number>>;
  /** A fixed rate instead of a share by weight. */
  readonly gbps?: number;
  /** Rates of groups and queue pairs in Gbit/s, by target (src/verbs/rate-targets.ts). */
  readonly rates?: Readonly<Record<string, number>>;
  /** Limits on queue pairs, and on requests per second. */
  readonly maxQps?: number;
  readonly maxRequestsPerS?: number;
}

/** The identity of a client. */
export interface Identity {
  /** The user among whose contexts its own count; absent: a trusted one, which may have any number. */
  readonly owner?: number;
  readonly tenant: string;
  readonly weight: number;
  readonly gbps: number | null;
  /** Rates of groups and queue pairs in Gbit/s, by target. Absent: none. */
  readonly rates?: Readonly<Record<string, number>>;
  readonly labels: TenantLabels;
  /** Weights of the tenant's groups, by name. Absent: none. */
  readonly groups?: Readonly<Record<string, number>>;
  readonly maxQps: number;
  readonly maxRequestsPerS: number;
  /** Whether contexts that the program opened for tenants of its choice belong to these tenants. */
  readonly hasTenants: boolean;
}

const NO_LIMIT = 0;

/** A connection that the rules refuse, with the reason as a sentence. */
export class RefusedError extends HandshakeError {}

/** @throws RefusedError if the property that the rule asks for cannot be read */
function fitsFact(pattern: string, text: string | null, what: string, { pid }: ClientFacts): boolean {
  if (text !== null) return fits(pattern, text);
  const why =
    pid === 0
      ? 'its process is in a PID namespace that the daemon cannot see'
      : `process ${pid}, which connected, has exited or is hidden from the daemon`;
  throw new RefusedError(
    `${what}, which cannot be read: ${why}; connect from a process that the daemon can see, and that keeps running`,
  );
}

/**
 * A declared name counts if the client is trusted, or if the rule also requires a property for which the kernel
 * vouches.
 */
function matches(
  { uid, gid, cgroup, command, declared }: Match,
  peer: ClientFacts,
  trusts: boolean,
  rule: number,
): boolean {
  const vouched = isVouched({ uid, gid, cgroup });
  return (
    (uid === undefined || hasId(uid, peer.uid) || hasId(uid, peer.owner ?? peer.uid)) &&
    (gid === undefined || gid === peer.gid) &&
    (declared === undefined ||
      ((trusts || vouched) && peer.tenant !== undefined && fits(declared, peer.tenant))) &&
    // Looked up last, and only if everything else matches (daemon.ts).
    (cgroup === undefined || fitsFact(cgroup, peer.cgroup, `rules.${rule} asks for the cgroup`, peer)) &&
    (command === undefined ||
      fitsFact(command, peer.command, `rules.${rule} asks for the command line`, peer))
  );
}

const isVouched = ({ uid, gid, cgroup }: Match) =>
  uid !== undefined || gid !== undefined || cgroup !== undefined;

/**
 * @param trusts whether this client's declarations count: its name, its weight, and tenants of its choice
 * @throws RefusedError if a rule that would decide cannot be checked
 */
export function identify(peer: ClientFacts, rules: readonly Rule[], trusts: boolean): Identity {
  const rule = rules.find(({ match }, i) => matches(match, peer, trusts, i));
  const { uid, owner = uid } = peer;
  const byDefault = trusts && peer.tenant ? peer.tenant : `uid${owner}`;
  const declaredWeight = trusts ? peer.weight : undefined;
  return {
    ...(!trusts && { owner }),
    tenant: rule?.tenant ?? byDefault,
    weight: rule?.weight ?? declaredWeight ?? 1,
    gbps: rule?.gbps ?? null,
    labels: {
      qpWeight: rule?.qpWeight ?? null,
      group: rule?.group ?? null,
      traffic: rule?.traffic ?? (trusts ? (peer.traffic ?? null) : null),
    },
    ...(rule?.groups !== undefined && { groups: rule.groups }),
    ...(rule?.rates !== undefined && { rates: rule.rates }),
    maxQps: rule?.maxQps ?? NO_LIMIT,
    maxRequestsPerS: rule?.maxRequestsPerS ?? NO_LIMIT,
    hasTenants: trusts && rule?.tenant === undefined,
  };
}
