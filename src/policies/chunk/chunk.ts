/**
 * Software chunking, the baseline of Palos (section V-B): large messages are cut into chunks, and each queue pair keeps
 * about a bandwidth-delay product of them in flight. Each queue pair is treated separately.
 */
import type { Actions, Policy, QpView } from '../../shim/policy.ts';
import { messageBytes } from '../../shim/qp-ledger.ts';
import { isCrossChannel } from '../../shim/wait/cross-channel.ts';
import * as L from '../../verbs/layout.ts';
import { BLOCKED, step } from '../kit/step.ts';
import { mergeOptions } from '../parse-options.ts';
import { type ChunkOptions, chunkOptions } from './options.ts';

/** The policy chunk: passes short messages, and issues chunks of long ones as earlier chunks complete. */
export class Chunk implements Policy {
  readonly name = 'chunk';
  readonly needs = { wait: 'none' } as const;
  /** The most chunks of the oldest message that may be in the device's queue. */
  readonly slots: number;
  readonly splitsAboveBytes: number;
  /** The shim executes the application's WAITs, because the device would count the completions of chunks. */
  readonly crossChannel = true;
  private options: ChunkOptions;

  constructor(options: ChunkOptions) {
    this.options = options;
    this.slots = options.chunks;
    this.splitsAboveBytes = options.chunkBytes;
  }

  configure(changes: Readonly<Record<string, unknown>>): void {
    // Slots belong to queues that exist already.
    this.options = mergeOptions('chunk', chunkOptions, this.options, changes, ['chunks']);
  }

  onload(_qp: QpView, words: Uint32Array, start: number, count: number): number {
    let i = 0;
    for (; i < count; i++) {
      const at = L.slotAt(start + i);
      // A slot has two SGEs. For a longer list, the shim's copy knows the size.
      if (words[at + L.WR_OP] >>> 16 > 2 || isCrossChannel(words, at)) break;
      if (messageBytes(words, at, 0) > this.options.chunkBytes) break;
    }
    return i;
  }

  feed(qp: QpView, out: Actions): void {
    const { chunkBytes, chunks } = this.options;
    let isIssuing = false;
    while (out.backlog(qp) > 0) {
      const bytes = Math.min(out.nextBytes(qp), chunkBytes);
      if (out.inflight(qp) > 0 && out.inflightBytes(qp) + bytes > chunks * chunkBytes) break;
      if (step(qp, out, chunkBytes) === BLOCKED) break;
      isIssuing = true;
    }
    // The completion of what is in flight makes room for the next message, which may not be held yet.
    if (isIssuing) out.signalNow(qp);
  }
}
