/**
 * The messages of drum's agents, and those of contexts over their lines. Anyone on the network can send the former, and
 * any program the latter, so every value is checked when it is read. Rates are in millions per second.
 *
 * Between agents, a header of five words: the kind, the number of the round of the host that sends requests, whether the
 * sender of the message has nothing more to change, and which of how many parts this is. Then the entries:
 * REPORTS  application, completions that it causes at the receiver of the message, weight, completions per request,
 *          curvature
 * ANSWERS  application, completions that its row asks for, penalty, curvature
 */
import { MAX_MESSAGE_WORDS } from '../../../coordinator/agent.ts';
import { gidFromWords, gidToWords } from '../../../verbs/gid.ts';
import type { Ask, Pull } from './model.ts';

/** Kinds of messages between agents. */
export const REPORTS = 1;
export const ANSWERS = 2;

const HEADER_WORDS = 5;
const REPORT_WORDS = 5;
const ANSWER_WORDS = 4;
/** The most parts of a message: applications beyond them are not reported. */
export const MOST_PARTS = 32;
/** The most applications of one host that send to another. */
export const MOST_REPORTS = MOST_PARTS * Math.floor((MAX_MESSAGE_WORDS - HEADER_WORDS) / REPORT_WORDS);

/** The largest rate and curvature that count, and the largest weight of an application of another host. */
const MOST_RATE = 1e6;
const MOST_CURVATURE = 1e30;
export const MOST_WEIGHT = 1e6;
/** The smallest completions per request that count. */
export const LEAST_PER = 1 / 64;

/** The header of a message. */
export interface Header {
  readonly kind: number;
  readonly round: number;
  readonly isDone: boolean;
  readonly part: number;
  readonly parts: number;
}

/** What a row asks of an application of the receiver. */
export interface Answer extends Ask {
  readonly key: number;
}

const isWithin = (value: number, most: number) => value >= 0 && value <= most;
const isKey = (value: number) => Number.isSafeInteger(value) && value >= 0;

function write(
  header: Omit<Header, 'part' | 'parts'>,
  entries: readonly number[][],
  size: number,
): number[][] {
  const each = Math.floor((MAX_MESSAGE_WORDS - HEADER_WORDS) / size);
  const parts = Math.min(MOST_PARTS, Math.max(1, Math.ceil(entries.length / each)));
  return Array.from({ length: parts }, (_, part) => [
    ...[header.kind, header.round, header.isDone ? 1 : 0, part, parts],
    ...entries.slice(part * each, (part + 1) * each).flat(),
  ]);
}

/** The messages for what a host's applications cause at a peer. */
export function writeReports(round: number, isDone: boolean, pulls: readonly Pull[]): number[][] {
  const entries = pulls.map(({ key, sent, weight, per, others }) => [key, sent, weight, per, others]);
  return write({ kind: REPORTS, round, isDone }, entries, REPORT_WORDS);
}

/** The messages for what rows ask of a peer's applications. */
export function writeAnswers(round: number, isDone: boolean, answers: readonly Answer[]): number[][] {
  const entries = answers.map(({ key, asked, rho, curvature }) => [key, asked, rho, curvature]);
  return write({ kind: ANSWERS, round, isDone }, entries, ANSWER_WORDS);
}

/** The header of a message; null: the words are not valid. */
export function readHeader(words: Float64Array): Header | null {
  if (words.length < HEADER_WORDS) return null;
  const [kind, round, isDone, part, parts] = words;
  const size = { [REPORTS]: REPORT_WORDS, [ANSWERS]: ANSWER_WORDS }[kind];
  if (size === undefined || (words.length - HEADER_WORDS) % size !== 0) return null;
  if (!Number.isSafeInteger(round) || round < 0 || !isWithin(isDone, 1)) return null;
  if (!Number.isInteger(part) || !Number.isInteger(parts)) return null;
  if (!(parts >= 1 && parts <= MOST_PARTS && part >= 0 && part < parts)) return null;
  return { kind, round, isDone: isDone === 1, part, parts };
}

/** The valid entries of REPORTS. */
export function readReports(words: Float64Array): Pull[] {
  const pulls: Pull[] = [];
  for (let i = HEADER_WORDS; i < words.length; i += REPORT_WORDS) {
    const [key, sent, weight, per, others] = words.subarray(i, i + REPORT_WORDS);
    if (!isKey(key) || !isWithin(sent, MOST_RATE) || !isWithin(others, MOST_CURVATURE)) continue;
    if (!(weight > 0 && weight <= MOST_WEIGHT && per >= LEAST_PER && per <= 1)) continue;
    pulls.push({ key, sent, weight, per, others });
  }
  return pulls;
}

/** The valid entries of ANSWERS. */
export function readAnswers(words: Float64Array): Answer[] {
  const answers: Answer[] = [];
  for (let i = HEADER_WORDS; i < words.length; i += ANSWER_WORDS) {
    const [key, asked, rho, curvature] = words.subarray(i, i + ANSWER_WORDS);
    if (!isKey(key) || !(Math.abs(asked) <= MOST_RATE)) continue;
    if (!isWithin(rho, MOST_CURVATURE) || !isWithin(curvature, MOST_CURVATURE)) continue;
    answers.push({ key, asked, rho, curvature });
  }
  return answers;
}

/** Words of a context's message that precede its peers, and words for each of these. */
const CONTEXT_WORDS = 3;
const PEER_WORDS = 9;
/** The most peers that a context names. */
export const MOST_PEERS = Math.floor((MAX_MESSAGE_WORDS - CONTEXT_WORDS) / PEER_WORDS);

/** What a context does. */
export interface Use {
  /** Whether the context has something to send. */
  readonly isActive: boolean;
  /** What its device can issue; 0: unknown. */
  readonly requestsPerS: number;
  /** Its requests, relative to those of other contexts of its tenant. */
  readonly requests: number;
  /** Completions at peers per request. */
  readonly peers: readonly { readonly gid: string; readonly fromGid: string; readonly per: number }[];
}

/** The words of what a context does. */
export function writeUse({ isActive, requestsPerS, requests, peers }: Use): number[] {
  const entries = peers
    .slice(0, MOST_PEERS)
    .flatMap(({ gid, fromGid, per }) => [...gidToWords(gid), ...gidToWords(fromGid), per]);
  return [isActive ? 1 : 0, requestsPerS, requests, ...entries];
}

/** What a context does, as it reports; null: the words are not valid. */
export function readUse(words: Float64Array): Use | null {
  if (words.length < CONTEXT_WORDS || (words.length - CONTEXT_WORDS) % PEER_WORDS !== 0) return null;
  const [isActive, requestsPerS, requests] = words;
  if (!isWithin(requestsPerS, 1e6 * MOST_RATE) || !isWithin(requests, 1e15)) return null;
  const peers = [];
  for (let i = CONTEXT_WORDS; i < words.length; i += PEER_WORDS) {
    const [gid, fromGid] = [gidFromWords(words, i), gidFromWords(words, i + 4)];
    const per = words[i + 8];
    if (gid === null || fromGid === null || !isWithin(per, 1)) return null;
    if (per >= LEAST_PER) peers.push({ gid, fromGid, per });
  }
  return { isActive: isActive === 1, requestsPerS, requests, peers };
}

/** What the agent grants a context: its application's rates per second. */
export interface Rates {
  readonly requestsPerS: number;
  readonly completionsPerS: number;
  /** Whether the device could issue more requests, so that only completions elsewhere hold them back. */
  readonly isHeldBack: boolean;
}

/** The words of rates. */
export const writeRates = ({ requestsPerS, completionsPerS, isHeldBack }: Rates): number[] => [
  requestsPerS,
  completionsPerS,
  isHeldBack ? 1 : 0,
];

/** The rates in an agent's words; null: the words are not valid. */
export function readRates(words: Float64Array): Rates | null {
  if (words.length !== 3) return null;
  const [requestsPerS, completionsPerS, isHeldBack] = words;
  if (!isWithin(requestsPerS, 1e6 * MOST_RATE) || !isWithin(completionsPerS, 1e6 * MOST_RATE)) return null;
  return { requestsPerS, completionsPerS, isHeldBack: isHeldBack === 1 };
}
