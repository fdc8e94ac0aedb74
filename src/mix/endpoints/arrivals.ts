/** Which queue pairs count the payload of an application when it arrives. */
import type { Dispatcher } from '../dispatcher.ts';
import { posts } from '../operations.ts';
import type { App } from '../resolve.ts';
import type { Connection } from './connector.ts';
import type { SenderMeters } from './sender.ts';

/** Adds the queue pairs of a connection at which payload arrives to the meters. */
export function countArrivals(
  app: App,
  { world }: Pick<Dispatcher, 'world'>,
  connection: Connection,
  { all, own }: SenderMeters,
): void {
  for (const counted of receivingQps(app, connection)) {
    const qp = world.hooks.qpOf(counted);
    if (qp === undefined) continue;
    all.receivingQps.push(qp);
    own?.receivingQps.push(qp);
  }
}

/** The queue pairs at which payload of an application arrives. */
function receivingQps(app: App, { qp, peer, pieceQps }: Connection): number[] {
  // The payload of a READ or atomic arrives at the requester, as a response does.
  const pulls = posts(app, 'read') || posts(app, 'atomic');
  const pushes = posts(app, 'write') || posts(app, 'send');
  return [
    ...(pushes ? [peer, ...pieceQps.atPeer] : []),
    ...(pulls || app.replyBytes > 0 ? [qp, ...pieceQps.atQp] : []),
  ];
}
