/** What the events that end an attempt mean, for people. */
import { getSystemErrorMap } from 'node:util';
import {
  type CmEvent,
  ConnectionError,
  cmEventName,
  RDMA_CM_EVENT_REJECTED,
  RDMA_PS_UDP,
} from '../../verbs/index.ts';

/** Reasons of a rejection (ib_cm_rej_reason). */
const REJECTIONS: Record<number, string> = {
  1: 'no queue pair',
  2: 'no end-to-end context',
  3: 'no resources',
  4: 'the caller gave up',
  6: 'invalid communication identifier',
  8: 'nobody listens on that port',
  9: 'invalid service type',
  10: 'stale connection',
  11: 'no such route',
  12: 'the port was redirected',
  24: 'the port was redirected',
  28: 'the peer said no',
  33: 'the peer is not of this version',
};

/** Outcomes of looking for a datagram service (ib_cm_sidr_status). */
const LOOKUPS: Record<number, string> = {
  1: 'nobody listens on that port',
  2: 'the peer said no',
  3: 'no queue pair',
  4: 'the port was redirected',
  5: 'the peer is not of this version',
};

/**
 * The connection manager said no. `event` is the name of the rdma_cm event ('REJECTED', 'UNREACHABLE' ...),
 * `status` its status: the reason of a rejection, or a negative errno; `reason` the same in words.
 */
export class CmError extends ConnectionError {
  readonly event: string;
  readonly reason: string;
  /** What a peer that said no sent along, padded with zeros. */
  readonly privateData: Uint8Array;

  constructor(what: string, event: CmEvent, portSpace: number) {
    const name = cmEventName(event.event);
    const reason = reasonOf(event, portSpace);
    super(`${what}: ${name}: ${reason} (status ${event.status})`, { status: event.status });
    this.event = name;
    this.reason = reason;
    this.privateData = event.privateData;
  }

  /** privateData as text, without the padding. */
  get privateText(): string {
    return textOf(this.privateData);
  }
}

/** Private data as text: it is padded with zeros to the room of its message. */
export function textOf(privateData: Uint8Array): string {
  const end = privateData.findLastIndex((byte) => byte !== 0) + 1;
  return new TextDecoder().decode(privateData.subarray(0, end));
}

function reasonOf({ event, status }: CmEvent, portSpace: number): string {
  if (status < 0) return getSystemErrorMap().get(status)?.[1] ?? `error ${status}`;
  if (event === RDMA_CM_EVENT_REJECTED) return REJECTIONS[status] ?? `reason ${status}`;
  if (portSpace === RDMA_PS_UDP && LOOKUPS[status] !== undefined) return LOOKUPS[status];
  return 'the connection ended';
}
