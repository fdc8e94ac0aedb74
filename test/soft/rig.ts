// User-space RoCE devices for tests: each file uses addresses of its own in 127.0.0.0/8, because the port of an address
// belongs to one process.
import { Context, type ProtectionDomain } from '../../src/objects/index.ts';
import { createSoftNetwork, type SoftNetwork, type SoftOptions } from '../../src/providers/soft/index.ts';
import { whyNoUdp } from '../../src/providers/soft/native.ts';

/** Why these tests cannot run here; null if they can. */
export const absent = whyNoUdp();

/** Two devices, soft0 and soft1, at 127.`net`.0.1 and 127.`net`.0.2. */
export function twoDevices(net: number, options: SoftOptions = {}): SoftNetwork {
  return createSoftNetwork({ addresses: [`127.${net}.0.1`, `127.${net}.0.2`], ...options });
}

/** An open device with a queue pair and memory that its peer may use. */
export function openEnd(network: SoftNetwork, device: string, bytes = 1 << 16) {
  const context = new Context(network.provider, device, {});
  const pd: ProtectionDomain = context.allocPd();
  const cq = context.createCq({ cqe: 256 });
  const qp = pd.createQp({ sendCq: cq, recvCq: cq });
  const access = { remoteWrite: true, remoteRead: true, remoteAtomic: true };
  const mr = pd.allocate(bytes, { access });
  return { context, pd, cq, qp, mr };
}

export type End = ReturnType<typeof openEnd>;

/** Two connected ends, on different devices. */
export function pairOf(network: SoftNetwork, bytes?: number): [End, End] {
  const ends: [End, End] = [openEnd(network, 'soft0', bytes), openEnd(network, 'soft1', bytes)];
  ends[0].qp.connectTo(ends[1].qp.endpoint());
  ends[1].qp.connectTo(ends[0].qp.endpoint());
  return ends;
}
