/** Mutants that were inspected and behave like the original, or only cost time. */
export interface Equivalent {
  readonly file: string;
  /** The original line. */
  readonly source: string;
  readonly from: string;
  readonly to: string;
  readonly reason: string;
}

export const equivalents: readonly Equivalent[] = [
  {
    file: 'src/shim/issue/synthetic.ts',
    source: 'for (let i = L.WR_REMOTE_LO; i <= L.WR_SRQN; i++) this.words[to + i] = qp.held[from + i];',
    from: '+',
    to: '-',
    reason:
      'the destination of a flushed request has no effect, and the word that it reads or writes is unused',
  },
  {
    file: 'src/shim/polling.ts',
    source: 'if (qp.backlog > 0) this.feeder.feed(qp);',
    from: '>',
    to: '>=',
    reason: 'feed() itself checks whether requests are held',
  },
  {
    file: 'src/shim/polling.ts',
    source: 'if (this.misses !== 0) return;',
    from: 'this.misses !== 0',
    to: 'false',
    reason:
      'the policy’s own queues are polled after every poll that finds nothing instead of one in eight: only costs time',
  },
  {
    file: 'src/shim/resource-keeper.ts',
    source: 'if (resource.armed) return;',
    from: 'resource.armed',
    to: 'false',
    reason: 'a queue that is armed is armed again: there is still one event, and the call only costs time',
  },
];
