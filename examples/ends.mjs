// @ts-nocheck
// Shared by the short examples: two ends in one process. By default they use the simulated devices sim0 and sim1, or the
// device that ISOVERBS_DEVICE or ISOVERBS_PROVIDER selects. --device NAME selects a device for both, --device NAME,NAME
// one for each.
import { parseArgs } from 'node:util';
import { getDeviceList, openDevice } from 'isoverbs';

const ALL = { remoteRead: true, remoteWrite: true, remoteAtomic: true, mwBind: true };

/** Names of the devices of both ends. `device` is the value of --device, if it was given. */
export function deviceNames(device) {
  const { ISOVERBS_DEVICE, ISOVERBS_PROVIDER = 'sim' } = process.env;
  const other = ISOVERBS_PROVIDER === 'sim' ? 'sim0,sim1' : getDeviceList()[0]?.name;
  const [first, second = first] = (device ?? (ISOVERBS_DEVICE || other))?.split(',') ?? [];
  return [first, second];
}

/** Opens one end: a device with a protection domain, a completion queue and a page of memory. */
function openEnd(device) {
  const context = openDevice(device);
  const pd = context.allocPd();
  return { context, pd, cq: context.createCq(), mr: pd.allocate(4096, { access: ALL }) };
}

/** Opens both ends. */
export function openEnds() {
  const { device } = parseArgs({ options: { device: { type: 'string' } } }).values;
  return deviceNames(device).map(openEnd);
}

/** Opens two ends with a reliable connection; read-write.mjs shows how to create one. */
export function connectedEnds(cap) {
  const [a, b] = openEnds();
  for (const end of [a, b]) end.qp = end.pd.createQp({ sendCq: end.cq, cap });
  a.qp.connectTo(b.qp.endpoint());
  b.qp.connectTo(a.qp.endpoint());
  return [a, b];
}

/** Writes text into memory; returns the scatter/gather element that covers it. */
export function put(mr, text, offset = 0) {
  mr.bytes.set(new TextEncoder().encode(text), offset);
  return { mr, offset, length: text.length };
}

/** Reads text from memory. */
export function text(mr, offset, length) {
  return new TextDecoder().decode(mr.bytes.slice(offset, offset + length));
}
