// A policy that passes everything and reports the labels of each context's first queue pair, one after another, and the
// weights of its groups.
/**
 * @import { Actions, ContextView, QpChange, QpView } from '../../src/shim/policy.ts'
 * @typedef {{ device: string, tenant: string, seen: string[], groups: string[] }} Log
 */

class LabelLog {
  name = 'label-log';
  needs = { wait: 'none' };
  slots = 0;
  /** @type {Log[]} by index of the context */
  contexts = [];

  /** @param {QpView} qp @param {QpChange} change */
  onQp({ context, labels }, change) {
    const { weight, group, qpWeight, traffic } = labels;
    if (change === 'created' || change === 'labels')
      this.log(context).seen.push(`${weight} ${group} ${qpWeight} ${traffic}`);
  }

  /** @param {ContextView} context @param {string} name @param {number} weight */
  onGroup(context, name, weight) {
    this.log(context).groups.push(`${name} ${weight}`);
  }

  /** @param {ContextView} context */
  log({ index, device, tenant }) {
    this.contexts[index] ??= { device, tenant, seen: [], groups: [] };
    return this.contexts[index];
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
    return Object.values(this.contexts).map(({ device, tenant, seen, groups }) => ({
      device,
      tenant,
      kind: seen.join(', '),
      because: '',
      does: groups.join(', '),
      why: '',
    }));
  }
}

export default () => new LabelLog();
