/** PeRF with tenant slots, next to a tenant that always requests the next slot and never gives it up. */
import { Coordinator } from '../../../src/coordinator/coordinator.ts';
import * as M from '../../../src/coordinator/member-table.ts';
import { CoordinatorRegistry } from '../../../src/coordinator/registry.ts';
import { perfOptions } from '../../../src/policies/perf/options.ts';
import { Perf } from '../../../src/policies/perf/perf.ts';
import type { Interceptor } from '../../../src/shim/compose.ts';
import { createShim } from '../../../src/shim/shim.ts';
import { withWait } from '../../../src/shim/wait/wait-support.ts';

const CAPACITY = 64;

function besideRival(): Coordinator {
  const coordinator = new Coordinator(
    new M.MemberTable(new ArrayBuffer(M.memberTableBytes(CAPACITY)), CAPACITY),
  );
  const { counters } = coordinator.join('rival')!;
  counters[M.CLASS] = M.BANDWIDTH;
  counters[M.ACTIVE_QPS] = 1;
  counters[M.LARGE_QPS] = 1;
  counters[M.SLOT_DEMAND] = M.HELD_DEMAND;
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
