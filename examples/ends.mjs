// @ts-nocheck
// What the short examples share: two open ends in one process. Without arguments they are the simulated
// devices sim0 and sim1; --device NAME takes a real one for both, --device NAME,NAME one for each.
import { parseArgs } from 'node:util';
import { openDevice } from 'isoverbs';

const ALL = { remoteRead: true, remoteWrite: true, remoteAtomic: true, mwBind: true };

/** One end: an open device with a protection domain, a completion queue and a page of memory. */
function openEnd(device) {
  const context = openDevice(device);
  const pd = context.allocPd();
  return { context, pd, cq: context.createCq(), mr: pd.allocate(4096, { access: ALL }) };
}

export function openEnds() {
  const { device } = parseArgs({ options: { device: { type: 'string', default: 'sim0,sim1' } } }).values;
  const [first, second = first] = device.split(',');
  return [openEnd(first), openEnd(second)];
}

/** Two ends with a reliable connection; read-write.mjs shows how one is made. */
export function connectedEnds(cap) {
  const [a, b] = openEnds();
  for (const end of [a, b]) end.qp = end.pd.createQp({ sendCq: end.cq, cap });
  a.qp.connectTo(b.qp.endpoint());
  b.qp.connectTo(a.qp.endpoint());
  return [a, b];
}

/** Puts text into memory. */
export function put(mr, text, offset = 0) {
  mr.bytes.set(new TextEncoder().encode(text), offset);
  return { mr, offset, length: text.length };
}

/** The text in memory. */
export function text(mr, offset, length) {
  return new TextDecoder().decode(mr.bytes.slice(offset, offset + length));
}
