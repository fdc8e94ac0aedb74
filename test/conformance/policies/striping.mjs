// @ts-nocheck
/** Stripes long messages over queue pairs and their twins. */
class StripingInWorker {
  name = 'striping-in-worker';
  needs = { wait: 'none' };
  slots = 16;
  of = [];

  setup(resources) {
    this.of[resources.context.index] = { resources, kind: resources.twins({ depth: 8 }) };
  }

  onload = () => 0;

  feed(qp, out) {
    const { resources, kind } = this.of[qp.context.index];
    const twin = resources.twin(qp, kind);
    while (out.backlog(qp) > 0) {
      if (twin !== null && out.nextBytes(qp) > 500 && out.pieceOn(qp, twin, 500) > 0) continue;
      const isCut = out.splittable(qp) && out.nextBytes(qp) > 500;
      const room = out.room(qp);
      if (room === 0 || (isCut && out.inflight(qp) > 3)) return;
      if (isCut && room > 1) out.piece(qp, 500);
      else out.pass(qp);
    }
  }
}

export default () => new StripingInWorker();
