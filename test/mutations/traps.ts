/**
 * Faults found in public interposition layers, each planted in the shim: `edits` are source substitutions (each
 * must match exactly once), `caughtBy` is part of the name of a case of the conformance suite that must fail then.
 */
/** A file, a text in it, and its replacement. */
export type Edit = readonly [file: string, find: string, replace: string];

export interface Trap {
  readonly trap: number;
  readonly what: string;
  readonly edits: readonly Edit[];
  /** If absent, the tests do not end. */
  readonly caughtBy?: string;
}

const issuer = 'src/shim/issue/issuer.ts';
const writer = 'src/shim/issue/piece-writer.ts';

/** Sends pieces of SENDs and immediates to peers that do not expect them. */
const CUT_UNASKED: readonly Edit[] = [
  [writer, 'const isMessage = takesReceive(opcode);', 'const isMessage = false;'],
  [writer, 'if (isSend(opcode)) qp.outbox!.aim(', 'if (isSend(opcode) && qp.outbox !== null) qp.outbox.aim('],
];

export const traps: readonly Trap[] = [
  {
    trap: 1,
    what: 'pieces of a WRITE all go to the same remote address',
    edits: [[writer, 'held[from + L.WR_REMOTE_LO] + offset;', 'held[from + L.WR_REMOTE_LO] + 0 * offset;']],
    caughtBy: 'RC RDMA_WRITE, signaled',
  },
  {
    trap: 2,
    what: 'an immediate is delivered with every piece',
    edits: [
      [
        issuer,
        'if (outbox === null) return UNCUT_NOT_AGREED;',
        'if (outbox === null) return (op & 0xff) === 1 ? NO_OBSTACLE : UNCUT_NOT_AGREED;',
      ],
      ...CUT_UNASKED,
    ],
    caughtBy: 'RC RDMA_WRITE_WITH_IMM, signaled',
  },
  {
    trap: 3,
    what: 'only the first element of a request counts',
    edits: [
      [
        'src/shim/qp-ledger.ts',
        'if (sges === 1 || atomic) return bytes;',
        'if (sges >= 1 || atomic) return bytes;',
      ],
    ],
    caughtBy: 'RC RDMA_WRITE, elements that pieces cut across',
  },
  {
    trap: 4,
    what: 'only the first of a list of requests is considered',
    edits: [
      [
        'src/shim/posting.ts',
        'qp.hold(words, start + n, known.capacity, known.extBytes);',
        'qp.hold(words, start, known.capacity, known.extBytes);',
      ],
    ],
    caughtBy: 'RC SEND between an unsignaled RDMA_WRITE and a short one',
  },
  {
    trap: 5,
    what: 'inline data is not copied when it is posted',
    edits: [
      [
        'src/shim/qp-ledger.ts',
        'for (let i = 0; i < extWords; i++) held[to + L.SLOT_WORDS + i] = words[ext + i];',
        'held[to + L.SLOT_WORDS] = words[ext];',
      ],
    ],
    caughtBy: 'RC SEND, inline, signaled',
  },
  {
    trap: 6,
    what: 'every piece completes',
    edits: [
      [
        'src/shim/cq-ledger.ts',
        'if (status === IBV_WC_SUCCESS && last[row] !== seq) return false;',
        'if (status === IBV_WC_SUCCESS && last[row] !== seq) return true;',
      ],
    ],
    caughtBy: 'RC RDMA_READ, signaled',
  },
  {
    trap: 7,
    what: 'an error in a piece does not have the wr_id of its request',
    edits: [
      [
        writer,
        'w[to] = held[from];\n    w[to + 1] = held[from + 1];\n    const lo',
        'w[to] = 0;\n    w[to + 1] = 0;\n    const lo',
      ],
    ],
    caughtBy: 'RC RDMA_WRITE with an invalid remote key',
  },
  {
    trap: 8,
    what: 'the application may fill the slots that are reserved for pieces',
    edits: [
      [
        'src/shim/posting.ts',
        'const freeSlots = (qp.appDepth - (qp.appPosted - qp.appFreed)) | 0;',
        'const freeSlots = (qp.realDepth - (qp.appPosted - qp.appFreed)) | 0;',
      ],
    ],
    caughtBy: 'RC one request more than the send queue has slots',
  },
  {
    trap: 9,
    what: 'a fence is lost when its request is cut',
    edits: [[writer, 'if (isFirst) own |= flags & IBV_SEND_FENCE;', '']],
    caughtBy: 'RC a fenced RDMA_WRITE of the data that an RDMA_READ before it fetches',
  },
  {
    trap: 10,
    what: 'SENDs are cut for peers that have no shim',
    edits: [
      [
        issuer,
        'if (outbox === null) return UNCUT_NOT_AGREED;',
        'if (outbox === null) return (op & 0xff) === 2 ? NO_OBSTACLE : UNCUT_NOT_AGREED;',
      ],
      ...CUT_UNASKED,
    ],
    caughtBy: 'RC SEND, signaled',
  },
  {
    trap: 11,
    what: 'after an event the queue is not armed again for held requests',
    edits: [
      [
        'src/shim/events.ts',
        'this.arm(cq, level);\n        this.host.pollForShim(cq);',
        'this.host.pollForShim(cq);',
      ],
      [
        'src/shim/feeder.ts',
        'if ((qp.backlog > 0 || qp.awaitedTokens.length > 0) &&',
        'if (!this.feeding && qp.backlog > 0 &&',
      ],
    ],
    caughtBy: 'event: long messages continue without a poll or a listener',
  },
  {
    trap: 12,
    what: 'a post waits until the device has taken everything',
    edits: [
      [
        'src/shim/posting.ts',
        'if (n > 0) this.feeder.feed(qp);',
        'if (n > 0) this.feeder.feed(qp);\n    while (qp.backlog > 0) this.feeder.feed(qp);',
      ],
    ],
  },
  {
    trap: 13,
    what: 'a destroyed queue pair leaves behind the objects that the shim made for it',
    edits: [['src/shim/shim.ts', 'if (qp.ownAh !== 0) this.next.destroyAh(qp.ownAh);', '']],
    caughtBy: 'UD ERR flushes posted',
  },
  {
    trap: 14,
    what: 'datagrams and unreliable messages are cut too',
    edits: [
      [
        issuer,
        'if (qp.type !== IBV_QPT_RC) return UNCUT_NOT_RC;',
        'if (qp.type !== IBV_QPT_RC) return qp.broken ? BROKEN : NO_OBSTACLE;',
      ],
      ...CUT_UNASKED,
    ],
    caughtBy: 'UD SEND, signaled',
  },
];

/** The source with one substitution. @throws Error when it does not match exactly once */
export function edited(text: string, [file, find, replace]: Edit): string {
  const count = text.split(find).length - 1;
  if (count !== 1) throw new Error(`${file} matches the text of this trap ${count} times, not once: ${find}`);
  return text.replace(find, () => replace);
}
