/** Keys of memory windows. A held bind counts as posted, so the window already has its new key. */
import { IBV_MW_TYPE_2, IBV_WR_BIND_MW } from '../verbs/constants.ts';
import * as L from '../verbs/layout.ts';
import type { Provider } from '../verbs/provider.ts';
import type { MwInfo } from '../verbs/types.ts';
import type { Feeder } from './feeder.ts';
import type { QpLedger } from './qp-ledger.ts';
import type { Tables } from './tables.ts';

/** The key that the window has after the posted binds, held ones included. */
export function queryMw(next: Provider, tables: Tables, feeder: Feeder, mw: number): MwInfo {
  const info = next.queryMw(mw);
  for (const qp of tables.qps) {
    const at = qp === undefined ? -1 : heldBind(qp, mw);
    if (qp === undefined || at < 0) continue;
    if (info.type === IBV_MW_TYPE_2) {
      const row = (qp.issued + at) & qp.mask;
      return { ...info, rkey: qp.held[row * qp.stride + L.WR_RKEY] };
    }
    // The device chooses the key of a type 1 window, so the bind must be posted first.
    feeder.issueWhole(qp, at + 1);
    return next.queryMw(mw);
  }
  return info;
}

/** The number of held requests before the newest bind of this window; -1 if no bind is held. */
function heldBind(qp: QpLedger, mw: number): number {
  for (let i = qp.backlog - 1; i >= 0; i--) {
    const at = ((qp.issued + i) & qp.mask) * qp.stride;
    const isBind = (qp.held[at + L.WR_OP] & 0xff) === IBV_WR_BIND_MW;
    if (isBind && qp.held[at + L.WR_BIND_MW] === mw) return i;
  }
  return -1;
}
