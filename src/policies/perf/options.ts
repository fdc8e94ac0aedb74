import { z } from 'zod';
import { renamedOptions } from '../parse-options.ts';
import { tenantRates } from '../token-bucket/options.ts';

/** An option that overrides what the device reports about its NIC. */
const nicFact = (what: string) =>
  z.coerce.number().positive().optional().describe(`${what}; default: as the device reports`);

/** The options of perf (section 4.1 of the paper, with its names and units last). */
export const perfOptions = z
  .strictObject({
    subMsgSizeBytes: z.coerce
      .number()
      .int()
      .min(256)
      .max(2 ** 30)
      .default(16384)
      .describe('size of a sub-message'),
    zeroWaitUnitBytes: z.coerce
      .number()
      .int()
      .min(1)
      .default(1024)
      .describe('bytes of a sub-message per 0_WAIT'),
    feedPieces: z.coerce
      .number()
      .int()
      .min(1)
      .max(32)
      .default(16)
      .describe('sub-messages posted ahead per queue pair'),
    isolation: z
      .enum(['auto', 'always', 'never'])
      .default('auto')
      .describe('when large messages are split: when other tenants suffer from them, always, or never'),
    qpIsolation: z
      .enum(['auto', 'always', 'never'])
      .default('auto')
      .describe(
        'when queue pairs of a tenant take turns: when other tenants suffer from their number, always, or never',
      ),
    turnBytes: z.coerce.number().int().min(1).default(65536).describe('bytes of one turn of a queue pair'),
    turnRequests: z.coerce.number().int().min(1).default(64).describe('requests of one turn of a queue pair'),
    watchdogNs: z.coerce
      .number()
      .min(1000)
      .default(200_000)
      .describe('nanoseconds after which a turn that takes far longer than the others no longer blocks them'),
    seed: z.coerce
      .number()
      .int()
      .default(1)
      .describe('seed of the random choice of the queue pair with the first turn'),
    thMApp: z.coerce
      .number()
      .min(0)
      .default(5)
      .describe(
        'outstanding requests above which an application of small messages counts as message-rate (Th_M_App)',
      ),
    samplePeriodNs: z.coerce
      .number()
      .min(1000)
      .default(5e6)
      .describe('nanoseconds between two samples of the queue lengths (SQ_Len)'),
    windowNs: z.coerce
      .number()
      .min(8000)
      .default(1e9)
      .describe('nanoseconds of past traffic that decide the class of an application'),
    demandNs: z.coerce
      .number()
      .min(1000)
      .default(1e6)
      .describe('nanoseconds between two samples of what tenants send (not with paper)'),
    qNumAllow: z.coerce
      .number()
      .int()
      .min(1)
      .default(1)
      .describe(
        'queue pairs of a tenant that may send at the same time next to bandwidth applications (QNum_allow)',
      ),
    qNumCapa: z.coerce
      .number()
      .int()
      .min(1)
      .default(9)
      .describe('queue pairs that suffice for the full message rate of the device (QNum_capa)'),
    paper: z
      .stringbool()
      .or(z.boolean())
      .default(false)
      .describe(
        'follows the paper: its choice of mixtures, its number of 0_WAITs, and no rotation of tenants',
      ),
    maxRequestsPerS: z.coerce
      .number()
      .min(0)
      .default(0)
      .describe(
        'requests per second that a tenant may post; more are rejected as by a full queue. 0: no limit',
      ),
    burstRequests: z.coerce
      .number()
      .int()
      .min(1)
      .default(1024)
      .describe('with maxRequestsPerS: requests that may be posted at once after an idle period'),
    maxQps: z.coerce
      .number()
      .int()
      .min(0)
      .default(0)
      .describe('queue pairs that a tenant may have; createQp rejects more. 0: no limit'),
    readByRemoteControl: z
      .stringbool()
      .or(z.boolean())
      .default(false)
      .describe('whether READs longer than a sub-message are answered by WRITEs of the peer'),
    waits: z
      .enum(['fixed', 'adaptive'])
      .optional()
      .describe(
        'how many 0_WAITs follow a sub-message: fixed, by its size (default with paper), or adaptive, so that all bandwidth tenants together fill the link (default otherwise)',
      ),
    utilisation: z.coerce
      .number()
      .min(0.1)
      .max(1)
      .default(0.99)
      .describe('adaptive: part of the link that bandwidth tenants fill together'),
    readFifoPart: z.coerce
      .number()
      .positive()
      .default(0.67)
      .describe("adaptive: part of the peer's egress FIFO that READs of all bandwidth tenants may fill"),
    rotation: z
      .enum(['off', 'on', 'auto'])
      .default('auto')
      .describe(
        'when bandwidth tenants send one after the other: never, always, or next to others when at least as many of their queue pairs send as the NIC has processing units',
      ),
    slotNs: z.coerce
      .number()
      .min(1000)
      .default(200_000)
      .describe('rotation: length of a tenant slot in nanoseconds'),
    linkGbps: nicFact('Gbit/s of the link'),
    mtuBytes: nicFact('payload of a packet'),
    headerBytes: nicFact('headers and gaps of a packet'),
    wqeGapNs: nicFact('nanoseconds for which a request occupies its queue pair'),
    waitStepNs: nicFact('nanoseconds of a 0_WAIT'),
    processingUnits: nicFact('queue pairs that the NIC serves at the same time'),
    egressFifoBytes: nicFact('bytes between the queue pairs and the wire'),
    latencyNs: nicFact('nanoseconds from the post of a request to its completion on an idle NIC'),
    handoverNs: nicFact('nanoseconds from an ENABLE to the request that waits for it'),
    ...tenantRates,
    emulation: z.stringbool().or(z.boolean()).default(true).describe('whether WAIT may be emulated'),
    zeroWait: z
      .enum(['yield', 'write'])
      .default('yield')
      .describe('emulated: what a 0_WAIT does: yield to other queue pairs, or send an empty RDMA_WRITE'),
    yieldBytes: z.coerce
      .number()
      .int()
      .min(0)
      .default(65536)
      .describe('emulated: bytes that may be in flight when a yielding 0_WAIT ends'),
  })
  .refine((o) => o.zeroWaitUnitBytes <= o.subMsgSizeBytes, {
    path: ['zeroWaitUnitBytes'],
    message: 'must not be larger than subMsgSizeBytes',
  })
  .refine((o) => !o.paper || o.waits !== 'adaptive', {
    path: ['waits'],
    message: 'adaptive and paper exclude each other: leave out one of them',
  })
  .refine((o) => !o.paper || o.rotation !== 'on', {
    path: ['rotation'],
    message: 'on and paper exclude each other: leave out one of them',
  })
  .register(renamedOptions, { turnNs: 'slotNs' });

/** The options of perf after parsing, with defaults filled in. */
export type PerfOptions = z.infer<typeof perfOptions>;

/** Options that cannot change while the policy runs: they concern other layers, or only the start. */
export const FIXED = [
  'seed',
  'readByRemoteControl',
  'weights',
  'ratesGbps',
  'emulation',
  'zeroWait',
  'yieldBytes',
] as const;

/** Whether tenants have rates or weights, so that token buckets surround the policy. */
export function isLimited({ weights, ratesGbps }: PerfOptions): boolean {
  return Object.keys(weights).length + Object.keys(ratesGbps).length > 0;
}
