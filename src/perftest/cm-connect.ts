/** Connecting the queue pairs of a test by rdma_cm (-R). */
import type { CompletionQueue, ProtectionDomain, QueuePair } from '../objects/index.ts';
import {
  type CmConnectionOptions,
  type CmEnvironment,
  CmError,
  connect,
  Server,
} from '../objects/rdma-cm/index.ts';
import { ANSWER_TIMEOUT_MS, noAnswerError } from './channel.ts';
import type { CmAddress } from './cm-channel.ts';

/** Nobody listens yet: perftest's server begins to when it has told that it will. */
const INVALID_SERVICE_ID = 8;
const TRIES = 20;
const PAUSE_MS = 100;

/** What connections are made with: queue pairs that are in RESET. */
export interface UnconnectedQps {
  readonly pd: ProtectionDomain;
  readonly sendCq: CompletionQueue;
  readonly qps: readonly QueuePair[];
  /** READs and atomics under way at once. */
  readonly outReads: number;
}

function optionsFor({ pd, sendCq, qps, outReads }: UnconnectedQps, index: number): CmConnectionOptions {
  const reads = { responderResources: outReads, initiatorDepth: outReads };
  return { pd, sendCq, createQp: () => qps[index], ...reads };
}

/** Calls once for each queue pair, in order. @throws CmError, ConnectionError */
export async function connectQps(
  env: CmEnvironment,
  way: CmAddress & { server: string },
  ends: UnconnectedQps,
): Promise<void> {
  const { server: host, port, source_ip: localAddress } = way;
  for (let index = 0; index < ends.qps.length; index++) {
    const options = { ...optionsFor(ends, index), host, port, localAddress };
    const connection = await retryUntilListening(() => connect(env, options));
    connection.unref();
  }
}

/** Until somebody listens. */
async function retryUntilListening<T>(call: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await call();
    } catch (error) {
      const absent =
        error instanceof CmError &&
        error.event === 'REJECTED' &&
        error.status === INVALID_SERVICE_ID &&
        tries < TRIES;
      if (!absent) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

/** Listens for as many calls as there are queue pairs; `listening` runs when the other end may begin. */
export async function acceptQps(
  env: CmEnvironment,
  way: CmAddress,
  ends: UnconnectedQps,
  listening: () => Promise<void>,
): Promise<void> {
  const server = new Server(env);
  let asked = 0;
  let made = 0;
  let timer: NodeJS.Timeout | undefined;
  const all = new Promise<void>((resolve, reject) => {
    server.on('error', reject);
    server.on('connectRequest', (request) => {
      const index = asked++;
      if (index >= ends.qps.length) return request.reject();
      request.accept(optionsFor(ends, index)).then((connection) => {
        connection.unref();
        if (++made === ends.qps.length) resolve();
      }, reject);
    });
    server.listen({ port: way.port, host: way.source_ip, backlog: ends.qps.length }, () => {
      timer = setTimeout(() => reject(noAnswerError()), ANSWER_TIMEOUT_MS);
      listening().catch(reject);
    });
  });
  try {
    await all;
  } finally {
    clearTimeout(timer);
    server.close();
  }
}
