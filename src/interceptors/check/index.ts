/**
 * Checks a program against the verbs contract and reports each mistake in words. The interceptor changes nothing and
 * never throws. Outside a policy it checks the program; inside a policy, it checks that policy.
 */
import { z } from 'zod';
import type { Interceptor } from '../../shim/compose.ts';
import * as C from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { Verbs } from '../../verbs/verbs.ts';
import { Rings } from '../rings.ts';
import { type CheckCode, type Finding, type FindingListener, Findings } from './findings.ts';
import { Ledger } from './ledger.ts';
import { ledgerVerbs, watchedVerbs } from './objects.ts';
import { PostChecker } from './posting.ts';

export { CHECKS, type CheckCode, type Finding, type FindingListener, type Severity } from './findings.ts';

/** Options of `check`. */
export const checkOptions = z.strictObject({
  severity: z
    .enum(['hint', 'warning', 'error'])
    .default('warning')
    .describe('lowest severity that is reported'),
  limit: z.coerce.number().int().min(1).default(1000).describe('maximum number of findings'),
});

/** The options of `check` as passed; an absent option has its default. */
export type CheckOptions = z.input<typeof checkOptions>;

/** A checking interceptor; `findings` holds what it has found so far on all providers that it wraps. */
export interface CheckInterceptor extends Interceptor {
  readonly findings: readonly Finding[];
}

/** Emits each finding as a process warning with its code. */
const warn: FindingListener = ({ code, message }) => process.emitWarning(message, { code });

/** Makes a checking interceptor. Findings go to `onFinding`; without one, to process.emitWarning(). */
export function check(options: CheckOptions = {}, onFinding: FindingListener = warn): CheckInterceptor {
  const { severity, limit } = checkOptions.parse(options);
  const findings = new Findings(severity, limit, onFinding);
  return { name: 'check', findings: findings.list, wrap: (next) => checkedVerbs(next, findings) };
}

function checkedVerbs(next: Provider, findings: Findings): Partial<Verbs> {
  const ledger = new Ledger();
  const rings = new Rings();
  const posting = new PostChecker(next, rings, ledger, findings).verbs();
  const pollCq: Verbs['pollCq'] = (cq, ring, start, max) => {
    const polled = next.pollCq(cq, ring, start, max);
    const words = rings.wc(ring)?.words;
    for (let i = 0; words !== undefined && i < polled; i++) {
      checkCompletion(ledger, findings, words, L.slotAt(start + i));
    }
    return polled;
  };
  const verbs = { ...ledgerVerbs(next, ledger, findings), ...rings.verbs(next), ...posting, pollCq };
  return { ...verbs, ...watchedVerbs({ ...next, ...verbs }, ledger, findings) };
}

/** The mistake that a failed completion reveals. */
function codeOf(status: number, isRecv: boolean): CheckCode | null {
  if (status === C.IBV_WC_LOC_LEN_ERR && isRecv) return 'ISO_CHECK_RECV_TOO_SMALL';
  if (status === C.IBV_WC_RNR_RETRY_EXC_ERR) return 'ISO_CHECK_RECV_MISSING';
  if (status === C.IBV_WC_REM_ACCESS_ERR) return 'ISO_CHECK_REMOTE_ACCESS';
  return null;
}

/** Records in the ledger the completion whose slot begins at `words[at]`. */
export function checkCompletion(ledger: Ledger, findings: Findings, words: Uint32Array, at: number): void {
  const status = words[at + L.WC_OP] & 0xff;
  const isRecv = (words[at + L.WC_OP] & L.WC_RECV_SIDE) !== 0;
  const [idLo, idHi, seq] = [words[at + L.WC_ID_LO], words[at + L.WC_ID_HI], words[at + L.WC_SEQ]];
  const srq = ledger.srqs.get(words[at + L.WC_SRQ]);
  const qp = ledger.qps.get(words[at + L.WC_QP]);
  if (isRecv && srq !== undefined) srq.queue.retireId(idLo, idHi);
  else if (isRecv) qp?.recvs.retireTo(seq);
  else qp?.sends.retireTo(seq);
  if (status === C.IBV_WC_SUCCESS || qp === undefined) return;
  // After an error, an unreliable queue pair can still access the memory that its requests name.
  if (qp.init.qpType !== C.IBV_QPT_UD && qp.init.qpType !== C.IBV_QPT_UC) qp.state = C.IBV_QPS_ERR;
  const code = codeOf(status, isRecv);
  if (code === null) return;
  const id = (BigInt(idHi) << 32n) | BigInt(idLo);
  findings.add(code, 'pollCq', qp.handle, `the ${isRecv ? 'receive' : 'request'} with wr_id ${id}`);
}
