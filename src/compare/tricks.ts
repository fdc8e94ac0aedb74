/**
 * Tricks by which a tenant may try to get more than its share, as applications of a mixture. bench/tricks runs those with
 * names of SHARED_TRICKS as programs under the daemon.
 */
import type { NicParams } from '../sim/profile/params.ts';

/** Names of the tricks that bench/tricks has, too. */
export const SHARED_TRICKS = Object.freeze({
  reopen: 'opens its context again and again',
  reopen8: 'opens 8 contexts again and again',
  contexts32: 'has 32 contexts',
  processes16: 'is 16 processes',
});

/** The tenant that tries the tricks. */
export const TRICKSTER = 'T';

/** The other tenants. Each has one application of its own name. */
export const VICTIMS = Object.freeze(['B', 'M', 'D:think=1us']);

/** What the trickster gains more of: bytes on the link, or messages. */
export type Gained = 'bandwidth' | 'messages';

/** What the tenant does instead of what an honest tenant does. Applications are without name and tenant. */
export interface Trick {
  readonly name: string;
  readonly gains: Gained;
  /** One context with one queue pair. */
  readonly honest: string;
  /** With at most as many bytes or messages outstanding as the honest tenant has. */
  readonly apps: readonly string[];
  /** What happens during the run, each as `TIME:ACTION`. */
  readonly at?: readonly string[];
}

/** Bulk data: four messages of 1 MiB outstanding. */
const BULK = 'B';
const BULK_BYTES = 4 << 20;
/** Small messages: 128 of 16 bytes outstanding. */
const SMALL = 'M';
/** Messages posted at once, and outstanding in all, of sizes between the two. */
const BATCH = 32;
const OUTSTANDING = 1024;

const bulk = (name: string, app: string, at?: readonly string[]): Trick => ({
  ...{ name, gains: 'bandwidth', honest: BULK, apps: [app] },
  ...(at !== undefined && { at }),
});
const small = (name: string, app: string, honest = SMALL): Trick => ({
  ...{ name, gains: 'messages', honest, apps: [app] },
});

/** Messages of this size on several queue pairs instead of one. */
function spread(bytes: number, qps: number): Trick {
  const app = (of: number) => `M:size=${bytes},qps=${of},depth=${OUTSTANDING / of},batch=${BATCH},cores=1`;
  return small(`sends ${bytes} bytes on ${qps} queue pairs`, app(qps), app(1));
}

/** Bulk data in messages of this size. */
function pieces(name: string, bytes: number, qps = 1, more = ''): Trick {
  const depth = BATCH * Math.floor(BULK_BYTES / bytes / qps / BATCH);
  return bulk(name, `B:size=${bytes},qps=${qps},depth=${depth},batch=${BATCH}${more}`);
}

/** All tricks. */
export function tricksOf({ mtuBytes }: Pick<NicParams, 'mtuBytes'>): Trick[] {
  return [
    bulk('creates its queue pairs again and again', 'B:size=64KiB,qps=8,depth=8,qpLife=100us'),
    bulk(SHARED_TRICKS.reopen, 'B:size=64KiB,depth=8,contextLife=100us'),
    bulk(SHARED_TRICKS.reopen8, 'B:size=64KiB,qps=8,contexts=8,depth=8,contextLife=100us'),
    bulk(SHARED_TRICKS.contexts32, 'B:size=128KiB,qps=32,contexts=32,depth=1'),
    bulk('has 32 queue pairs', 'B:size=128KiB,qps=32,depth=1'),
    bulk(SHARED_TRICKS.processes16, 'B:size=256KiB,qps=16,contexts=16,depth=1'),
    small('is 16 processes with small messages', 'M:qps=16,contexts=16,depth=8,batch=8'),
    small('sends small messages on 16 queue pairs', 'M:qps=16,depth=8,batch=8,cores=1'),
    bulk('idles, then sends in bursts', 'B:burst=300us/700us'),
    {
      ...bulk('alternates between large and small messages', ''),
      apps: ['B:burst=500us/500us', 'M:start=500us,burst=500us/500us'],
    },
    bulk('sends sizes from 16 bytes to 1 MiB', 'B:size=16-1MiB,depth=8'),
    pieces('sends messages of one MTU', mtuBytes),
    pieces('sends 1,200 bytes on 4 queue pairs', 1200, 4),
    pieces('sends 1,023 bytes on 4 queue pairs', 1023, 4),
    spread(512, 8),
    spread(256, 8),
    bulk('labels its bulk data as latency', 'B:kind=latency'),
    bulk('claims a weight of 16', 'B', [`1us:set ${TRICKSTER} weight=16`]),
    bulk('gives its queue pair a weight of 16', 'B:qpWeight=16'),
    bulk('READs instead of WRITEs', 'B:op=read'),
    bulk('lets its peer READ', 'B:op=read,host=1,to=0'),
    bulk('SENDs instead of WRITEs', 'B:op=send'),
    pieces('sends datagrams (UD)', mtuBytes, 1, ',op=send,transport=ud'),
    bulk('uses unreliable connections (UC)', 'B:transport=uc'),
    small('posts atomics', 'M:op=atomic,qps=8,depth=16,batch=16,cores=1', 'M:size=8'),
    bulk('sends to its own host (loopback)', 'B:to=0'),
    small('sends small messages inline', 'M:inline=yes'),
  ];
}
