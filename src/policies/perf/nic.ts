/** The NIC as the engines see it: what the device says of itself, where the options do not know better. */
import type { ContextView } from '../../shim/policy.ts';
import type { NicFacts } from '../../verbs/nic.ts';

/** Facts that an option of the same name overrides. */
export type NicOptions = { readonly [K in keyof NicFacts]?: number | undefined };

/** What most NICs have in common: RoCEv2's headers and gaps, no RETH; packets of 4096 bytes. */
const HEADER_BYTES = 82;
const MTU_BYTES = 4096;
/** As of a ConnectX-6. */
const LATENCY_NS = 1900;
const HANDOVER_NS = 1350;

/** What the calculation of 0_WAITs and of shares stands on. */
export interface Nic {
  readonly linkGbps: number;
  readonly mtuBytes: number;
  readonly headerBytes: number;
  readonly wqeGapNs: number;
  readonly waitStepNs: number;
  /** Infinity: nobody knows, or no limit. */
  readonly processingUnits: number;
  readonly egressFifoBytes: number;
  readonly latencyNs: number;
  readonly handoverNs: number;
}

/** Null where the link rate or the time of a 0_WAIT is not known: nothing can be computed then. */
export function nicOf({ nic }: ContextView, options: NicOptions): Nic | null {
  const fact = (name: keyof NicFacts) => options[name] ?? nic?.[name] ?? null;
  const linkGbps = fact('linkGbps');
  const waitStepNs = fact('waitStepNs');
  if (linkGbps === null || waitStepNs === null || !(linkGbps > 0) || !(waitStepNs > 0)) return null;
  return {
    linkGbps,
    waitStepNs,
    mtuBytes: fact('mtuBytes') ?? MTU_BYTES,
    headerBytes: fact('headerBytes') ?? HEADER_BYTES,
    wqeGapNs: fact('wqeGapNs') ?? waitStepNs,
    processingUnits: fact('processingUnits') ?? Number.POSITIVE_INFINITY,
    egressFifoBytes: fact('egressFifoBytes') ?? Number.POSITIVE_INFINITY,
    latencyNs: fact('latencyNs') ?? LATENCY_NS,
    handoverNs: fact('handoverNs') ?? HANDOVER_NS,
  };
}

/** Bytes of a message of this length on the wire. */
export function wireBytes(nic: Nic, bytes: number): number {
  return bytes + Math.max(1, Math.ceil(bytes / nic.mtuBytes)) * nic.headerBytes;
}

/**
 * The largest piece that is worth while, at most `subMsgSizeBytes`: one of more than half the FIFO leaves the wire
 * idle while its 0_WAITs pass. Those of several queue pairs come together now and then, and stand in the FIFO one
 * behind the other: all of them together are one piece. Whole packets.
 */
export function pieceBytes(nic: Nic, subMsgSizeBytes: number, sharers = 1): number {
  const most = Math.min(subMsgSizeBytes / sharers, nic.egressFifoBytes / 2);
  if (subMsgSizeBytes <= most) return subMsgSizeBytes;
  return Math.min(subMsgSizeBytes, Math.max(1, Math.floor(most / nic.mtuBytes)) * nic.mtuBytes);
}
