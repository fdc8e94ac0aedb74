import { MemoryError, type MrInfo } from '../verbs/index.ts';
import type { Context } from './context.ts';
import type { ProtectionDomain } from './protection-domain.ts';
import { CLOSE_RANK, Resource } from './resource.ts';

/** Memory that the device may use (ibv_reg_mr(3)). Made by pd.allocate() and pd.register(). */
export class MemoryRegion extends Resource {
  readonly context: Context;
  readonly pd: ProtectionDomain;
  /** Key for the scatter-gather elements of this host. */
  readonly lkey: number;
  /** Key for peers. */
  readonly rkey: number;
  /** Address of the first byte: what peers use as remote address. */
  readonly addr: number;
  readonly lengthBytes: number;
  private readonly memory: ArrayBuffer | SharedArrayBuffer;
  private readonly byteOffset: number;
  private view: Uint8Array | null = null;

  /** @internal Use pd.allocate() or pd.register(). */
  constructor(pd: ProtectionDomain, info: MrInfo) {
    super({
      provider: pd.provider,
      handle: info.handle,
      label: `memory region 0x${info.lkey.toString(16)} of ${pd.context.name}`,
      rank: CLOSE_RANK.memoryRegion,
      parents: [pd],
    });
    this.context = pd.context;
    this.pd = pd;
    this.lkey = info.lkey;
    this.rkey = info.rkey;
    this.addr = info.addr;
    this.lengthBytes = info.lengthBytes;
    this.memory = info.memory;
    this.byteOffset = info.byteOffset;
  }

  /** The memory behind it. @throws InvalidHandleError once closed */
  get buffer(): ArrayBuffer | SharedArrayBuffer {
    if (this.closed) throw this.closedError();
    return this.memory;
  }

  /**
   * The region's bytes.
   * @throws InvalidHandleError once closed
   * @throws MemoryError when the ArrayBuffer was detached (structuredClone, transfer())
   */
  get bytes(): Uint8Array {
    if (this.closed) throw this.closedError();
    if (this.view === null || this.view.byteLength !== this.lengthBytes) {
      if (this.memory.byteLength < this.byteOffset + this.lengthBytes) {
        throw new MemoryError(`the ArrayBuffer behind ${this.label} was detached or resized`);
      }
      this.view = new Uint8Array(this.memory, this.byteOffset, this.lengthBytes);
    }
    return this.view;
  }

  protected override release(handle: number): void {
    this.provider.deregMr(handle);
    this.view = null;
  }
}
