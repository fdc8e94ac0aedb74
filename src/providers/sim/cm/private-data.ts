/** Private data of the messages of rdma_cm. */
import { RDMA_PS_UDP } from '../../../verbs/constants.ts';
import type { CmId, FullConnParam } from './objects.ts';

/** Bytes that programs may send in each message. The peer gets all of them, padded with zeros. */
const PRIVATE_DATA = {
  tcp: { request: 56, reply: 196, reject: 148 },
  udp: { request: 180, reply: 136, reject: 136 },
} as const;

/** Limits of an identifier's messages. */
export function limitsOf(id: CmId) {
  return id.portSpace === RDMA_PS_UDP ? PRIVATE_DATA.udp : PRIVATE_DATA.tcp;
}

/** Data as the peer sees it. */
export function padded(data: Uint8Array, length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  bytes.set(data.subarray(0, length));
  return bytes;
}

/** The parameters as the peer sees them: its responder serves what this end initiates. */
export function mirrored(param: FullConnParam, dataBytes: number): FullConnParam {
  const { responderResources, initiatorDepth, privateData } = param;
  return {
    ...param,
    responderResources: initiatorDepth,
    initiatorDepth: responderResources,
    privateData: padded(privateData, dataBytes),
  };
}
