/** How many queue pairs and requests the suite's applications have on real devices of this machine. */
import { availableParallelism, totalmem } from 'node:os';
import { liveProvider } from '../../mix/live/provider.ts';
import type { LiveSpec } from '../../mix/live/spec.ts';
import { type MixApp, mixApp } from '../../mix/mixture.ts';
import type { DeviceAttr } from '../../verbs/types.ts';

/** The limits of an application on a machine. The suite is made for servers with many cores. */
export interface Scale {
  readonly cpus: number;
  /** Queue pairs, and requests outstanding on each. */
  readonly qps: number;
  readonly depth: number;
  /** Memory of both ends: each request has its own buffers. */
  readonly bytes: number;
}

/** An application is one thread, which polls its queue pairs in turn: more of them would only wait for it. */
const QPS_PER_CPU = 4;
const DEPTH_PER_CPU = 8;
/** Two applications with two ends each take half of the queue pairs of a device. */
const DEVICE_SHARE = 8;
/** SENDs have twice as many receives as requests. */
const QUEUE_SHARE = 2;
const MEMORY_SHARE = 8;
const MAX_BYTES = 2 ** 30;
/** An application on a real device is one thread with one context. */
const ONE_THREAD = ['contexts', 'cores'];

/** The scale of this machine with these devices. */
export function scaleOf(spec: Pick<LiveSpec, 'provider' | 'devices'>): Scale {
  const provider = liveProvider(spec);
  const limits = spec.devices.map((name) => {
    const context = provider.openDevice(name);
    try {
      return provider.queryDevice(context);
    } finally {
      provider.closeDevice(context);
    }
  });
  const cpus = availableParallelism();
  return limitedTo(limits, {
    cpus,
    qps: QPS_PER_CPU * cpus,
    depth: DEPTH_PER_CPU * cpus,
    bytes: Math.min(MAX_BYTES, totalmem() / MEMORY_SHARE),
  });
}

/** The scale, reduced to what the devices allow. */
export function limitedTo(
  devices: readonly Pick<DeviceAttr, 'maxQp' | 'maxQpWr' | 'maxCqe'>[],
  scale: Scale,
): Scale {
  const least = (most: number, limits: readonly number[]) =>
    Math.max(1, Math.floor(Math.min(most, ...limits)));
  return {
    ...scale,
    qps: least(
      scale.qps,
      devices.map(({ maxQp }) => maxQp / DEVICE_SHARE),
    ),
    depth: least(
      scale.depth,
      devices.map(({ maxQpWr, maxCqe }) => Math.min(maxQpWr, maxCqe) / QUEUE_SHARE),
    ),
  };
}

/** The application at this scale, as one thread. */
export function scaled({ spec, words }: MixApp, scale: Scale): MixApp {
  const [kind, keys = ''] = words.split(':');
  const { qps = 1, depth = 1, batch = 1 } = spec;
  const few = Math.min(qps, scale.qps);
  const fitting = Math.max(1, Math.min(depth, scale.depth, Math.floor(scale.bytes / (few * bytesOf(spec)))));
  const values: Readonly<Record<string, number>> = {
    qps: few,
    depth: fitting,
    batch: Math.min(batch, fitting),
  };
  const kept = keys
    .split(',')
    .map((text) => text.split('='))
    .filter(([key]) => !ONE_THREAD.includes(key))
    .map(([key, value]) => `${key}=${values[key] ?? value}`);
  return mixApp(`${kind}:${kept.join(',')}`);
}

/** Bytes of the buffers of a request, at both ends. The suite's messages have one size. */
function bytesOf({ op, sizeBytes }: MixApp['spec']): number {
  return Number(sizeBytes) * (op === 'send' ? 1 + QUEUE_SHARE : 2);
}
