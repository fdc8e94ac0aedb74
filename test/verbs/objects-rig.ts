/** Shared by the cases of the object layer: both ends as objects, and promises that need time to pass. */
import { Context, type QueuePairOptions } from '../../src/objects/index.ts';
import { type Ground, until } from './ground.ts';

const ALL = { remoteRead: true, remoteWrite: true, remoteAtomic: true, mwBind: true };

/** Lets time pass until the promise is settled, and returns its result. */
export async function settled<T>(ground: Ground, promise: Promise<T>): Promise<T> {
  let over = false;
  const end = () => {
    over = true;
  };
  promise.then(end, end);
  await until(ground, 'a promise', () => over);
  return promise;
}

export function openEnd(ground: Ground, which: 0 | 1) {
  const context = new Context(ground.provider, ground.devices[which]);
  const pd = context.allocPd();
  return { context, pd, cq: context.createCq(), mr: pd.allocate(1 << 14, { access: ALL }) };
}

export type End = ReturnType<typeof openEnd>;

/** Two ends with one connected pair of queue pairs. */
export function connected(ground: Ground, options: Partial<QueuePairOptions> = {}) {
  const [a, b] = [openEnd(ground, 0), openEnd(ground, 1)];
  const qpA = a.pd.createQp({ sendCq: a.cq, ...options });
  const qpB = b.pd.createQp({ sendCq: b.cq, ...options });
  if (options.type === 'UD') {
    for (const qp of [qpA, qpB]) qp.start();
  } else {
    qpA.connectTo(qpB.endpoint());
    qpB.connectTo(qpA.endpoint());
  }
  return { a, b, qpA, qpB };
}

export function closeBoth({ a, b }: { a: End; b: End }): void {
  a.context.close();
  b.context.close();
}
