/** The device of DRUM's testbed, which keeps 20 contexts of queue pairs; and loads that share it. */
import { type Mix, mix } from '../engine/claim.ts';

export const onTestbed = (apps: readonly string[], more: Partial<Mix> = {}): Mix =>
  mix('cx5-40g', apps, { duration: '10ms', ...more });
/** With its cache of contexts, beyond which DRUM II-D sees the rate fall. */
export const cached = (apps: readonly string[], more: Partial<Mix> = {}): Mix =>
  onTestbed(apps, { set: { qpcEntries: 20 }, ...more });

/** Batches of requests on one queue pair, or on several. */
export const batches = (size: string, batch: number, qps = 1) =>
  `M:name=bg,size=${size},batch=${batch},depth=${batch},qps=${qps}`;
/** One message at a time. */
export const foreground = (size: string) => `D:name=fg,size=${size},think=1us`;
/** Batches, as the background of several connections is assumed. */
export const others = (connections: number) => batches('1KB', 20, connections - 1);
