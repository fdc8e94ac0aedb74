/** Connects the queue pairs of a test by rdma_cm (-R). */
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

/** Status of a rejection because nothing listens. perftest's server tells the client to connect before it listens. */
const INVALID_SERVICE_ID = 8;
const TRIES = 20;
const PAUSE_MS = 100;

/** Queue pairs in RESET, and the parameters of their connections. */
export interface UnconnectedQps {
  readonly pd: ProtectionDomain;
  readonly sendCq: CompletionQueue;
  readonly qps: readonly QueuePair[];
  /** READs and atomics in flight at once. */
  readonly outReads: number;
}

function optionsFor({ pd, sendCq, qps, outReads }: UnconnectedQps, index: number): CmConnectionOptions {
  const reads = { responderResources: outReads, initiatorDepth: outReads };
  return { pd, sendCq, createQp: () => qps[index], ...reads };
}

/** Connects the queue pairs one after another. @throws CmError, ConnectionError */
export async function connectQps(
  env: CmEnvironment,
  address: CmAddress & { server: string },
  unconnected: UnconnectedQps,
): Promise<void> {
  const { server: host, port, source_ip: localAddress } = address;
  for (let index = 0; index < unconnected.qps.length; index++) {
    const options = { ...optionsFor(unconnected, index), host, port, localAddress };
    const connection = await retryUntilListening(() => connect(env, options));
    connection.unref();
  }
}

/** Retries a call while the server does not listen yet. */
async function retryUntilListening<T>(call: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await call();
    } catch (error) {
      const isAbsent =
        error instanceof CmError &&
        error.event === 'REJECTED' &&
        error.status === INVALID_SERVICE_ID &&
        tries < TRIES;
      if (!isAbsent) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

/** Accepts one connection per queue pair; `listening` runs when the other end may start to connect. */
export async function acceptQps(
  env: CmEnvironment,
  address: CmAddress,
  unconnected: UnconnectedQps,
  listening: () => Promise<void>,
): Promise<void> {
  const server = new Server(env);
  let requested = 0;
  let connected = 0;
  let timer: NodeJS.Timeout | undefined;
  const all = new Promise<void>((resolve, reject) => {
    server.on('error', reject);
    server.on('connectRequest', (request) => {
      const index = requested++;
      if (index >= unconnected.qps.length) return request.reject();
      request.accept(optionsFor(unconnected, index)).then((connection) => {
        connection.unref();
        if (++connected === unconnected.qps.length) resolve();
      }, reject);
    });
    server.listen({ port: address.port, host: address.source_ip, backlog: unconnected.qps.length }, () => {
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
