/** A mixture on real devices, in real time. */
import { ConfigError } from '../../verbs/errors.ts';
import type { App } from '../resolve.ts';
import type { MixResult } from '../result.ts';
import type { MixSpec } from '../spec.ts';

/** A run of a mixture on real devices. */
export interface LiveSpec
  extends Pick<MixSpec, 'policy' | 'policyOptions' | 'durationNs' | 'warmupNs' | 'seed' | 'apps'> {
  /** The devices that stand for hosts 0, 1 ...; one alone stands for both ends. */
  devices: readonly string[];
}

/** As of a simulation, but for what only a simulation knows. */
export interface LiveResult extends Omit<MixResult, 'events' | 'packets' | 'traceHash' | 'timeline'> {
  /** Messages whose bytes were looked at where they had to arrive. */
  readonly verified: number;
}

/** What the command line has when nothing is said. */
export const LIVE_DEFAULTS = Object.freeze({ durationNs: 5e9, warmupNs: 1e9 });

/** Both ends of an application take no more than this. */
const MAX_BYTES = 2 ** 30;
const GRH_BYTES = 40;
const MIN_RECEIVES = 16;

/** Where each message of a queue pair is: each that may be outstanding has a slot of its own at both ends. */
export interface MessageBuffers {
  /** Of the side that the data comes from, and of the one that it goes to. */
  readonly from: number;
  readonly to: number;
  readonly fromBytes: number;
  readonly toBytes: number;
  /** Bytes of a slot before the message: where a datagram has its header. */
  readonly headerBytes: number;
}

/** @throws ConfigError where that is too much memory */
export function messageBuffersOf(app: App): MessageBuffers {
  const outstanding = Math.floor(app.depth / app.batch) * app.batch;
  const headerBytes = app.transport === 'ud' ? GRH_BYTES : 0;
  const buffers = {
    from: outstanding,
    // More receives than may be outstanding: a receive is posted again some time after its message was acknowledged.
    to: app.op === 'send' ? Math.max(2 * outstanding, MIN_RECEIVES) : outstanding,
    fromBytes: app.maxBytes,
    toBytes: app.maxBytes + headerBytes,
    headerBytes,
  };
  const bytes = app.qps * (buffers.from * buffers.fromBytes + buffers.to * buffers.toBytes);
  if (bytes > MAX_BYTES) {
    throw new ConfigError(
      `app ${app.name}: ${app.qps} queue pairs with ${outstanding} messages of ${app.maxBytes} bytes outstanding need ${bytes} bytes, more than ${MAX_BYTES}`,
    );
  }
  return buffers;
}
