/**
 * Measures how much more a request costs while a daemon is attached but has nothing to isolate: post and poll over
 * the null device (as in bench/against-cpp/shim.ts) under the same policy, alternately without and with a daemon. Both
 * chains run in one process and read their grants with the same code, from their own memory or the daemon's.
 */
import { execFileSync } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { setRemoteCoordinators } from '#src/coordinator/registry.ts';
import { DaemonClient } from '#src/daemon/client/client.ts';
import { createPolicy } from '#src/policies/index.ts';
import { createRdmaCoreProvider } from '#src/providers/rdma-core/index.ts';
import { compose, type Interceptor } from '#src/shim/compose.ts';
import { LIBRARY, type NullQp, openNull } from '../against-cpp/null-device.ts';
import { compare, cppLoop, loop } from '../against-cpp/null-loops.ts';
import { p50, rounded } from '../timing.ts';

const PER_SLICE = 16_000;
const PROCESSES = 3;
const JOIN_TIMEOUT_MS = 5000;
const UNLIMITED_GBPS = 1e5;

/** Declares that the device executes WAIT, so that nothing is emulated below the policy. */
const hardware: Interceptor = { name: 'hardware', wrap: () => ({ wait: 'hardware' }) };
const CHAINS: Record<string, () => Interceptor[]> = {
  'token-bucket': () => [createPolicy('token-bucket', { linkGbps: UNLIMITED_GBPS })],
  perf: () => [createPolicy('perf', {}), hardware],
};

/** Opens the null device on a separate provider, because each provider has its own coordinators. */
const open = (name: string) => openNull(compose({ ...createRdmaCoreProvider() }, CHAINS[name]()));

async function attach(name: string, socket: string): Promise<NullQp> {
  let joined: (() => void) | null = null;
  const isJoined = new Promise<void>((resolve) => {
    joined = resolve;
  });
  const client = new DaemonClient({ socket, hello: {}, report: () => {} });
  client.listen(() => client.isConnected && joined?.());
  setRemoteCoordinators((device) => client.coordinator(device));
  const bench = open(name);
  await Promise.race([
    isJoined,
    delay(JOIN_TIMEOUT_MS).then(() => Promise.reject(new Error('the daemon did not answer'))),
  ]);
  // The daemon answers the join only after the connection is established.
  await delay(200);
  return bench;
}

/** Additional nanoseconds per request, by batch size. */
async function child(name: string, socket: string): Promise<Record<string, number>> {
  const cpp = cppLoop();
  const cpuNs = (bench: NullQp, batch: number) => {
    const start = cpp.threadCpuNs();
    loop(bench, PER_SLICE, batch, true);
    return (cpp.threadCpuNs() - start) / PER_SLICE;
  };
  const alone = open(name);
  cpuNs(alone, 32);
  const attached = await attach(name, socket);
  const more = (batch: number) =>
    compare(
      () => cpuNs(alone, batch),
      () => cpuNs(attached, batch),
    ).moreNs;
  return { batch1: more(1), batch32: more(32) };
}

/** By policy and batch size: the median over several processes. */
export function attachOverheadNs(socket: string): Record<string, { batch1: number; batch32: number }> {
  const script = fileURLToPath(import.meta.url);
  return Object.fromEntries(
    Object.keys(CHAINS).map((name) => {
      const runs = Array.from({ length: PROCESSES }, () =>
        JSON.parse(execFileSync(process.execPath, [script, name, socket], { encoding: 'utf8' })),
      );
      const median = (key: string) => rounded(p50(runs.map((run) => run[key])));
      return [name, { batch1: median('batch1'), batch32: median('batch32') }];
    }),
  );
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  process.env.ISOVERBS_LIBIBVERBS = LIBRARY;
  console.log(JSON.stringify(await child(process.argv[2], process.argv[3])));
  process.exit(0);
}
