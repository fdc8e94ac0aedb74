// @ts-nocheck
// Random sequences of opening and closing: each close succeeds or throws BusyError, and in the end all is closed.
import { openDevice } from 'isoverbs';
import { pass } from './setup.mjs';

let seed = 1;
const random = (n) => {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return Math.floor((seed / 2 ** 32) * n);
};
for (let round = 0; round < 20; round++) {
  const context = openDevice();
  const all = { pds: [context.allocPd()], cqs: [context.createCq()], rest: [] };
  for (let step = 0; step < 60; step++) {
    const pick = (list) => list[random(list.length)];
    const live = (list) => list.filter((item) => !item.closed);
    const [pd, cq] = [pick(live(all.pds)), pick(live(all.cqs))];
    const act = random(7);
    if (act === 0) all.pds.push(context.allocPd());
    else if (act === 1) all.cqs.push(context.createCq({ channel: random(2) ? null : undefined }));
    else if (act === 2 && pd) all.rest.push(pd.allocate(4096));
    else if (act === 3 && pd && cq) all.rest.push(pd.createQp({ sendCq: cq }));
    else if (act === 4) all.rest.push(context.sendBatch({ capacity: 4 }));
    else {
      try {
        pick([...all.pds, ...all.cqs, ...all.rest]).close();
      } catch (error) {
        if (error.code !== 'ISO_ERR_BUSY') throw error;
      }
    }
  }
  context.close();
  if ([...all.pds, ...all.cqs].some((item) => !item.closed)) throw new Error('something stayed open');
}
pass();
