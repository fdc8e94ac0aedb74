/** Texts for the events that end a connection attempt. */
import { getSystemErrorMap } from 'node:util';
import {
  type CmEvent,
  ConnectionError,
  cmEventName,
  EADDRINUSE,
  ETIMEDOUT,
  RDMA_CM_EVENT_ADDR_ERROR,
  RDMA_CM_EVENT_REJECTED,
  RDMA_CM_EVENT_UNREACHABLE,
  RDMA_PS_UDP,
} from '../../verbs/index.ts';
import { OTHER_PROCESS } from '../../verbs/suggestions.ts';

const NO_SERVER = 'no server listens on that port';

/** Reasons of a rejection (ib_cm_rej_reason). */
const REJECTIONS: Record<number, string> = {
  1: 'no queue pair',
  2: 'no end-to-end context',
  3: 'no resources',
  4: 'the client timed out',
  6: 'invalid communication identifier',
  8: NO_SERVER,
  9: 'invalid service type',
  10: 'stale connection',
  11: 'no such route',
  12: 'the port was redirected',
  24: 'the port was redirected',
  28: 'the server rejected the request',
  33: 'the server has another protocol version',
};

/** Outcomes of a datagram service lookup (ib_cm_sidr_status). */
const LOOKUPS: Record<number, string> = {
  1: NO_SERVER,
  2: 'the server rejected the request',
  3: 'no queue pair',
  4: 'the port was redirected',
  5: 'the server has another protocol version',
};

/**
 * The connection manager reported a failure. `event` is the name of the rdma_cm event ('REJECTED', 'UNREACHABLE' ...).
 * `status` is its status, the reason of a rejection or a negative errno. `reason` is the status in words.
 */
export class CmError extends ConnectionError {
  readonly event: string;
  readonly reason: string;
  /** Private data of a rejection, padded with zeros. */
  readonly privateData: Uint8Array;

  constructor(what: string, event: CmEvent, portSpace: number, provider: string) {
    const name = cmEventName(event.event);
    const reason = reasonOf(event, portSpace);
    const text = `${what}: ${name}: ${reason} (status ${event.status})`;
    super(text + adviceOn(event, reason, provider), { status: event.status });
    this.event = name;
    this.reason = reason;
    this.privateData = event.privateData;
    // Keeps a buffer of zeros out of printed errors.
    if (event.privateData?.some((byte) => byte !== 0) !== true)
      Object.defineProperty(this, 'privateData', { enumerable: false });
  }

  /** privateData as text, without the padding. */
  get privateText(): string {
    return textOf(this.privateData);
  }
}

/** The way out, where the provider knows one. */
function adviceOn({ event, status }: CmEvent, reason: string, provider: string): string {
  if (provider === 'sim' && reason === NO_SERVER) return `; ${OTHER_PROCESS}`;
  if (provider !== 'soft') return '';
  if (reason === NO_SERVER) {
    return '; on the loopback interface, each process has an address of its own: a server may be at 127.0.0.2 or a later address, because another program had 127.0.0.1';
  }
  if (event === RDMA_CM_EVENT_UNREACHABLE && status === -ETIMEDOUT) {
    return '; no program has the device with this address open, or UDP port 4791 is blocked';
  }
  if (event === RDMA_CM_EVENT_ADDR_ERROR && status === -EADDRINUSE) {
    return "; another process uses the address that the kernel's routes choose; within this host, `localAddress: 'localhost'` takes a free IPv4 loopback address";
  }
  return '';
}

/** Private data as text, without the zeros that pad it to the size of its message. */
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
