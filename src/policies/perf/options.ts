import { z } from 'zod';
import { renamedOptions } from '../parse-options.ts';
import { tenantRates } from '../token-bucket/options.ts';

/** What the device says of its NIC, unless this is given. */
const nicFact = (what: string) =>
  z.coerce.number().positive().optional().describe(`${what}, if not as the device says`);

/** Knobs of PeRF (section 4.1 of the paper; names as there, units last). */
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
      .describe('whether large messages are split: when others suffer from them, always, or never'),
    qpIsolation: z
      .enum(['auto', 'always', 'never'])
      .default('auto')
      .describe(
        'whether queue pairs of a tenant take turns: when others suffer from their number, always, or never',
      ),
    turnBytes: z.coerce.number().int().min(1).default(65536).describe('bytes of one turn of a queue pair'),
    turnRequests: z.coerce.number().int().min(1).default(64).describe('requests of one turn of a queue pair'),
    watchdogNs: z.coerce
      .number()
      .min(1000)
      .default(200_000)
      .describe('nanoseconds after which a turn that takes far longer than others holds nobody up any more'),
    seed: z.coerce
      .number()
      .int()
      .default(1)
      .describe('of the random choice of the queue pair whose turn is first'),
    thMApp: z.coerce
      .number()
      .min(0)
      .default(5)
      .describe('requests outstanding above which small messages make a message-rate application (Th_M_App)'),
    samplePeriodNs: z.coerce
      .number()
      .min(1000)
      .default(5e6)
      .describe('nanoseconds between two looks at the queues (SQ_Len)'),
    windowNs: z.coerce
      .number()
      .min(8000)
      .default(1e9)
      .describe('nanoseconds of the past that decide what kind of application it is'),
    qNumAllow: z.coerce
      .number()
      .int()
      .min(1)
      .default(1)
      .describe('queue pairs of a tenant that may send at a time beside bandwidth applications (QNum_allow)'),
    qNumCapa: z.coerce
      .number()
      .int()
      .min(1)
      .default(9)
      .describe('queue pairs that reach the full message rate of the device (QNum_capa)'),
    paper: z
      .stringbool()
      .or(z.boolean())
      .default(false)
      .describe('as the paper has it: its choice of mixtures, its number of 0_WAITs, no rotation of tenants'),
    maxRequestsPerS: z.coerce
      .number()
      .min(0)
      .default(0)
      .describe(
        'requests per second that a tenant may post; the rest are refused as by a full queue. 0: any',
      ),
    burstRequests: z.coerce
      .number()
      .int()
      .min(1)
      .default(1024)
      .describe('with maxRequestsPerS: requests that may be posted at once after a pause'),
    maxQps: z.coerce
      .number()
      .int()
      .min(0)
      .default(0)
      .describe('queue pairs that a tenant may have; createQp refuses more. 0: any'),
    readByRemoteControl: z
      .stringbool()
      .or(z.boolean())
      .default(false)
      .describe('whether READs longer than a sub-message are answered by WRITEs of the peer'),
    waits: z
      .enum(['fixed', 'adaptive'])
      .optional()
      .describe(
        'how many 0_WAITs follow a sub-message: fixed, by its size, as with paper; or adaptive, else: so many that all bandwidth tenants fill the link',
      ),
    utilisation: z.coerce
      .number()
      .min(0.1)
      .max(1)
      .default(0.99)
      .describe('adaptive: share of the link that bandwidth tenants fill together'),
    readFifoPart: z.coerce
      .number()
      .positive()
      .default(0.67)
      .describe("adaptive: part of the peer's egress FIFO that READs of all bandwidth tenants may fill"),
    rotation: z
      .enum(['off', 'on', 'auto'])
      .default('auto')
      .describe(
        'whether bandwidth tenants send one after the other: never, always, or beside others when at least as many queue pairs of theirs send as the NIC works on at a time',
      ),
    slotNs: z.coerce
      .number()
      .min(1000)
      .default(200_000)
      .describe('rotation: nanoseconds for which one tenant sends'),
    linkGbps: nicFact('Gbit/s of the link'),
    mtuBytes: nicFact('payload of a packet'),
    headerBytes: nicFact('headers and gaps of a packet'),
    wqeGapNs: nicFact('nanoseconds that a request keeps its queue pair'),
    waitStepNs: nicFact('nanoseconds of a 0_WAIT'),
    processingUnits: nicFact('queue pairs that the NIC works on at a time'),
    egressFifoBytes: nicFact('bytes between the queue pairs and the wire'),
    latencyNs: nicFact('nanoseconds from the post of a request to its completion, alone'),
    handoverNs: nicFact('nanoseconds from an ENABLE to the request that waits for it'),
    ...tenantRates,
    emulation: z.stringbool().or(z.boolean()).default(true).describe('whether WAIT may be emulated'),
    zeroWait: z
      .enum(['yield', 'write'])
      .default('yield')
      .describe('emulated, what a 0_WAIT does: give up the turn, or send an RDMA_WRITE of nothing'),
    yieldBytes: z.coerce
      .number()
      .int()
      .min(0)
      .default(65536)
      .describe('emulated, bytes that may be in flight when a 0_WAIT that gives up the turn ends'),
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

/** What cannot change while the policy runs: what stands around it or below it, or counts at the beginning only. */
export const FIXED = [
  'seed',
  'readByRemoteControl',
  'weights',
  'ratesGbps',
  'emulation',
  'zeroWait',
  'yieldBytes',
] as const;

/** Whether tenants have rates or weights, so that buckets of tokens stand around the policy. */
export function isLimited({ weights, ratesGbps }: PerfOptions): boolean {
  return Object.keys(weights).length + Object.keys(ratesGbps).length > 0;
}
