/**
 * Measures the time from a program's first context to its first grant: connection, handshake, mapping of pages,
 * joining, and the pass that grants. Each sample comes from a new process.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type * as M from '#src/coordinator/member-table.ts';
import { DaemonClient } from '#src/daemon/client/client.ts';
import { RATE_GBPS, RATED_QPS, shares } from '#src/policies/token-bucket/shares.ts';
import { nowNs } from '../timing.ts';
import { DEVICE } from './daemon-process.ts';

/** The client's own default, which the daemon never grants. */
const ALONE_GBPS = 12_345;

function child(socket: string): void {
  const client = new DaemonClient({
    socket,
    hello: {},
    standalone: { shares: { rateGbps: ALONE_GBPS } },
    report: () => {},
  });
  const coordinator = client.coordinator(DEVICE);
  // The shim's connection does not keep a program alive.
  const program = setInterval(() => {}, 1000);
  const startNs = nowNs();
  const page = coordinator.join('') as M.MemberPage;
  page.columns(shares).reports[RATED_QPS] = 1;
  const recordGrant = () => {
    if (
      page.columns(shares).grants[RATE_GBPS] === ALONE_GBPS ||
      !(page.columns(shares).grants[RATE_GBPS] > 0)
    )
      return;
    process.send?.(nowNs() - startNs);
    process.disconnect();
    clearInterval(program);
    client.close();
  };
  coordinator.listen(recordGrant, () => {});
}

/** Join times in milliseconds of `processes` processes, started one after another. */
export async function joinTimesMs(socket: string, processes: number): Promise<number[]> {
  const timesMs: number[] = [];
  for (let i = 0; i < processes; i++) {
    const one = fork(fileURLToPath(import.meta.url), [socket]);
    const exited = once(one, 'exit');
    const [timeNs] = await Promise.race([once(one, 'message'), exited]);
    if (!(timeNs > 0)) throw new Error('a process did not join');
    timesMs.push(timeNs / 1e6);
    await exited;
  }
  return timesMs;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) child(process.argv[2]);
