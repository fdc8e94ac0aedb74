/** One region whose parts pd.allocate() hands out, so that many regions of a program need one key and one registration. */
import { InvalidArgumentError, type MrInfo, type Provider, shown } from '../verbs/index.ts';
import { type Access, accessBits } from './access.ts';

/** Parts begin at multiples of this, so that no two of them share a cache line. */
const ALIGN_BYTES = 64;

/** The slab of a protection domain. */
export interface SlabOptions {
  /** Bytes that are registered at once. */
  lengthBytes: number;
  /** Access rights of the slab, and thus of all its parts. Default: local write. */
  access?: Access;
}

/** @internal Bytes start .. end - 1 of the slab. */
interface Span {
  readonly start: number;
  readonly end: number;
}

/** @internal First fit: spans are free, in use, or closed, which is to say that requests may still use them. */
export class MemorySlab {
  private readonly provider: Provider;
  private readonly pd: number;
  private readonly lengthBytes: number;
  private readonly access: number;
  private whole: MrInfo | null = null;
  /** In ascending order; no two of them touch. */
  private free: Span[];
  private closed: Span[] = [];

  constructor(provider: Provider, pd: number, { lengthBytes, access }: SlabOptions) {
    this.provider = provider;
    this.pd = pd;
    this.lengthBytes = lengthBytes;
    this.access = accessBits(access);
    this.free = [{ start: 0, end: lengthBytes }];
  }

  /**
   * Zeroed bytes of the slab, as a region with its handle and keys; null if they have other access rights or do not fit.
   * Registers the slab at the first call.
   * @throws NoResourcesError
   */
  take(lengthBytes: number, access: number): MrInfo | null {
    if (access !== this.access) return null;
    const needed = Math.ceil(lengthBytes / ALIGN_BYTES) * ALIGN_BYTES;
    const at = this.free.findIndex(({ start, end }) => end - start >= needed);
    if (at < 0) return null;
    this.whole ??= this.provider.allocMr(this.pd, this.lengthBytes, this.access);
    const { start, end } = this.free[at];
    this.free.splice(at, 1, ...(start + needed < end ? [{ start: start + needed, end }] : []));
    const { addr, byteOffset, memory } = this.whole;
    new Uint8Array(memory, byteOffset + start, lengthBytes).fill(0);
    return { ...this.whole, addr: addr + start, byteOffset: byteOffset + start, lengthBytes };
  }

  /** A part was closed. Its bytes stay out of use until reclaim(). */
  give({ byteOffset, lengthBytes }: MrInfo): void {
    const start = byteOffset - (this.whole?.byteOffset ?? 0);
    this.closed.push({ start, end: start + Math.ceil(lengthBytes / ALIGN_BYTES) * ALIGN_BYTES });
  }

  /** Whether reclaim() would make bytes available. */
  get hasClosed(): boolean {
    return this.closed.length > 0;
  }

  /** Makes the bytes of closed parts available. Returns their number. */
  reclaim(): number {
    if (this.closed.length === 0) return 0;
    const all = [...this.free, ...this.closed].sort((a, b) => a.start - b.start);
    const bytes = this.closed.reduce((sum, { start, end }) => sum + end - start, 0);
    this.closed = [];
    this.free = [];
    for (const { start, end } of all) {
      const last = this.free.at(-1);
      if (last?.end === start) this.free.splice(-1, 1, { start: last.start, end });
      else this.free.push({ start, end });
    }
    return bytes;
  }

  close(): void {
    if (this.whole !== null) this.provider.deregMr(this.whole.handle);
    this.whole = null;
  }
}

/** @internal @throws InvalidArgumentError for options of a slab that cannot be */
export function requireSlab({ lengthBytes, access }: SlabOptions): void {
  if (!Number.isSafeInteger(lengthBytes) || lengthBytes <= 0 || lengthBytes % ALIGN_BYTES !== 0) {
    throw new InvalidArgumentError(
      `allocPd: slab.lengthBytes must be a positive multiple of ${ALIGN_BYTES}, got ${shown(lengthBytes)}`,
    );
  }
  accessBits(access);
}
