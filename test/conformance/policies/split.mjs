// @ts-nocheck
/** Cuts every request that may be cut, and issues all others whole. */
export default () => ({
  name: 'split',
  needs: { wait: 'none' },
  slots: 8,
  onload: () => 0,
  feed(qp, out) {
    while (out.backlog(qp) > 0 && out.room(qp) > 0) {
      if (out.splittable(qp) && out.nextBytes(qp) > 0) out.piece(qp, 700);
      else out.pass(qp);
    }
  },
});
