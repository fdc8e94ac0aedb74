/** Invariants of every run of a mix, in addition to those of every simulation. */
import { COMPLETED, type Meter } from './meter.ts';
import type { App } from './resolve.ts';

/**
 * Describes each invariant that an application breaks, one sentence each.
 * @param addedBytes the most bytes that shims add to a message, which count as delivered
 * @param sharesArrivals whether bytes of its messages may arrive on queue pairs of another application
 */
export function brokenInvariants(app: App, meter: Meter, addedBytes = 0, sharesArrivals = false): string[] {
  const broken: string[] = [];
  const { posted, errors, outstanding } = meter;
  const completed = meter.sums[COMPLETED];
  if (posted !== completed + errors + outstanding) {
    broken.push(
      `${app.name}: ${posted} requests were posted, but ${completed} completed, ${errors} failed and ${outstanding} are outstanding`,
    );
  }
  if (app.isRegistering) return broken;
  if (outstanding < 0 || outstanding > app.depth * app.qps) {
    broken.push(
      `${app.name}: ${outstanding} requests are outstanding on ${app.qps} queue pairs of depth ${app.depth}`,
    );
  }
  if (sharesArrivals) return broken;
  const bytes = meter.deliveredBytes();
  const { minBytes, maxBytes, replyBytes } = app;
  const replies = replyBytes === 0 ? '' : ` and answers of ${replyBytes}`;
  const added = replyBytes === 0 ? addedBytes : 2 * addedBytes;
  if (bytes > posted * (maxBytes + replyBytes + added)) {
    broken.push(
      `${app.name}: ${bytes} bytes were delivered, more than ${posted} messages of ${maxBytes} bytes${replies} hold`,
    );
  }
  // The sender of an unreliable message never learns whether it arrived.
  if (app.transport === 'rc' && errors === 0 && bytes < completed * (minBytes + replyBytes)) {
    broken.push(
      `${app.name}: ${completed} messages of ${minBytes} bytes${replies} completed, but only ${bytes} bytes arrived`,
    );
  }
  return broken;
}
