/**
 * PeRF's long-message split engine (LMSE): large messages go out as sub-messages with 0_WAITs between them,
 * so that the device's round robin gives other tenants a turn more often (PeRF, USENIX ATC 2024, section 3.2).
 */

import { withPlace } from '../../shim/columns.ts';
import { isCrossChannel } from '../../shim/cross-channel.ts';
import type { Actions, Policy, QpView } from '../../shim/policy.ts';
import { messageBytes } from '../../shim/queue.ts';
import { IBV_QPT_RC } from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import type { PerfOptions } from './options.ts';

/** A message this long belongs to a bandwidth application (PeRF, section 3.3). */
const LARGE_BYTES = 1024;
/** Two slots a piece: 64 covers 32 sub-messages with their waits. */
const SLOTS = 64;

export class Lmse implements Policy {
  readonly name = 'perf';
  readonly needs = { wait: 'preferred' } as const;
  readonly slots = SLOTS;
  readonly splitsAboveBytes: number;
  /** The application's own: the device would count the completions of pieces. */
  readonly crossChannel = true;
  readonly statistics = true;
  private readonly subMsgSizeBytes: number;
  private readonly zeroWaitUnitBytes: number;
  private readonly feedBytes: number;
  /** 0_WAITs behind a full piece. */
  private readonly waits: number;
  /** By queue pair: bytes of whole messages that no 0_WAIT has been charged for yet. */
  private owedBytes = new Float64Array(64);

  constructor(options: PerfOptions) {
    this.subMsgSizeBytes = options.subMsgSizeBytes;
    this.splitsAboveBytes = options.subMsgSizeBytes;
    this.zeroWaitUnitBytes = options.zeroWaitUnitBytes;
    this.feedBytes = options.subMsgSizeBytes * options.feedPieces;
    this.waits = Math.max(1, Math.floor(options.subMsgSizeBytes / options.zeroWaitUnitBytes));
  }

  /** Small messages bypass the policy while nothing large is before them. */
  onload(qp: QpView, words: Uint32Array, start: number, count: number): number {
    const shaped = qp.type === IBV_QPT_RC;
    for (let i = 0; i < count; i++) {
      const at = L.HEADER_WORDS + (start + i) * L.SLOT_WORDS;
      // Those before it are to report when they are over: its completion comes after theirs.
      if (isCrossChannel(words, at)) return 0;
      if (!shaped) continue;
      // Two SGEs live in the slot; a longer list is looked at by the shim's copy.
      if (words[at + L.WR_OP] >>> 16 > 2 || messageBytes(words, at, 0) >= LARGE_BYTES) return i;
    }
    return count;
  }

  feed(qp: QpView, out: Actions): void {
    this.owedBytes = withPlace(this.owedBytes, qp.index);
    while (out.backlog(qp) > 0) {
      if (out.isCrossChannel(qp)) {
        if (!out.execute(qp)) return;
        continue;
      }
      if (out.room(qp) < 2) {
        // Room for no more than this, and nothing under way that would make some: no cut, but no standstill.
        if (out.room(qp) === 1 && out.inflight(qp) === 0) out.pass(qp);
        return;
      }
      const flying = out.inflightBytes(qp);
      const bytes = out.nextBytes(qp);
      const step = Math.min(bytes, this.subMsgSizeBytes);
      if (flying > 0 && flying + step > this.feedBytes) return;
      if (bytes > this.subMsgSizeBytes && out.splittable(qp)) {
        this.sendPieces(qp, bytes, flying, out);
      } else {
        this.sendWhole(qp, bytes, out);
      }
    }
  }

  /** As many full pieces as may fly now; what remains at the end is sent like a short message. */
  private sendPieces(qp: QpView, bytes: number, flying: number, out: Actions): void {
    const size = this.subMsgSizeBytes;
    const most = Math.max(1, Math.floor((this.feedBytes - flying) / size));
    out.pieces(qp, size, Math.min(most, Math.floor(bytes / size)), this.waits);
  }

  /** Short messages are charged together: rounded one by one they would pay up to twice their share. */
  private sendWhole(qp: QpView, bytes: number, out: Actions): void {
    out.pass(qp);
    if (bytes < LARGE_BYTES) return;
    const owed = this.owedBytes[qp.index] + bytes;
    const waits = Math.floor(owed / this.zeroWaitUnitBytes);
    this.owedBytes[qp.index] = owed - waits * this.zeroWaitUnitBytes;
    if (waits > 0) out.zeroWaits(qp, waits);
  }
}
