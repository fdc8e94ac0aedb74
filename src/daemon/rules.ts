/**
 * Who a client is to the daemon: the first rule of its configuration that fits decides; without one, a client is a
 * tenant of its user's: all clients of a user are one, or each could take a share for every name it thinks of. What a
 * client says of itself counts only if it is trusted.
 */

/** What a program is taken for, whatever it sends. */
export const CLASSES = ['delay', 'messages', 'bandwidth'] as const;
export type DeclaredClass = (typeof CLASSES)[number];

/** What the kernel says of a client, and what the client says. */
export interface Peer {
  readonly pid: number;
  readonly uid: number;
  readonly gid: number;
  /** Path of its cgroup, and its command line; '': unknown. */
  readonly cgroup: string;
  readonly command: string;
  /** Declared. */
  readonly tenant?: string;
  readonly weight?: number;
  readonly class?: DeclaredClass;
}

/** Each of these that is there must fit. */
export interface Match {
  readonly uid?: number;
  readonly gid?: number;
  /** `*` stands for anything. */
  readonly cgroup?: string;
  readonly command?: string;
  readonly declared?: string;
}

export interface Rule {
  readonly match: Match;
  /** Default: as without a rule. */
  readonly tenant?: string;
  readonly weight?: number;
  readonly class?: DeclaredClass;
  /** A rate of its own instead of a share by weight. */
  readonly gbps?: number;
  /** Queue pairs, and requests a second. */
  readonly maxQps?: number;
  readonly maxRequestsPerS?: number;
}

/** What a client is. */
export interface Identity {
  readonly tenant: string;
  readonly weight: number;
  readonly gbps: number | null;
  /** Null: as it sends. */
  readonly class: DeclaredClass | null;
  readonly maxQps: number;
  readonly maxRequestsPerS: number;
  /** Contexts that the program opened for tenants of its own are these tenants'. */
  readonly hasTenants: boolean;
}

const NO_LIMIT = 0;

/** In one walk over the text: it is the client's own, and what would try every split of it could be kept busy for hours. */
function fits(pattern: string | undefined, text: string): boolean {
  if (pattern === undefined) return true;
  const [first, ...others] = pattern.split('*');
  const last = others.pop();
  if (last === undefined) return text === first;
  if (!text.startsWith(first) || !text.endsWith(last)) return false;
  let at = first.length;
  for (const part of others) {
    const found = text.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return at <= text.length - last.length;
}

/** A name that anybody may declare counts where the kernel vouches for something else that the rule asks for. */
function matches({ uid, gid, cgroup, command, declared }: Match, peer: Peer, trusts: boolean): boolean {
  const vouched = isVouched({ uid, gid, cgroup });
  return (
    (uid === undefined || uid === peer.uid) &&
    (gid === undefined || gid === peer.gid) &&
    // Looked up only where all else fits (daemon.ts).
    (cgroup === undefined || fits(cgroup, peer.cgroup)) &&
    (declared === undefined ||
      ((trusts || vouched) && peer.tenant !== undefined && fits(declared, peer.tenant))) &&
    (command === undefined || fits(command, peer.command))
  );
}

const KEYS = ['uid', 'gid', 'cgroup', 'command', 'declared'] as const;

const isVouched = ({ uid, gid, cgroup }: Match) =>
  uid !== undefined || gid !== undefined || cgroup !== undefined;

/** Whether whoever the second fits has been fitted by the first. */
function covers(first: Match, second: Match): boolean {
  // Alone, a declared name counts of those only who are trusted.
  if (first.declared !== undefined && !isVouched(first) && isVouched(second)) return false;
  return KEYS.every((key) => {
    const [asked, given] = [first[key], second[key]];
    return asked === undefined || asked === given || (asked === '*' && key !== 'declared');
  });
}

/** Rules that never decide anything, each with the earlier one that takes all it fits; both counted from 0. */
export function unreachable(rules: readonly Rule[]): { rule: number; by: number }[] {
  return rules.flatMap(({ match }, rule) => {
    const by = rules.findIndex((earlier, i) => i < rule && covers(earlier.match, match));
    return by < 0 ? [] : [{ rule, by }];
  });
}

/** @param trusts whether what this client says of itself counts: its name, its weight, tenants of its own */
export function identify(peer: Peer, rules: readonly Rule[], trusts: boolean): Identity {
  const rule = rules.find(({ match }) => matches(match, peer, trusts));
  const byDefault = trusts && peer.tenant ? peer.tenant : `uid${peer.uid}`;
  const declaredWeight = trusts ? peer.weight : undefined;
  return {
    tenant: rule?.tenant ?? byDefault,
    weight: rule?.weight ?? declaredWeight ?? 1,
    gbps: rule?.gbps ?? null,
    class: rule?.class ?? (trusts ? (peer.class ?? null) : null),
    maxQps: rule?.maxQps ?? NO_LIMIT,
    maxRequestsPerS: rule?.maxRequestsPerS ?? NO_LIMIT,
    hasTenants: trusts && rule?.tenant === undefined,
  };
}
