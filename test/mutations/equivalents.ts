/** Mutants that were looked at and do what the original does, or cost time only. */
export interface Equivalent {
  readonly file: string;
  /** The line as it is. */
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
      'where a request that is flushed would have gone shows in nothing, and what it reads or writes is unused',
  },
  {
    file: 'src/shim/polling.ts',
    source: 'if (qp.backlog > 0) this.feeder.feed(qp);',
    from: '>',
    to: '>=',
    reason: 'feed() itself looks whether anything is held',
  },
  {
    file: 'src/shim/polling.ts',
    source: 'if (this.misses !== 0) return;',
    from: 'this.misses !== 0',
    to: 'false',
    reason:
      'the policy’s own queues are looked at after each poll that finds nothing, not one in eight: time only',
  },
  {
    file: 'src/shim/resource-keeper.ts',
    source: 'if (resource.armed) return;',
    from: 'resource.armed',
    to: 'false',
    reason: 'a queue that is armed already is armed again: one event comes of it, and the call costs time',
  },
];
