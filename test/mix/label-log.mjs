// A policy that passes everything and reports the labels of each context's first queue pair, one after another.
/**
 * @import { Actions, QpChange, QpView } from '../../src/shim/policy.ts'
 * @typedef {{ device: string, tenant: string, seen: string[] }} Log
 */

class LabelLog {
  name = 'label-log';
  needs = { wait: 'none' };
  slots = 0;
  /** @type {Log[]} by index of the context */
  contexts = [];

  /** @param {QpView} qp @param {QpChange} change */
  onQp({ context, labels }, change) {
    const { device, tenant } = context;
    this.contexts[context.index] ??= { device, tenant, seen: [] };
    const { weight, group, qpWeight, traffic } = labels;
    if (change === 'created' || change === 'labels')
      this.contexts[context.index].seen.push(`${weight} ${group} ${qpWeight} ${traffic}`);
  }

  /** @param {QpView} _qp @param {Uint32Array} _words @param {number} _start @param {number} count */
  onload(_qp, _words, _start, count) {
    return count;
  }

  /** @param {QpView} qp @param {Actions} out */
  feed(qp, out) {
    while (out.backlog(qp) > 0 && out.room(qp) > 0) out.pass(qp);
  }

  inspect() {
    return Object.values(this.contexts).map(({ device, tenant, seen }) => ({
      device,
      tenant,
      kind: seen.join(', '),
      because: '',
      does: '',
      why: '',
    }));
  }
}

export default () => new LabelLog();
