/** What the processes of the benchmark measure: pieces of queue pairs with rates, with the timers that they need. */
import { NONE } from '#src/policies/kit/run-queue.ts';
import { RateTable } from '#src/policies/tassel/rate-table.ts';
import { Tags } from '#src/policies/tassel/tags.ts';
import type { Groups, Work } from '../conditions-in-turn.ts';

/** A link of 100 Gbit/s, in bytes per ns, and a piece of 4096 bytes with its headers. */
const LINK_PER_NS = 12.5;
const PIECE_BYTES = 4194;
/** Spreads rates over queue pairs in no order. */
const PRIME = 7919;

/** The loop without an order: queue pairs in turns. */
function inTurns(count: number): Work {
  const clock = new Float64Array(1);
  const sent = new Float64Array(count);
  let qp = 0;
  return (units) => {
    for (let i = 0; i < units; i++) {
      sent[qp] += PIECE_BYTES;
      qp = qp + 1 === count ? 0 : qp + 1;
      clock[0] += PIECE_BYTES / LINK_PER_NS;
    }
  };
}

/** Queue pairs with rates that differ by up to a factor of three. A unit is a piece, with the timers before it. */
function paced(count: number, gbps: number): Work {
  const rates = new RateTable();
  const tags = new Tags(rates, LINK_PER_NS);
  const clock = tags.now;
  clock[0] = 1000.3;
  tags.advance();
  for (let qp = 0; qp < count; qp++) {
    rates.add(qp);
    tags.add(qp);
    rates.setOwn(qp, (8 * count) / (gbps * (0.5 + ((qp * PRIME) % count) / count)));
    rates.fit(qp);
    tags.join(qp, false);
  }
  return (units) => {
    for (let done = 0; done < units; ) {
      const qp = tags.next();
      if (qp === NONE) clock[0] = tags.wakeNs;
      else {
        tags.charge(qp, PIECE_BYTES);
        clock[0] += PIECE_BYTES / LINK_PER_NS;
        done++;
      }
    }
  };
}

/** What is compared. */
export const GROUPS: Groups = {
  'rates below the link': {
    'in turns': () => inTurns(10),
    '10 queue pairs': () => paced(10, 80),
    '1,000 queue pairs': () => paced(1000, 80),
    '10,000 queue pairs': () => paced(10_000, 80),
  },
  'rates of twice the link': {
    'in turns': () => inTurns(10),
    '10 queue pairs': () => paced(10, 200),
    '1,000 queue pairs': () => paced(1000, 200),
    '10,000 queue pairs': () => paced(10_000, 200),
  },
};
