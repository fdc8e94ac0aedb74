/**
 * Measures a pass of the coordinator, which reads all counters and writes all grants, without a socket. It measures CPU
 * time, which other load on the machine does not affect.
 */
import * as M from '#src/coordinator/member-table.ts';
import { Client } from '#src/daemon/devices.ts';
import { Host } from '#src/daemon/host.ts';
import type { Row } from '#src/daemon/pages.ts';
import { NO_LABELS } from '#src/daemon/rules.ts';
import * as C from '#src/policies/perf/columns.ts';
import { master } from '#src/policies/perf/master.ts';
import { cppLoop } from '../against-cpp/null-loops.ts';
import { DEVICE } from './daemon-process.ts';
import { columnsOf, RATED_AT, RULINGS, SHAPE, seatRow } from './layout.ts';

const WARM_UP = 50;
const CHANGE_EVERY_NS = 1e6;

/** Pages in ordinary memory. */
function makePages() {
  return {
    counters: new Float64Array(SHAPE.reportsBytes / 8),
    grants: new Float64Array(SHAPE.grantsBytes / 8),
  };
}

export interface PassTimes {
  /** Nanoseconds of passes after one client rang. */
  readonly ring: number[];
  /** Nanoseconds of scans of all counters, one of which has changed. */
  readonly scan: number[];
}

function joinTenants(host: Host, tenants: number, contexts: number): { client: Client; columns: Row }[] {
  const members: { client: Client; columns: Row }[] = [];
  for (let i = 0; i < tenants; i++) {
    const identity = { tenant: `t${i}`, weight: 1 + (i % 3), gbps: null, labels: NO_LABELS, maxQps: 0 };
    const client = new Client({ ...identity, maxRequestsPerS: 0, hasTenants: false }, makePages(), i + 1);
    for (let slot = 0; slot < (i < contexts - tenants ? 2 : 1); slot++) {
      const columns = seatRow(client.pages, slot);
      columns.counters[RATED_AT] = 1;
      const { reports } = columnsOf(columns, master);
      reports[C.ACTIVE_QPS] = 1;
      reports[C.CLASS] = [C.DELAY, C.MESSAGES, C.BANDWIDTH][i % 3];
      reports[C.MEAN_BYTES] = 1 << (6 + (i % 15));
      const why = host.join(client, slot, DEVICE, 0);
      if (why !== null) throw new Error(why);
      members.push({ client, columns });
    }
  }
  return members;
}

/** Measures `passes` of both kinds. Before each, a member changes state, so that all rates change. */
export function passTimes(tenants: number, contexts: number, passes: number): PassTimes {
  const host = new Host({
    rulings: RULINGS,
    linkGbps: () => 100,
  });
  const members = joinTenants(host, tenants, contexts);
  const { threadCpuNs } = cppLoop();
  const times: PassTimes = { ring: [], scan: [] };
  for (let i = 0; i < WARM_UP + 2 * passes; i++) {
    const atNs = i * CHANGE_EVERY_NS;
    for (const { columns } of members) columns.counters[M.HEARTBEAT]++;
    // This member belongs to a tenant with one context, so that its leaving changes the shares of all others.
    const { client, columns } = members[members.length - 1 - (i % (2 * tenants - contexts))];
    columns.counters[RATED_AT] = 1 - columns.counters[RATED_AT];
    const isRing = i % 2 === 0;
    const startNs = threadCpuNs();
    if (isRing) {
      host.markDirty(client);
      host.pass(atNs);
    } else host.fullPass(atNs);
    const timeNs = threadCpuNs() - startNs;
    host.takeClientsToNotify();
    if (i >= WARM_UP) times[isRing ? 'ring' : 'scan'].push(timeNs);
  }
  return times;
}
