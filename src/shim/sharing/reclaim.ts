import * as L from '../../verbs/layout.ts';
import { takesReceive } from '../peer/outbox.ts';
import type { QpLedger } from '../qp-ledger.ts';

/**
 * The requests of a carried queue pair from real number `first` on were not executed, and all before it were: holds them
 * again, from their beginnings.
 */
export function reclaim(qp: QpLedger, first: number): void {
  const lost = (qp.realPosted - first) | 0;
  if (lost === 0) return;
  while (qp.issued !== qp.head && ((qp.last[(qp.issued - 1) & qp.mask] - first) | 0) >= 0) {
    qp.issued = (qp.issued - 1) | 0;
    const opcode = qp.held[(qp.issued & qp.mask) * qp.stride + L.WR_OP] & 0xff;
    if (qp.outbox !== null && takesReceive(opcode)) qp.outbox.sent = (qp.outbox.sent - 1) | 0;
  }
  qp.beginNext();
  qp.sums[0] = qp.issuedBytes[(first - 1) & qp.realMask];
  if (((first - qp.realFreed) | 0) > 0) qp.realFreed = first;
  else qp.sums[0] = qp.sums[1];
  qp.sums[1] = qp.sums[0];
  qp.realPosted = first;
  if (((qp.lastSignaled - first) | 0) >= 0) qp.lastSignaled = (first - 1) | 0;
  qp.share!.shift = (qp.share!.shift - lost) | 0;
}
