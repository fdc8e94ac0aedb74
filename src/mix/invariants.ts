/** What must hold after every run of a mix, beside what must hold of every simulation. */
import { COMPLETED, type Meter } from './meter.ts';
import type { App } from './resolve.ts';

/** Sentences about what does not hold of an application. */
export function brokenInvariants(app: App, meter: Meter): string[] {
  const broken: string[] = [];
  const { posted, errors, outstanding } = meter;
  const completed = meter.sums[COMPLETED];
  if (posted !== completed + errors + outstanding) {
    broken.push(
      `${app.name}: ${posted} requests posted, but ${completed} completed, ${errors} failed and ${outstanding} outstanding`,
    );
  }
  if (outstanding < 0 || outstanding > app.depth * app.qps) {
    broken.push(`${app.name}: ${outstanding} requests outstanding at a depth of ${app.depth}`);
  }
  const bytes = meter.deliveredBytes();
  if (bytes > posted * app.maxBytes) {
    broken.push(`${app.name}: ${bytes} bytes were delivered of ${posted} messages of ${app.maxBytes}`);
  }
  // Nobody knows what became of an unreliable message.
  if (app.transport === 'rc' && errors === 0 && bytes < completed * app.minBytes) {
    broken.push(
      `${app.name}: ${completed} messages of ${app.minBytes} completed, but ${bytes} bytes arrived`,
    );
  }
  return broken;
}
