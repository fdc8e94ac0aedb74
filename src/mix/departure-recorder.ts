/** Records the packets of some queue pairs of a mix. */
import { DepartureLog } from '../sim/egress/departure-log.ts';
import type { World } from '../sim/world.ts';
import { ConfigError } from '../verbs/errors.ts';
import type { Connection } from './endpoints/connector.ts';
import type { App } from './resolve.ts';
import type { QueuePairDepartures } from './result.ts';
import type { QueuePairName } from './spec.ts';

export class DepartureRecorder {
  private readonly wanted: readonly QueuePairName[];
  /** By position in `wanted`. */
  private readonly records: readonly DepartureLog[];

  /** @throws ConfigError for a queue pair that does not exist */
  constructor(wanted: readonly QueuePairName[], apps: readonly App[]) {
    for (const { app, queuePair } of wanted) {
      const qps = apps.find(({ name }) => name === app)?.qps;
      if (qps === undefined) {
        const names = apps.slice(0, 8).map(({ name }) => name);
        throw new ConfigError(`departures: unknown app '${app}'; use one of ${names.join(', ')}`);
      }
      if (Number.isInteger(queuePair) && queuePair >= 0 && queuePair < qps) continue;
      throw new ConfigError(`departures: app ${app} has queue pairs 0 to ${qps - 1}, not ${queuePair}`);
    }
    this.wanted = wanted;
    this.records = wanted.map(() => new DepartureLog());
  }

  /** Records the queue pair and its peer, whose READ data leave there, if they are wanted. */
  watch(app: App, queuePair: number, { qp, peer }: Connection, { hooks }: World): void {
    const at = this.wanted.findIndex((one) => one.app === app.name && one.queuePair === queuePair);
    if (at < 0) return;
    for (const handle of [qp, peer]) {
      const found = hooks.qpOf(handle);
      if (found !== undefined) found.departures = this.records[at];
    }
  }

  results(): QueuePairDepartures[] {
    return this.wanted.map((one, i) => ({ ...one, packets: this.records[i].list() }));
  }
}
