/**
 * Simulates many clients of a daemon in a few processes: each client has its own connection, pages and tenant, like a
 * process under `isoverbs run`, but runs no program.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import * as M from '#src/coordinator/member-table.ts';
import { type Connection, connect } from '#src/daemon/client/connection.ts';
import type { Row } from '#src/daemon/pages.ts';
import * as C from '#src/policies/perf/columns.ts';
import { master } from '#src/policies/perf/master.ts';
import { clientUids, DEVICE } from './daemon-process.ts';
import { columnsOf, RATED_AT } from './layout.ts';

/** The daemon limits the clients of a user. */
const MAX_CLIENTS_PER_USER = 1000;
/** The same value as in src/daemon/client/client.ts. */
const BEAT_MS = 20;
const RETRY_MS = 10;
const MAX_CONTEXTS_PER_CLIENT = 2;
/** Clients of a process that join at the same time. */
const JOINS_AT_ONCE = 32;

/** The clients of one process. */
interface ClientGroup {
  readonly socket: string;
  readonly first: number;
  readonly clients: number;
  /** Contexts of all these clients; at least one per client. */
  readonly contexts: number;
}

class BenchClient {
  readonly tenant: string;
  readonly columns: Row[] = [];
  private connection: Connection | null = null;

  constructor(tenant: string) {
    this.tenant = tenant;
  }

  /** Connects and joins all contexts; retries when the daemon is too busy. @throws Error for other failures */
  async join(socket: string, contexts: number): Promise<void> {
    for (;;) {
      const reason = await this.tryJoin(socket, contexts);
      if (reason === '') return;
      if (!/no time|does not answer/.test(reason)) throw new Error(`${this.tenant}: ${reason}`);
      await delay(RETRY_MS);
    }
  }

  private tryJoin(socket: string, contexts: number): Promise<string> {
    return new Promise((resolve) => {
      let joined = 0;
      const on = {
        connected: (connection: Connection) => {
          this.connection = connection;
          for (let slot = 0; slot < contexts; slot++) {
            this.columns.push(connection.rowAt(slot)!);
            connection.send({ type: 'join', slot, device: DEVICE, tenant: '' });
          }
        },
        received: ({ type, reason }: { type: string; reason?: string }) => {
          if (type === 'refused') resolve(`refused: ${reason}`);
          if (type === 'joined' && ++joined === contexts) resolve('');
        },
        signalled: () => {},
        ended: (error: Error) => resolve(error.message),
      };
      connect(socket, { role: 'shim', tenant: this.tenant }, on, true);
    });
  }

  /** Reports either a queue pair that requires a rate and sends large messages, or none. */
  setActive(isActive: boolean): void {
    for (const row of this.columns) {
      const { reports } = columnsOf(row, master);
      row.counters[RATED_AT] = isActive ? 1 : 0;
      reports[C.ACTIVE_QPS] = isActive ? 1 : 0;
      reports[C.CLASS] = isActive ? C.BANDWIDTH : C.IDLE;
      reports[C.MEAN_BYTES] = 2 ** 20;
    }
    this.connection?.signal();
  }

  beat(): void {
    for (const { counters } of this.columns) counters[M.HEARTBEAT]++;
  }
}

async function child({ socket, first, clients, contexts }: ClientGroup): Promise<void> {
  const running: BenchClient[] = [];
  setInterval(() => {
    for (const client of running) client.beat();
  }, BEAT_MS);
  for (let i = 0; i < clients; i += JOINS_AT_ONCE) {
    const some = Array.from(
      { length: Math.min(JOINS_AT_ONCE, clients - i) },
      (_, k) => new BenchClient(`t${first + i + k}`),
    );
    const contextsOf = (k: number) => (i + k < contexts - clients ? MAX_CONTEXTS_PER_CLIENT : 1);
    await Promise.all(some.map((client, k) => client.join(socket, contextsOf(k))));
    running.push(...some);
  }
  process.on('message', async (active: number) => {
    for (const [i, client] of running.entries()) client.setActive(i < active);
    process.send?.('done');
  });
  process.send?.('joined');
}

/** The processes of all clients. */
export class ManyClients {
  private readonly processes: ChildProcess[];

  private constructor(processes: ChildProcess[]) {
    this.processes = processes;
  }

  /** Starts the clients; fewer if this user cannot run processes as other users. */
  static async join(socket: string, clients: number, contexts: number): Promise<ManyClients> {
    const uids = clientUids();
    const processes: ChildProcess[] = [];
    for (let first = 0; first < clients && processes.length < uids.length; first += MAX_CLIENTS_PER_USER) {
      const uid = uids[processes.length];
      const some = Math.min(MAX_CLIENTS_PER_USER, clients - first);
      const order: ClientGroup = {
        socket,
        first,
        clients: some,
        contexts: Math.round((contexts * some) / clients),
      };
      const one = fork(fileURLToPath(import.meta.url), [JSON.stringify(order)], { uid, gid: uid });
      processes.push(one);
      const [answer] = await Promise.race([once(one, 'message'), once(one, 'exit')]);
      if (answer !== 'joined') throw new Error(`a process of ${some} clients did not join`);
    }
    return new ManyClients(processes);
  }

  /** From now on, this many clients of each process have an active queue pair. */
  async setActive(clientsOfEach: number): Promise<void> {
    for (const one of this.processes) {
      const done = once(one, 'message');
      one.send(clientsOfEach);
      await done;
    }
  }

  async leave(): Promise<void> {
    for (const one of this.processes) {
      const ended = once(one, 'exit');
      one.kill();
      await ended;
    }
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await child(JSON.parse(process.argv[2]));
