/** Counts what an application puts on the wire, for results with details. */
import type { World } from '../sim/world.ts';
import type { Connection } from './endpoints/connector.ts';
import type { App } from './resolve.ts';

/** The bytes on the wire of an application's requests, or of the responses if it READs, within a window. */
export class WireCounter {
  private bytes = 0;
  private readonly openNs: number;
  private readonly closeNs: number;

  constructor(openNs: number, closeNs: number) {
    this.openNs = openNs;
    this.closeNs = closeNs;
  }

  /** Whether one direction of the wire carries all that the application sends. */
  static counts({ opDraw, renewal }: Pick<App, 'opDraw' | 'renewal'>): boolean {
    return opDraw === null && renewal === null;
  }

  get gbps(): number {
    return (this.bytes * 8) / (this.closeNs - this.openNs);
  }

  /** Counts the packets of a connection from now on, and passes them on to the log that the connection has. */
  watch({ op }: Pick<App, 'op'>, { qp, peer }: Connection, { hooks }: World): void {
    const found = hooks.qpOf(op === 'read' ? peer : qp);
    if (found === undefined) return;
    const log = found.departures;
    found.departures = {
      add: (leftNs, host, psn, payloadBytes, wireBytes) => {
        if (leftNs > this.openNs && leftNs <= this.closeNs) this.bytes += wireBytes;
        log?.add(leftNs, host, psn, payloadBytes, wireBytes);
      },
    };
  }
}
