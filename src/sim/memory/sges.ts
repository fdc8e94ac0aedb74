/** Copies bytes between the scatter-gather elements of a request and a packet. */
import * as C from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import type { WorkQueue } from '../queues/work-queue.ts';
import type { Qp } from '../transport/qp.ts';
import type { World } from '../world.ts';
import { copyFromRegion } from './memory.ts';

// V8 folds constants of the module itself into the code, but loads imported ones at each use.
const { IBV_ACCESS_LOCAL_WRITE, IBV_QPT_UD } = C;
const { WR_OP, WR_SGE0, SGE_WORDS, SGE_LENGTH, SGE_LO, SGE_HI, SGE_LKEY } = L;

const TWO32 = 4294967296;

/**
 * Copies `length` bytes between packet `p` of the pool and the message of request `seq`, starting at byte
 * `offset` of the message. Returns false when a key does not grant the access; elements before that one may
 * have been copied.
 */
export function moveSges(
  world: World,
  qp: Qp,
  queue: WorkQueue,
  seq: number,
  offset: number,
  length: number,
  p: number,
  write: boolean,
): boolean {
  const at = queue.at(seq);
  const elements = queue.words[at + WR_OP] >>> 16;
  const access = write ? IBV_ACCESS_LOCAL_WRITE : 0;
  let skip = offset;
  let left = length;
  let done = 0;
  // Agents speak by datagrams, so these carry their bytes even where payload is not copied.
  const carries = world.payload || qp.type === IBV_QPT_UD;
  for (let i = 0; i < elements && left > 0; i++) {
    const w = i < 2 ? queue.words : queue.ext;
    const e = i < 2 ? at + WR_SGE0 + i * SGE_WORDS : queue.extAt(seq) + (i - 2) * SGE_WORDS;
    const bytes = w[e + SGE_LENGTH];
    if (skip >= bytes) {
      skip -= bytes;
      continue;
    }
    const addr = w[e + SGE_LO] + w[e + SGE_HI] * TWO32;
    world.regions.from[0] = addr;
    const region = world.regions.local(qp.host, queue.pd, w[e + SGE_LKEY], bytes, access);
    if (region === undefined) return false;
    const part = Math.min(bytes - skip, left);
    if (carries) {
      const from = addr - region.addr + skip;
      if (write) world.packets.copyPart(p, done, region.bytes, from, part);
      else copyFromRegion(region, from, world.packets.bytes, world.packets.slab(p) + done, part);
    }
    done += part;
    left -= part;
    skip = 0;
  }
  return true;
}
