/** The findings of `check`: stable codes with severity and meaning. */

/** error: breaks the verbs contract. warning: will break it, or makes a request fail. hint: may be intended. */
export type Severity = 'error' | 'warning' | 'hint';

/** All codes. docs/interceptors.md repeats this list; a test compares the two. */
export const CHECKS = {
  ISO_CHECK_QP_STATE: ['error', 'a request was posted to a queue pair whose state does not allow it'],
  ISO_CHECK_TRANSITION: [
    'error',
    'a queue pair was modified with an invalid state transition or wrong attributes',
  ],
  ISO_CHECK_LKEY: [
    'error',
    'a scatter-gather element names no memory region of the protection domain of its queue',
  ],
  ISO_CHECK_RANGE: ['error', 'a scatter-gather element reaches outside its memory region'],
  ISO_CHECK_ACCESS: ['error', 'the device would write to a memory region that lacks IBV_ACCESS_LOCAL_WRITE'],
  ISO_CHECK_REQUEST: ['error', 'a request has an invalid opcode, flag, length or target'],
  ISO_CHECK_INLINE: ['error', 'a request has more inline bytes than the queue pair was created for'],
  ISO_CHECK_SRQ: ['error', 'a receive was posted to a queue pair that uses a shared receive queue'],
  ISO_CHECK_RD_ATOMIC: ['error', 'more READs and atomics in flight than the device or the connection allows'],
  ISO_CHECK_MEMORY_BUSY: ['error', 'a memory region was deregistered while outstanding requests named it'],
  ISO_CHECK_AH_BUSY: ['error', 'an address handle was destroyed while outstanding sends named it'],
  ISO_CHECK_NEVER_SIGNALED: [
    'error',
    'a send queue is full of unsignaled requests, so none of them can ever be retired',
  ],
  ISO_CHECK_CLOSED: ['error', 'a verb was called on a destroyed object'],
  ISO_CHECK_DESTROY_ORDER: ['error', 'the program tried to destroy an object that others still use'],
  ISO_CHECK_CQ_SIZE: [
    'warning',
    'a completion queue has fewer entries than the requests that may complete into it',
  ],
  ISO_CHECK_RECV_MISSING: ['warning', 'the peer had no receive posted, and the retries ran out'],
  ISO_CHECK_RECV_TOO_SMALL: ['error', 'a message was longer than the receive that it arrived in'],
  ISO_CHECK_REMOTE_ACCESS: [
    'warning',
    'the peer refused a request: wrong rkey, range or access flags, or a deregistered region',
  ],
  ISO_CHECK_QP_BUSY: [
    'hint',
    'a queue pair was destroyed while requests were outstanding; their completions never arrive',
  ],
  ISO_CHECK_WR_ID: [
    'hint',
    'a wr_id was reused while another request with it was outstanding in the same queue',
  ],
} as const satisfies Record<string, readonly [Severity, string]>;

/** The code of a finding. */
export type CheckCode = keyof typeof CHECKS;

/** One mistake of the program. */
export interface Finding {
  readonly code: CheckCode;
  readonly severity: Severity;
  /** The verb that revealed the mistake. */
  readonly verb: string;
  /** Handle of the object that the finding is about. */
  readonly subject: number;
  readonly message: string;
}

/** Called for each finding, at most once per code and object. */
export type FindingListener = (finding: Finding) => void;

const SEVERITIES: readonly Severity[] = ['hint', 'warning', 'error'];

/** Collects findings: one per code and object, and at most `limit` in all. */
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
