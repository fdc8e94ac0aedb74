/** The NIC as the engines see it: facts that the device reports, unless options override them. */
import type { ContextView } from '../../shim/policy.ts';
import type { MeasuredFacts, NicFacts } from '../../verbs/nic.ts';
import { ROCE } from '../kit/wire.ts';

/** Facts about the pipeline, each a number. */
type PipelineFact = Exclude<keyof NicFacts, keyof MeasuredFacts | 'arbitrates' | 'pipeline'>;

/** Options override facts of the same name. */
export type NicOptions = { readonly [K in PipelineFact]?: number | undefined };

/** Defaults, of a ConnectX-6. */
const LATENCY_NS = 1900;
const HANDOVER_NS = 1350;

/** Inputs to the calculation of 0_WAITs and shares. */
export interface Nic {
  readonly linkGbps: number;
  readonly mtuBytes: number;
  readonly headerBytes: number;
  readonly wqeGapNs: number;
  readonly waitStepNs: number;
  /** Infinity if unknown or unlimited. */
  readonly processingUnits: number;
  readonly egressFifoBytes: number;
  readonly latencyNs: number;
  readonly handoverNs: number;
}

/** Null if the link rate or the time of a 0_WAIT is unknown, as both are needed to compute. */
export function nicOf({ nic }: ContextView, options: NicOptions): Nic | null {
  const fact = (name: PipelineFact) => options[name] ?? nic?.[name] ?? null;
  const linkGbps = fact('linkGbps');
  const waitStepNs = fact('waitStepNs');
  if (linkGbps === null || waitStepNs === null || !(linkGbps > 0) || !(waitStepNs > 0)) return null;
  return {
    linkGbps,
    waitStepNs,
    mtuBytes: fact('mtuBytes') ?? ROCE.mtuBytes,
    headerBytes: fact('headerBytes') ?? ROCE.headerBytes,
    wqeGapNs: fact('wqeGapNs') ?? waitStepNs,
    processingUnits: fact('processingUnits') ?? Number.POSITIVE_INFINITY,
    egressFifoBytes: fact('egressFifoBytes') ?? Number.POSITIVE_INFINITY,
    latencyNs: fact('latencyNs') ?? LATENCY_NS,
    handoverNs: fact('handoverNs') ?? HANDOVER_NS,
  };
}

/**
 * The largest useful piece in whole packets, at most `subMsgSizeBytes`: a piece of more than half the FIFO leaves the
 * wire idle during its 0_WAITs. Pieces of several queue pairs sometimes arrive together and queue up in the FIFO, so
 * all of them together count as one piece.
 */
export function pieceBytes(nic: Nic, subMsgSizeBytes: number, sharers = 1): number {
  const most = Math.min(subMsgSizeBytes / sharers, nic.egressFifoBytes / 2);
  if (subMsgSizeBytes <= most) return subMsgSizeBytes;
  return Math.min(subMsgSizeBytes, Math.max(1, Math.floor(most / nic.mtuBytes)) * nic.mtuBytes);
}
