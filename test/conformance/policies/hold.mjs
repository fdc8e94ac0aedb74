// @ts-nocheck
/** Holds all requests and issues one at a time. */
export default () => ({
  name: 'one-by-one',
  needs: { wait: 'none' },
  slots: 4,
  onload: () => 0,
  feed(qp, out) {
    if (out.inflight(qp) === 0 && out.room(qp) > 0) out.pass(qp);
  },
});
