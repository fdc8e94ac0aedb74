/** Checks that need only the request itself and the ledger. */
import * as C from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import type { KnownRing } from '../rings.ts';
import type { Findings } from './findings.ts';
import type { CheckedQp, Ledger, Region } from './ledger.ts';

const INTO_MEMORY = new Set([C.IBV_WR_RDMA_READ, C.IBV_WR_ATOMIC_CMP_AND_SWP, C.IBV_WR_ATOMIC_FETCH_AND_ADD]);
/** Opcodes without scatter-gather elements. */
const WITHOUT_MEMORY = new Set([C.IBV_WR_LOCAL_INV, C.IBV_WR_BIND_MW, C.ISO_WR_WAIT, C.ISO_WR_ENABLE]);

interface Sge {
  addr: number;
  length: number;
  lkey: number;
}

function sgesOf({ info, words }: KnownRing, index: number): Sge[] {
  const at = L.slotAt(index);
  const count = Math.min(words[at + L.WR_OP] >>> 16, 2 + (info.extBytes >> 4));
  const extension = L.extAt(index, info.capacity, info.extBytes);
  return Array.from({ length: count }, (_, i) => {
    const sge = i < 2 ? at + L.WR_SGE0 + i * L.SGE_WORDS : extension + (i - 2) * L.SGE_WORDS;
    const addr = words[sge + L.SGE_HI] * 2 ** 32 + words[sge + L.SGE_LO];
    return { addr, length: words[sge + L.SGE_LENGTH], lkey: words[sge + L.SGE_LKEY] };
  });
}

/** Checks protection domain, range and access of each element of a request; returns the regions that it names. */
export function checkMemory(
  ledger: Ledger,
  findings: Findings,
  where: { verb: string; subject: number; pd: number; writes: boolean },
  ring: KnownRing,
  index: number,
): Region[] {
  const { verb, subject, pd, writes } = where;
  const found: Region[] = [];
  for (const [i, { addr, length, lkey }] of sgesOf(ring, index).entries()) {
    if (length === 0) continue;
    const region = ledger.byLkey.get(lkey);
    const what = `element ${i} of request ${index} (lkey 0x${lkey.toString(16)})`;
    if (region === undefined || region.pd !== pd) {
      const why =
        region === undefined ? 'no region has this key' : 'its region belongs to another protection domain';
      findings.add('ISO_CHECK_LKEY', verb, subject, `${what}: ${why}`);
      continue;
    }
    found.push(region);
    const { info, access } = region;
    if (addr < info.addr || addr + length > info.addr + info.lengthBytes) {
      const text = `${what}: ${length} bytes at ${addr}; the region has ${info.lengthBytes} bytes at ${info.addr}`;
      findings.add('ISO_CHECK_RANGE', verb, subject, text);
    }
    if (writes && (access & C.IBV_ACCESS_LOCAL_WRITE) === 0)
      findings.add('ISO_CHECK_ACCESS', verb, subject, what);
  }
  return found;
}

/** Checks the send request in slot `index`; returns the regions that it names. */
export function checkSend(
  ledger: Ledger,
  findings: Findings,
  qp: CheckedQp,
  ring: KnownRing,
  index: number,
): Region[] {
  const op = ring.words[L.slotAt(index) + L.WR_OP];
  const opcode = op & 0xff;
  const writes = INTO_MEMORY.has(opcode);
  if (writes && qp.maxRdAtomic === 0) {
    const text = `request ${index} is a READ or atomic, but the queue pair was connected with maxRdAtomic 0`;
    findings.add('ISO_CHECK_RD_ATOMIC', 'postSend', qp.handle, text);
  }
  if (WITHOUT_MEMORY.has(opcode) || ((op >>> 8) & C.IBV_SEND_INLINE) !== 0) return [];
  const where = { verb: 'postSend', subject: qp.handle, pd: qp.pd, writes };
  return checkMemory(ledger, findings, where, ring, index);
}
