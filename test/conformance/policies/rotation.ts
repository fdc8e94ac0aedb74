/** PeRF with tenant slots, next to a tenant that always requests the next slot and never gives it up. */
import { Coordinator } from '../../../src/coordinator/coordinator.ts';
import * as M from '../../../src/coordinator/member-table.ts';
import { CoordinatorRegistry } from '../../../src/coordinator/registry.ts';
import { BANDWIDTH, HELD_DEMAND } from '../../../src/policies/perf/columns.ts';
import { perfOptions } from '../../../src/policies/perf/options.ts';
import { Perf } from '../../../src/policies/perf/perf.ts';
import type { Interceptor } from '../../../src/shim/compose.ts';
import { createShim } from '../../../src/shim/shim.ts';
import { withWait } from '../../../src/shim/wait/wait-support.ts';
import { report } from '../../support/columns.ts';

const CAPACITY = 64;

function besideRival(): Coordinator {
  const coordinator = new Coordinator(
    new M.MemberTable(new ArrayBuffer(M.memberTableBytes(CAPACITY)), CAPACITY),
  );
  const rival = coordinator.join('rival')!;
  report(rival, { class: BANDWIDTH, activeQps: 1, largeQps: 1 });
  report(rival, { slotDemand: HELD_DEMAND });
  return coordinator;
}

export function rotation(options: Record<string, unknown>): Interceptor {
  const coordinator = new CoordinatorRegistry(besideRival);
  const parsed = perfOptions.parse({ isolation: 'always', rotation: 'on', ...options });
  return withWait(
    createShim(() => new Perf(parsed, coordinator), { coordinator }),
    'preferred',
  );
}
