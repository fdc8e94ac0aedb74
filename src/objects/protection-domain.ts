import { InvalidArgumentError, shown } from '../verbs/errors.ts';
import type { AhAttr, MrInfo } from '../verbs/types.ts';
import { type Access, accessBits } from './access.ts';
import { AddressHandle, replyAttr, type Sender } from './address-handle.ts';
import type { Context } from './context.ts';
import { MemoryRegion } from './memory-region.ts';
import { MemorySlab, requireSlab, type SlabOptions } from './memory-slab.ts';
import { MemoryWindow, type MemoryWindowOptions } from './memory-window.ts';
import type { Endpoint, PathOptions, QueuePairOptions } from './qp-options.ts';
import { QueuePair } from './queue-pair.ts';
import { type RangeOptions, type Registrable, rangeOf } from './registrable.ts';
import { Resource } from './resource.ts';
import { SharedReceiveQueue, type SharedReceiveQueueOptions } from './shared-receive-queue.ts';

/** Options of context.allocPd(). */
export interface ProtectionDomainOptions {
  /**
   * Lets allocate() hand out parts of one region that have one key. Whoever has the key can then reach all parts, with the
   * access rights of the slab. Default: each allocation is a region of its own.
   */
  slab?: SlabOptions;
}

/** Options of pd.allocate(). */
export interface AllocateOptions {
  /** Access rights. Default: local write. */
  access?: Access;
}

/** Options of pd.register(). */
export interface RegisterOptions extends AllocateOptions, RangeOptions {}

/** Options of pd.registerDmabuf(). */
export interface DmabufOptions extends AllocateOptions {
  /** Offset of the region in the dma-buf. Default 0. */
  offsetBytes?: number;
  lengthBytes: number;
  /** Address of the first byte, for requests and peers. Default: offsetBytes. */
  iova?: number;
}

/** A protection domain (ibv_alloc_pd(3)): its queue pairs can access only its memory regions. */
export class ProtectionDomain extends Resource {
  /** @internal */
  readonly kind = 'ProtectionDomain';
  readonly context: Context;
  private readonly slab: MemorySlab | null;

  /** @internal Use context.allocPd(). */
  constructor(context: Context, { slab }: ProtectionDomainOptions = {}) {
    if (slab !== undefined) requireSlab(slab);
    super({
      provider: context.provider,
      handle: context.provider.allocPd(context.handle),
      label: context.labelFor('protection domain'),
      parents: [context],
    });
    this.context = context;
    this.slab = slab === undefined ? null : new MemorySlab(context.provider, this.handle, slab);
  }

  /**
   * Allocates and registers page-aligned, zeroed memory. Prefer it to register(): this ArrayBuffer cannot move while
   * the device uses it. With a slab of the same access rights that has room, the memory is a part of it, aligned to 64
   * bytes.
   * @throws InvalidArgumentError, NoResourcesError
   */
  allocate(lengthBytes: number, options: AllocateOptions = {}): MemoryRegion {
    if (!Number.isSafeInteger(lengthBytes) || lengthBytes <= 0) {
      throw new InvalidArgumentError(
        `allocate: lengthBytes must be a positive integer, got ${shown(lengthBytes)}`,
      );
    }
    const access = accessBits(options.access);
    const part = this.takePart(lengthBytes, access);
    if (part !== null) return new MemoryRegion(this, part, this.slab);
    return new MemoryRegion(this, this.provider.allocMr(this.handle, lengthBytes, access));
  }

  private takePart(lengthBytes: number, access: number): MrInfo | null {
    const { slab } = this;
    if (slab === null) return null;
    const part = slab.take(lengthBytes, access);
    // Without queue pairs, no request is outstanding.
    if (part !== null || !slab.hasClosed || this.hasQueuePairs()) return part;
    slab.reclaim();
    return slab.take(lengthBytes, access);
  }

  /**
   * Makes the bytes of closed parts of the slab available for allocate(). Call it only when no request that names them,
   * local or remote, is outstanding: later parts have the same key, so such a request would change their bytes. Returns the
   * number of bytes.
   */
  reclaim(): number {
    return this.slab?.reclaim() ?? 0;
  }

  private hasQueuePairs(): boolean {
    return this.descendants().some(({ kind }) => kind === 'QueuePair' || kind === 'SharedReceiveQueue');
  }

  /**
   * Registers existing memory (ibv_reg_mr(3)). Prefer a SharedArrayBuffer, which cannot be detached. Requests that name
   * a detached ArrayBuffer fail.
   * @throws MemoryError for pooled Buffers, and for resizable, growable, empty or detached buffers
   */
  register(source: Registrable, options: RegisterOptions = {}): MemoryRegion {
    const range = rangeOf('register', source, options);
    const access = accessBits(options.access);
    const info = this.provider.regMr(this.handle, range.memory, range.byteOffset, range.lengthBytes, access);
    return new MemoryRegion(this, info);
  }

  /**
   * Registers memory of another device by the file descriptor of its dma-buf (ibv_reg_dmabuf_mr(3)). The region's
   * `bytes` are not available.
   * @throws UnsupportedError
   */
  registerDmabuf(fd: number, options: DmabufOptions): MemoryRegion {
    const { offsetBytes = 0, lengthBytes, iova = offsetBytes, access } = options;
    const bits = accessBits(access);
    return new MemoryRegion(
      this,
      this.provider.regDmabufMr(this.handle, offsetBytes, lengthBytes, iova, fd, bits),
    );
  }

  /** ibv_alloc_mw(3). @throws UnsupportedError */
  allocMw(options: MemoryWindowOptions = {}): MemoryWindow {
    return new MemoryWindow(this, options);
  }

  /** ibv_create_srq_ex(3). @throws NoResourcesError, UnsupportedError */
  createSrq(options: SharedReceiveQueueOptions = {}): SharedReceiveQueue {
    return new SharedReceiveQueue(this, options);
  }

  /** ibv_create_ah(3). Default: port 1, its preferred GID (Context.chooseGid) and a hop limit of 64. */
  createAh(attr: AhAttr): AddressHandle {
    return new AddressHandle(this, attr);
  }

  /** Creates an address handle for the port of `remote`, the peer's qp.endpoint(). */
  createAhTo(remote: Pick<Endpoint, 'gid' | 'lid'>, options: PathOptions = {}): AddressHandle {
    const { portNum = 1, gidIndex } = options;
    const attr: AhAttr = { portNum, dlid: remote.lid };
    if (this.context.isRouted(portNum, remote.lid, gidIndex)) {
      attr.dgid = remote.gid;
      attr.sgidIndex = this.context.chooseGid(portNum, gidIndex).index;
    }
    return this.createAh(attr);
  }

  /**
   * Creates an address handle for the sender of a datagram (ibv_create_ah_from_wc(3)), from its completion and the 40
   * bytes of GRH at the start of the receive buffer. The sender's queue pair is `completion.srcQp`.
   * @throws InvalidArgumentError when those bytes are not a GRH
   */
  createAhFrom(completion: Sender, grh: Uint8Array, portNum = 1): AddressHandle {
    return this.createAh(replyAttr(this.context, completion, grh, portNum));
  }

  /** ibv_create_qp(3). @throws NoResourcesError, InvalidHandleError, UnsupportedError */
  createQp(options: QueuePairOptions): QueuePair {
    return new QueuePair(this, options);
  }

  protected override release(handle: number): void {
    this.slab?.close();
    this.provider.deallocPd(handle);
  }
}
