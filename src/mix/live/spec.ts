/** The specification of a mix on real devices, in real time. */
import { ConfigError } from '../../verbs/errors.ts';
import type { App } from '../resolve.ts';
import type { MixResult } from '../result.ts';
import type { AppSpec, MixSpec } from '../spec.ts';

/** A run of a mix on real devices. */
export interface LiveSpec
  extends Pick<MixSpec, 'policy' | 'policyOptions' | 'durationNs' | 'warmupNs' | 'seed' | 'apps'> {
  /** Default: 'rdma-core'. With 'soft', each application has devices of its own. */
  provider?: 'rdma-core' | 'soft';
  /** The devices of hosts 0, 1 ...; a single device serves both ends. */
  devices: readonly string[];
}

/** The result of a simulated mix, without the fields that only a simulation has. */
export interface LiveResult extends Omit<MixResult, 'events' | 'packets' | 'traceHash' | 'timeline'> {
  /** Messages whose bytes were checked at their destination. */
  readonly verified: number;
}

/** Defaults of the command line. */
export const LIVE_DEFAULTS = Object.freeze({ durationNs: 5e9, warmupNs: 1e9 });

/** The most memory that both ends of an application may take. */
const MAX_BYTES = 2 ** 30;
const GRH_BYTES = 40;
const MIN_RECEIVES = 16;

/** The message buffers of a queue pair: each message that may be outstanding has its own buffer at both ends. */
export interface MessageBuffers {
  /** Number of buffers at the source of the data, and at its destination. */
  readonly from: number;
  readonly to: number;
  readonly fromBytes: number;
  readonly toBytes: number;
  /** Bytes before the message at the destination: the GRH of a datagram. */
  readonly headerBytes: number;
}

/** Rejects keys that only simulated devices have. @throws ConfigError */
export function requireLiveKeys(apps: readonly AppSpec[]): void {
  for (const app of apps) {
    const { cores, contexts, qpLifeNs, contextLifeNs, burst } = app;
    if (cores !== undefined) {
      throw new ConfigError(
        'cores is for simulated devices; on a real device each app posts and polls in one thread',
      );
    }
    requireOneBuffer(app);
    if (app.op === 'cas' || app.op === 'register') {
      throw new ConfigError(`op=${app.op} is for simulated devices: use atomic, or another operation`);
    }
    if ([contexts, qpLifeNs, contextLifeNs, burst].every((key) => key === undefined)) continue;
    throw new ConfigError(
      'contexts, qpLife, contextLife and burst are for simulated devices: leave them out',
    );
  }
}

/** @throws ConfigError for keys of memory and receives that only simulated devices have */
function requireOneBuffer({ regions, regionBytes, buffers, receives, rnrTimer }: AppSpec): void {
  if ([regions, regionBytes, buffers, receives, rnrTimer].every((key) => key === undefined)) return;
  throw new ConfigError(
    'regions, regionSize, buffers, receives and rnrTimer are for simulated devices: leave them out',
  );
}

/** The buffers that an application needs. @throws ConfigError when they take too much memory */
export function messageBuffersOf(app: App): MessageBuffers {
  const outstanding = Math.floor(app.depth / app.batch) * app.batch;
  const headerBytes = app.transport === 'ud' ? GRH_BYTES : 0;
  const buffers = {
    from: outstanding,
    // More receives than messages: a receive is reposted only some time after its message was acknowledged.
    to: app.op === 'send' ? Math.max(2 * outstanding, MIN_RECEIVES) : outstanding,
    fromBytes: app.maxBytes,
    toBytes: app.maxBytes + headerBytes,
    headerBytes,
  };
  const bytes = app.qps * (buffers.from * buffers.fromBytes + buffers.to * buffers.toBytes);
  if (bytes > MAX_BYTES) {
    throw new ConfigError(
      `app ${app.name}: ${app.qps} queue pairs with ${outstanding} outstanding messages of ${app.maxBytes} bytes need ${bytes} bytes of memory; at most ${MAX_BYTES} are allowed`,
    );
  }
  return buffers;
}
