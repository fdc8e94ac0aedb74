/** A process of processes.ts: runs one application, from opening its contexts to its result. */
import { once } from 'node:events';
import { setRemoteCoordinators } from '../../coordinator/registry.ts';
import { DaemonClient } from '../../daemon/client/client.ts';
import { policyInterceptors } from '../../drivers/index.ts';
import { factsOfProcess } from '../../providers/facts.ts';
import { setAssertions } from '../../shim/assertions.ts';
import { compose } from '../../shim/compose.ts';
import { IsoverbsError, NoDaemonError } from '../../verbs/errors.ts';
import { LiveApp } from './app.ts';
import { Clock } from './clock.ts';
import type { ProcessJob, ProcessMessage, ProcessStart } from './protocol.ts';
import { liveProvider } from './provider.ts';

/** Warnings of the daemon's client. After any of them, the policy may not do what the daemon decides. */
const warnings: string[] = [];

/** Makes the policies of this process clients of the daemon. */
function join(socket: string, tenant: string): DaemonClient {
  const report = (line: string, isWarning: boolean) => {
    if (isWarning) warnings.push(line);
  };
  const client = new DaemonClient({ socket, hello: { tenant }, report });
  setRemoteCoordinators((device) => client.coordinator(device));
  return client;
}

let client: DaemonClient | null = null;

function requireDaemon(): void {
  if (warnings.length > 0) throw new NoDaemonError(warnings[0]);
}

/** The error of a run: once the daemon has gone, an error without a code follows from that. */
function reasonOf(error: unknown, { socket }: ProcessJob): Error {
  const own = error as Error;
  const isGone = client !== null && !client.isConnected;
  if (!isGone || own instanceof IsoverbsError) return own;
  return new NoDaemonError(warnings[0] ?? `no connection to the daemon at ${socket}: ${own.message}`);
}

/** Resolves once the message is sent: what a killed process has not yet sent is lost. */
const send = (message: ProcessMessage) =>
  new Promise<void>((resolve, reject) => {
    process.send!(message, (error: Error | null) => (error === null ? resolve() : reject(error)));
  });

async function run({ app, spec, policyOptions, socket }: ProcessJob): Promise<void> {
  client = socket === null ? null : join(socket, app.tenant);
  const policies = spec.policy === 'none' ? [] : [{ name: spec.policy, options: { ...policyOptions } }];
  const provider = compose(liveProvider(spec), [
    ...policyInterceptors('inline', policies),
    ...factsOfProcess(),
  ]);
  const clock = new Clock();
  const live = new LiveApp(app, provider, spec, clock);
  requireDaemon();
  const started = once(process, 'message');
  await send({ kind: 'ready' });
  const [{ zeroNs }] = (await started) as [ProcessStart];
  clock.zeroAt(zeroNs);
  const outcome = live.run();
  requireDaemon();
  live.close();
  client?.finish();
  await send({ kind: 'done', outcome });
}

if (process.env.ISOVERBS_ASSERT === '1') setAssertions(true);
// Without the command that started it, the process has nothing to do.
process.once('disconnect', () => process.exit());
const [job] = (await once(process, 'message')) as [ProcessJob];
try {
  await run(job);
} catch (error) {
  const reason = reasonOf(error, job);
  const code = reason instanceof IsoverbsError ? reason.code : null;
  await send({ kind: 'failed', code, message: reason.message });
}
