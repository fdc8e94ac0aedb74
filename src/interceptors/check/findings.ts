/** What `check` can find: stable codes, how bad each is, and what it means. */

/** error: the verbs contract was broken. warning: it will be, or something fails. hint: it may be meant so. */
export type Severity = 'error' | 'warning' | 'hint';

/** All codes; docs/interceptors.md has the same list. */
export const CHECKS = {
  ISO_CHECK_QP_STATE: ['error', 'a request was posted to a queue pair in a state that takes none'],
  ISO_CHECK_TRANSITION: [
    'error',
    'a queue pair was moved along no edge of the state table, or with wrong attributes',
  ],
  ISO_CHECK_LKEY: [
    'error',
    'a scatter-gather element names no region of the protection domain of the queue pair',
  ],
  ISO_CHECK_RANGE: ['error', 'a scatter-gather element lies outside of its region'],
  ISO_CHECK_ACCESS: ['error', 'the device would write into a region without IBV_ACCESS_LOCAL_WRITE'],
  ISO_CHECK_REQUEST: ['error', 'a request is malformed: opcode, flags, lengths or targets'],
  ISO_CHECK_INLINE: ['error', 'more inline bytes than the queue pair was created for'],
  ISO_CHECK_SRQ: [
    'error',
    'a receive was posted to a queue pair that takes its receives from a shared queue',
  ],
  ISO_CHECK_RD_ATOMIC: ['error', 'more READs and atomics at once than the device or the connection has'],
  ISO_CHECK_MEMORY_BUSY: ['error', 'a region was closed while requests that name it were outstanding'],
  ISO_CHECK_AH_BUSY: ['error', 'an address handle was destroyed while sends that name it were outstanding'],
  ISO_CHECK_NEVER_SIGNALED: [
    'error',
    'a send queue is full of unsignaled requests: none of them can ever be retired',
  ],
  ISO_CHECK_CLOSED: ['error', 'a verb was called with something that had been destroyed'],
  ISO_CHECK_DESTROY_ORDER: ['error', 'something was destroyed before what uses it'],
  ISO_CHECK_CQ_SIZE: [
    'warning',
    'a completion queue has fewer entries than requests that may complete into it',
  ],
  ISO_CHECK_RECV_MISSING: ['warning', 'the peer had no receive posted, and the retries are used up'],
  ISO_CHECK_RECV_TOO_SMALL: ['error', 'a message was longer than the receive that it came to'],
  ISO_CHECK_REMOTE_ACCESS: [
    'warning',
    'the peer refused: wrong key, range or access flags, or its region is closed',
  ],
  ISO_CHECK_QP_BUSY: [
    'hint',
    'a queue pair was destroyed while requests were outstanding: their completions never come',
  ],
  ISO_CHECK_WR_ID: [
    'hint',
    'a wr_id was used again while a request with the same one was outstanding in that queue',
  ],
} as const satisfies Record<string, readonly [Severity, string]>;

export type CheckCode = keyof typeof CHECKS;

/** One thing that the program did wrong. */
export interface Finding {
  readonly code: CheckCode;
  readonly severity: Severity;
  /** The verb in which it showed. */
  readonly verb: string;
  /** Handle of the object that it is about. */
  readonly subject: number;
  readonly message: string;
}

/** Called for each finding: each code once per object. */
export type FindingListener = (finding: Finding) => void;

const SEVERITIES: readonly Severity[] = ['hint', 'warning', 'error'];

/** Collects findings: each code once per object, and no more than `limit` in all. */
export class Findings {
  readonly list: Finding[] = [];
  private readonly seen = new Set<string>();
  private readonly least: number;
  private readonly limit: number;
  private readonly listener: FindingListener;

  constructor(least: Severity, limit: number, listener: FindingListener) {
    this.least = SEVERITIES.indexOf(least);
    this.limit = limit;
    this.listener = listener;
  }

  add(
    code: CheckCode,
    verb: string,
    subject: number,
    detail: string,
    severity: Severity = CHECKS[code][0],
  ): void {
    const key = `${code} ${subject}`;
    if (this.seen.has(key) || this.list.length >= this.limit) return;
    if (SEVERITIES.indexOf(severity) < this.least) return;
    this.seen.add(key);
    const finding = { code, severity, verb, subject, message: `${verb}: ${CHECKS[code][1]}: ${detail}` };
    this.list.push(finding);
    this.listener(finding);
  }
}
