import { MemoryError, type MrChange, type MrInfo, UnsupportedError } from '../verbs/index.ts';
import { type Access, accessBits } from './access.ts';
import type { Context } from './context.ts';
import type { MemorySlab } from './memory-slab.ts';
import type { ProtectionDomain } from './protection-domain.ts';
import { type RangeOptions, type Registrable, rangeOf } from './registrable.ts';
import { Resource, requireOwned } from './resource.ts';

/** Changes to a memory region. Absent properties stay unchanged. */
export interface ReregisterOptions extends RangeOptions {
  pd?: ProtectionDomain;
  access?: Access;
  /** New memory, as accepted by pd.register(). */
  memory?: Registrable;
}

/** Registered memory (ibv_reg_mr(3)). Created by pd.allocate(), pd.register() and pd.registerDmabuf(). */
export class MemoryRegion extends Resource {
  /** @internal */
  readonly kind = 'MemoryRegion';
  readonly context: Context;
  private owner: ProtectionDomain;
  private info: MrInfo;
  private view: Uint8Array | null = null;
  /** The slab of which it is a part. */
  private readonly slab: MemorySlab | null;

  /** @internal Use pd.allocate() or pd.register(). */
  constructor(pd: ProtectionDomain, info: MrInfo, slab: MemorySlab | null = null) {
    super({
      provider: pd.provider,
      handle: info.handle,
      label: `memory region 0x${info.lkey.toString(16)} of ${pd.context.name}`,
      parents: [pd],
    });
    this.context = pd.context;
    this.owner = pd;
    this.info = info;
    this.slab = slab;
  }

  /** Its protection domain. */
  get pd(): ProtectionDomain {
    return this.owner;
  }

  /** Local key, for scatter-gather elements. */
  get lkey(): number {
    return this.info.lkey;
  }

  /** Remote key, for peers. */
  get rkey(): number {
    return this.info.rkey;
  }

  /** Address of the first byte, which peers use as remote address (0 in a zero-based region). */
  get addr(): number {
    return this.info.addr;
  }

  /** Length in bytes. */
  get lengthBytes(): number {
    return this.info.lengthBytes;
  }

  /**
   * ibv_rereg_mr(3): changes memory, access rights or protection domain. Keys and address may change. No request
   * that names the region may be outstanding.
   * @throws UnsupportedError, also for a part of a slab
   * @throws MemoryError when the memory cannot be registered
   */
  rereg(options: ReregisterOptions): void {
    const { pd, access, memory } = options;
    if (this.slab !== null) {
      throw new UnsupportedError(
        `rereg: ${this.label} is a part of a slab, which cannot change alone; allocate it in a protection domain without a slab`,
      );
    }
    const change: MrChange = {};
    if (pd !== undefined) change.pd = requireOwned(pd, 'ProtectionDomain', this.context, 'pd').handle;
    if (access !== undefined) change.access = accessBits(access);
    if (memory !== undefined) change.translation = rangeOf('rereg', memory, options);
    this.info = this.provider.reregMr(this.handle, change);
    this.view = null;
    if (pd === undefined) return;
    this.replaceParent(pd, this.owner);
    this.owner = pd;
  }

  /** The buffer that contains the region. @throws InvalidHandleError once closed */
  get buffer(): ArrayBuffer | SharedArrayBuffer {
    if (this.closed) throw this.closedError();
    return this.info.memory;
  }

  /**
   * The region's bytes.
   * @throws InvalidHandleError once closed
   * @throws MemoryError when the ArrayBuffer was detached (structuredClone, transfer())
   */
  get bytes(): Uint8Array {
    if (this.closed) throw this.closedError();
    const { memory, byteOffset, lengthBytes } = this.info;
    if (this.view === null || this.view.byteLength !== lengthBytes) {
      if (memory.byteLength < byteOffset + lengthBytes) {
        throw new MemoryError(
          `${this.label} has no readable bytes: its ArrayBuffer was detached or resized, or it is a dma-buf`,
        );
      }
      this.view = new Uint8Array(memory, byteOffset, lengthBytes);
    }
    return this.view;
  }

  protected override release(handle: number): void {
    if (this.slab !== null) this.slab.give(this.info);
    else this.provider.deregMr(handle);
    this.view = null;
  }
}
