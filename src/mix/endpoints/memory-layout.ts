/** The memory of an application at its two ends, and the receives that its peer keeps posted. */
import { ConfigError } from '../../verbs/errors.ts';
import { requireWhole } from '../../verbs/units.ts';
import type { AppSpec, Transport } from '../spec.ts';
import { OWN_MEMORY_BYTES } from './host-memory.ts';

/** Bytes that precede a datagram in the memory of its receive. */
const GRH_BYTES = 40;
const MIN_RECEIVES = 64;
const MAX_RECEIVES = 16384;
const MAX_REGIONS = 1 << 16;
const MAX_REGION_BYTES = 2 ** 30;
const PAGE_BYTES = 4096;
/** Last code of min_rnr_timer. */
const LAST_RNR_TIMER = 31;

/** The memory regions of each context at each end. */
export interface AppMemory {
  readonly regions: number;
  readonly regionBytes: number;
  /** Buffers of a region, which divide it evenly, each for one message. */
  readonly buffers: number;
  readonly isRandom: boolean;
}

/** What else of an application determines its memory. */
interface Messages {
  readonly maxBytes: number;
  readonly replyBytes: number;
  readonly transport: Transport;
}

/** How an application's memory at one end is divided. */
export interface MemoryLayout {
  /** Bytes in all; regions that need more share them. */
  readonly bytes: number;
  /** From the start of a region to the start of the next one that has memory of its own. */
  readonly regionStride: number;
  /** Regions with memory of their own. */
  readonly ownRegions: number;
  readonly regionBytes: number;
  /** From the start of a buffer to the start of the next one. */
  readonly bufferBytes: number;
  /** Buffers of a region. Without `memory`, each queue pair uses one of them. */
  readonly buffers: number;
}

/** The regions that an application asks for; null: none. @throws ConfigError for numbers that do not fit together */
export function memoryOf(
  where: string,
  { op, regions = op === 'register' ? 1 : undefined, regionBytes, buffers, access, replyBytes }: AppSpec,
  app: Pick<Messages, 'maxBytes' | 'transport'>,
): AppMemory | null {
  if ([regions, regionBytes, buffers].every((one) => one === undefined)) {
    if (access === undefined) return null;
    throw new ConfigError(`${where}: access needs several buffers: add regions, buffers or regionSize`);
  }
  if (replyBytes !== undefined) {
    throw new ConfigError(`${where}: responses use one buffer: leave out regions, buffers and regionSize`);
  }
  const bufferBytes = messageBytesOf({ ...app, replyBytes: 0 });
  const bytes = requireWhole(
    `${where}: regionSize`,
    regionBytes ?? Math.max(1, buffers ?? 1) * bufferBytes,
    1,
    MAX_REGION_BYTES,
  );
  const fitting = Math.floor(bytes / bufferBytes);
  if (fitting === 0 || (buffers ?? 1) > fitting) {
    throw new ConfigError(
      `${where}: a region of ${bytes} bytes has room for ${fitting} buffers of ${bufferBytes} bytes, not for ${buffers ?? 1}; set a larger regionSize`,
    );
  }
  return {
    regions: requireWhole(`${where}: regions`, regions ?? 1, 1, MAX_REGIONS),
    regionBytes: bytes,
    buffers: requireWhole(`${where}: buffers`, buffers ?? fitting, 1, fitting),
    isRandom: access === 'random',
  };
}

/** Keys that mean nothing to what only registers memory, and the fields that they set. */
const POSTING_KEYS = {
  to: 'to',
  transport: 'transport',
  regionSize: 'regionBytes',
  buffers: 'buffers',
  access: 'access',
  depth: 'depth',
  batch: 'batch',
  think: 'thinkNs',
  burst: 'burst',
  rate: 'rateGbps',
  qpLife: 'qpLifeNs',
  contextLife: 'contextLifeNs',
} as const;

/** Whether an application registers memory instead of posting. @throws ConfigError for keys of the other kind */
export function requireRegistering(where: string, app: AppSpec): boolean {
  if (app.op !== 'register') {
    if (app.pds !== undefined) throw new ConfigError(`${where}: pds requires op=register`);
    return false;
  }
  for (const [key, field] of Object.entries(POSTING_KEYS)) {
    if (app[field] !== undefined) {
      throw new ConfigError(`${where}: op=register posts nothing: leave out ${key}`);
    }
  }
  return true;
}

/** The receives that the peer keeps posted. @throws ConfigError for receives or an RNR timer without SENDs */
export function receivesOf(
  where: string,
  { receives, rnrTimer, replyBytes }: AppSpec,
  { isSending, transport, depth }: { isSending: boolean; transport: Transport; depth: number },
): number {
  if (receives !== undefined && !isSending) {
    throw new ConfigError(`${where}: receives requires op=send: only SENDs need receives`);
  }
  if (rnrTimer !== undefined) {
    requireWhole(`${where}: rnrTimer`, rnrTimer, 0, LAST_RNR_TIMER);
    if (!isSending || transport !== 'rc') {
      throw new ConfigError(`${where}: rnrTimer requires op=send and transport=rc, which alone has RNR NAKs`);
    }
  }
  const usual = Math.min(MAX_RECEIVES, Math.max(MIN_RECEIVES, 2 * depth));
  return requireWhole(
    `${where}: receives`,
    receives ?? usual,
    replyBytes === undefined ? 0 : 1,
    MAX_RECEIVES,
  );
}

/**
 * The memory that an application requires at each end. Without regions of its own, each queue pair has its own buffer
 * unless they would be too large.
 */
export function memoryLayoutOf(
  app: Messages & { readonly qps: number; readonly memory: AppMemory | null },
): MemoryLayout {
  const { memory } = app;
  const bufferBytes = messageBytesOf(app);
  if (memory === null) {
    const buffers = bufferBytes * app.qps <= OWN_MEMORY_BYTES ? app.qps : 1;
    const regionBytes = bufferBytes * buffers;
    return {
      bytes: regionBytes,
      regionStride: regionBytes,
      ownRegions: 1,
      regionBytes,
      bufferBytes,
      buffers,
    };
  }
  const { regions, regionBytes, buffers } = memory;
  const regionStride = Math.ceil(regionBytes / PAGE_BYTES) * PAGE_BYTES;
  // Only what is written to is ever allocated, but addresses are limited as well.
  const ownRegions = Math.max(1, Math.min(regions, Math.floor(OWN_MEMORY_BYTES / regionStride)));
  const stride = Math.floor(regionBytes / buffers);
  return {
    bytes: ownRegions * regionStride,
    regionStride,
    ownRegions,
    regionBytes,
    bufferBytes: stride,
    buffers,
  };
}

/** Bytes of the buffer for a message. */
function messageBytesOf({ maxBytes, replyBytes, transport }: Messages): number {
  return Math.max(maxBytes, replyBytes) + (transport === 'ud' ? GRH_BYTES : 0);
}
