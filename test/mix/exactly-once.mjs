// An interceptor that throws unless each signaled request completes successfully, once, and in order. policyStates()
// reports the requests of each queue pair: those completed, and those outstanding now or when it was destroyed.
/** @import { Interceptor } from '../../src/shim/compose.ts' */

// From src/verbs/layout.ts and src/verbs/constants.ts.
const HEADER_WORDS = 16;
const SLOT_WORDS = 16;
const WR_OP = 2;
const WC_OP = 2;
const WC_QP = 5;
const WC_SEQ = 6;
const WC_RECV_SIDE = 1 << 24;
const IBV_SEND_SIGNALED = 2;

/** @typedef {{ device: string, tenant: string, signaled: number[], posted: number, completed: number }} Sends */

/** @param {number} start @param {number} i */
const slotAt = (start, i) => HEADER_WORDS + (start + i) * SLOT_WORDS;

/** @param {Sends} sends @param {Uint32Array} words @param {number} start @param {number} count */
function post(sends, words, start, count) {
  for (let i = 0; i < count; i++) {
    const flags = (words[slotAt(start, i) + WR_OP] >>> 8) & 0xff;
    if ((flags & IBV_SEND_SIGNALED) !== 0) sends.signaled.push(sends.posted);
    sends.posted++;
  }
}

/** @param {Sends} sends @param {Uint32Array} words @param {number} at */
function complete(sends, words, at) {
  const expected = sends.signaled.shift();
  const [status, seq] = [words[at + WC_OP] & 0xff, words[at + WC_SEQ]];
  if (seq !== expected || status !== 0) {
    throw new Error(`${sends.tenant}: request ${seq} completed with ${status} instead of ${expected}`);
  }
  sends.completed++;
}

/** @returns {Interceptor} */
export default () => ({
  name: 'exactly-once',
  wrap(next) {
    /** @type {Map<number, { device: string, tenant: string }>} contexts and protection domains */
    const owners = new Map();
    /** @type {Map<number, Uint32Array>} */
    const wrs = new Map();
    /** @type {Map<number, Uint32Array>} */
    const wcs = new Map();
    /** @type {Map<number, Sends>} */
    const qps = new Map();
    /** @type {Sends[]} */
    const all = [];
    return {
      openDevice(device, options) {
        const context = next.openDevice(device, options);
        owners.set(context, { device, tenant: options?.tenant ?? '' });
        return context;
      },
      allocPd(context) {
        const pd = next.allocPd(context);
        owners.set(pd, owners.get(context) ?? { device: '', tenant: '' });
        return pd;
      },
      createWrRing(capacity, sges, inlineBytes) {
        const info = next.createWrRing(capacity, sges, inlineBytes);
        wrs.set(info.handle, new Uint32Array(info.memory));
        return info;
      },
      createWcRing(capacity) {
        const info = next.createWcRing(capacity);
        wcs.set(info.handle, new Uint32Array(info.memory));
        return info;
      },
      createQp(pd, attr) {
        const info = next.createQp(pd, attr);
        const owner = owners.get(pd) ?? { device: '', tenant: '' };
        const sends = { ...owner, signaled: [], posted: 0, completed: 0 };
        qps.set(info.handle, sends);
        all.push(sends);
        return info;
      },
      postSend(qp, ring, start, count) {
        const accepted = next.postSend(qp, ring, start, count);
        const [sends, words] = [qps.get(qp), wrs.get(ring)];
        if (sends !== undefined && words !== undefined) post(sends, words, start, accepted);
        return accepted;
      },
      pollCq(cq, ring, start, max) {
        const polled = next.pollCq(cq, ring, start, max);
        const words = wcs.get(ring);
        for (let i = 0; words !== undefined && i < polled; i++) {
          const at = slotAt(start, i);
          const sends = qps.get(words[at + WC_QP]);
          if (sends !== undefined && (words[at + WC_OP] & WC_RECV_SIDE) === 0) complete(sends, words, at);
        }
        return polled;
      },
      policyStates: () => [
        ...(next.policyStates?.() ?? []),
        ...all
          .filter(({ posted }) => posted > 0)
          .map(({ device, tenant, signaled, completed }) => ({
            ...{ policy: 'exactly-once', device, tenant, kind: `${completed}`, because: '' },
            ...{ does: `${signaled.length}`, why: '' },
          })),
      ],
    };
  },
});
