/**
 * The messages of the contexts and agents of fair. A context reports what it sends to each peer and READs from it, and
 * receives its limits. A host reports the sums to the peer's agent, and receives the levels of the peer's link.
 * Messages are repeated while anything is sent, so a lost message matters only until the next one. A malicious program
 * can send anything: readers return null for malformed messages.
 */
import { gidFromWords, gidToWords } from '../../../verbs/gid.ts';

/** Kinds of messages: one from a context, two to a context, and two between agents. */
const FLOWS = 1;
const LIMITS = 2;
const QUIET = 3;
const DEMAND = 4;
const LEVELS = 5;

/** Words in front of the rows, and words of a row. */
const FLOWS_HEADER = 2;
const FLOW_WORDS = 13;
const LIMITS_HEADER = 4;
const LIMIT_WORDS = 6;
const DEMAND_WORDS = 9;
const LEVELS_WORDS = 4;

/** The most rows of a message. */
export const MOST_FLOWS = 7;
export const MOST_LIMITS = 16;

/** Values are clamped to these bounds: rates in bytes per nanosecond, weights, and the time between two reports. */
const MOST_PER_NS = 1e6;
const MOST_WEIGHT = 1e12;
const LEAST_PERIOD_NS = 1e5;
const MOST_PERIOD_NS = 1e9;

/** What a context sends in one direction: a rate in bytes on the wire per nanosecond, and whether it has more to send. */
export interface Use {
  readonly perNs: number;
  readonly isHungry: boolean;
}

/** What a context sends to one peer, and READs from it. */
export interface Flow {
  readonly gid: string;
  readonly fromGid: string;
  readonly out: Use;
  readonly in: Use;
  /** The requests of its READs, in bytes on the wire out of the device per nanosecond. */
  readonly requestsPerNs: number;
}

/** What a context may send in each direction, in bytes on the wire per nanosecond; 0: no limit. */
export interface Limits {
  readonly outPerNs: number;
  readonly inPerNs: number;
}

/** The same at one peer. */
export interface PeerLimits extends Limits {
  readonly gid: string;
}

/** What one host, or one tenant, loads one direction of a link with, in bytes on the wire per nanosecond. */
export interface Load {
  /** The sum of the weights of tenants that have more to send, and what these send. */
  weight: number;
  hungryPerNs: number;
  /** What the other tenants send. */
  otherPerNs: number;
}

/** What a host sends to a peer, and what it READs from it. */
export interface Demand {
  /** The time of the report by the host's own clock, and the time between two of them. */
  readonly sentNs: number;
  readonly periodNs: number;
  readonly out: Load;
  readonly in: Load;
}

/** What a unit of weight may send to a host, and READ from it, in bytes on the wire per nanosecond; 0: no limit. */
export interface Levels {
  readonly sentNs: number;
  readonly outPerNs: number;
  readonly inPerNs: number;
}

const rate = (word: number): number => (word > 0 ? Math.min(word, MOST_PER_NS) : 0);
const weight = (word: number): number => (word > 0 ? Math.min(word, MOST_WEIGHT) : 0);
const period = (word: number): number => Math.min(Math.max(word, LEAST_PERIOD_NS), MOST_PERIOD_NS);
const isTime = (word: number): boolean => Number.isFinite(word) && word >= 0;

/** A context reports up to MOST_FLOWS of its flows. */
export function writeFlows(periodNs: number, flows: readonly Flow[]): number[] {
  const words = [FLOWS, periodNs];
  for (const { gid, fromGid, out, in: into, requestsPerNs } of flows) {
    words.push(...gidToWords(gid), ...gidToWords(fromGid));
    words.push(out.perNs, out.isHungry ? 1 : 0, into.perNs, into.isHungry ? 1 : 0, requestsPerNs);
  }
  return words;
}

/** The flows that a context reports; null if the message is no valid report. */
export function readFlows(words: ArrayLike<number>): { periodNs: number; flows: Flow[] } | null {
  const count = (words.length - FLOWS_HEADER) / FLOW_WORDS;
  if (words[0] !== FLOWS || !Number.isInteger(count) || !isTime(words[1])) return null;
  const flows: Flow[] = [];
  for (let at = FLOWS_HEADER; at < words.length; at += FLOW_WORDS) {
    const [gid, fromGid] = [gidFromWords(words, at), gidFromWords(words, at + 4)];
    if (gid === null || fromGid === null) return null;
    const use = (word: number): Use => ({ perNs: rate(words[word]), isHungry: words[word + 1] === 1 });
    flows.push({ gid, fromGid, out: use(at + 8), in: use(at + 10), requestsPerNs: rate(words[at + 12]) });
  }
  return { periodNs: period(words[1]), flows };
}

/** The limits of a context in total and at up to MOST_LIMITS peers, which hold for `lastsNs` unless repeated. */
export function writeLimits(
  lastsNs: number,
  { outPerNs, inPerNs }: Limits,
  peers: readonly PeerLimits[],
): number[] {
  const words = [LIMITS, lastsNs, outPerNs, inPerNs];
  for (const peer of peers) words.push(...gidToWords(peer.gid), peer.outPerNs, peer.inPerNs);
  return words;
}

/** The limits of a context; null if the message contains no valid ones. */
export function readLimits(
  words: ArrayLike<number>,
): { lastsNs: number; own: Limits; peers: PeerLimits[] } | null {
  const count = (words.length - LIMITS_HEADER) / LIMIT_WORDS;
  if (words[0] !== LIMITS || !Number.isInteger(count) || !isTime(words[1])) return null;
  const peers: PeerLimits[] = [];
  for (let at = LIMITS_HEADER; at < words.length; at += LIMIT_WORDS) {
    const gid = gidFromWords(words, at);
    if (gid === null) return null;
    peers.push({ gid, outPerNs: rate(words[at + 4]), inPerNs: rate(words[at + 5]) });
  }
  return { lastsNs: words[1], own: { outPerNs: rate(words[2]), inPerNs: rate(words[3]) }, peers };
}

/** The message to a context if no agent is known at any of its peers. */
export const QUIET_WORDS: readonly number[] = [QUIET];
/** Whether a message is that one. */
export const isQuiet = (words: ArrayLike<number>): boolean => words[0] === QUIET;

/** A host reports what it sends to a peer and READs from it. */
export function writeDemand({ sentNs, periodNs, out, in: into }: Demand): number[] {
  const load = (of: Load) => [of.weight, of.hungryPerNs, of.otherPerNs];
  return [DEMAND, sentNs, periodNs, ...load(out), ...load(into)];
}

/** What a host sends here and READs from here; null if the message is no valid report. */
export function readDemand(words: ArrayLike<number>): Demand | null {
  if (words[0] !== DEMAND || words.length !== DEMAND_WORDS || !isTime(words[1]) || !isTime(words[2]))
    return null;
  const load = (at: number): Load => ({
    weight: weight(words[at]),
    hungryPerNs: rate(words[at + 1]),
    otherPerNs: rate(words[at + 2]),
  });
  return { sentNs: words[1], periodNs: period(words[2]), out: load(3), in: load(6) };
}

/** A host answers with the levels of its link. */
export const writeLevels = ({ sentNs, outPerNs, inPerNs }: Levels): number[] => [
  LEVELS,
  sentNs,
  outPerNs,
  inPerNs,
];

/** The levels of a peer's link; null if the message is no valid answer. */
export function readLevels(words: ArrayLike<number>): Levels | null {
  if (words[0] !== LEVELS || words.length !== LEVELS_WORDS || !isTime(words[1])) return null;
  return { sentNs: words[1], outPerNs: rate(words[2]), inPerNs: rate(words[3]) };
}
