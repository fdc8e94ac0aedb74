import { IBV_MW_TYPE_1, IBV_MW_TYPE_2, InvalidArgumentError } from '../verbs/index.ts';
import type { Access } from './access.ts';
import type { Context } from './context.ts';
import type { MemoryRegion } from './memory-region.ts';
import type { ProtectionDomain } from './protection-domain.ts';
import type { QueuePair } from './queue-pair.ts';
import type { SendFlags } from './request.ts';
import { Resource, requireOwned } from './resource.ts';

/** What pd.allocMw() takes. */
export interface MemoryWindowOptions {
  /**
   * 1: the device chooses the keys, and the window is open to all queue pairs of the domain. 2: you choose
   * them, it is open to the queue pair that bound it, and peers may invalidate it. Default 2.
   */
  type?: 1 | 2;
}

/** What a window opens. */
export interface BindOptions {
  /** Of the window's own domain, registered with `access: { mwBind: true }`. */
  mr: MemoryRegion;
  /** Bytes from the start of the region. Default 0. */
  offset?: number;
  /** Bytes; default: up to the end of the region. */
  length?: number;
  /** What peers may do: names of the remote rights, and zeroBased. */
  access: Access;
  /** Type 2: the key to take; default: the next after the present one (ibv_inc_rkey(3)). */
  rkey?: number;
}

/** What postBind() takes. */
export interface PostBindOptions extends BindOptions {
  wrId?: number | bigint;
  flags?: SendFlags;
}

/** A memory window (ibv_alloc_mw(3)): opens a part of a region to peers, and closes it, cheaply. */
export class MemoryWindow extends Resource {
  /** @internal */
  readonly kind = 'MemoryWindow';
  readonly context: Context;
  readonly pd: ProtectionDomain;
  readonly type: 1 | 2;

  /** @internal Use pd.allocMw(). */
  constructor(pd: ProtectionDomain, options: MemoryWindowOptions = {}) {
    const { type = 2 } = options;
    if (type !== 1 && type !== 2) throw new InvalidArgumentError(`allocMw: type must be 1 or 2, got ${type}`);
    const info = pd.provider.allocMw(pd.handle, type === 1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
    super({
      provider: pd.provider,
      handle: info.handle,
      label: pd.context.labelFor('memory window'),
      parents: [pd],
    });
    this.context = pd.context;
    this.pd = pd;
    this.type = type;
  }

  /** The key that peers use: that of the last bind that was posted. */
  get rkey(): number {
    return this.provider.queryMw(this.handle).rkey;
  }

  /**
   * Opens a part of a region to peers, and resolves with the key when the device has done it (IBV_WR_BIND_MW
   * on this queue pair's send queue).
   * @throws CompletionError with MW_BIND_ERR when the device refused it
   */
  async bind(qp: QueuePair, options: BindOptions): Promise<number> {
    requireOwned(qp, 'QueuePair', this.context, 'qp');
    void this.handle;
    const { rkey = this.nextRkey() } = options;
    const done = qp.execute({ opcode: 'BIND_MW', bind: { ...options, window: this, rkey } });
    // It is posted now: the key of this bind, whatever is bound behind it.
    const key = this.rkey;
    await done;
    return key;
  }

  /**
   * Posts the bind and returns the key. What is posted behind it on the same queue pair comes after it: a SEND
   * may tell the key at once. Its completion is the program's to take, or not asked for (flags).
   */
  postBind(qp: QueuePair, options: PostBindOptions): number {
    requireOwned(qp, 'QueuePair', this.context, 'qp');
    const { wrId, flags, rkey = this.nextRkey(), ...range } = options;
    qp.post({ opcode: 'BIND_MW', wrId, flags, bind: { ...range, window: this, rkey } });
    return this.rkey;
  }

  /** Closes it to peers, and resolves when the device has: type 1 by a bind of no bytes, type 2 by LOCAL_INV. */
  async unbind(qp: QueuePair): Promise<void> {
    requireOwned(qp, 'QueuePair', this.context, 'qp');
    if (this.type === 2) {
      await qp.execute({ opcode: 'LOCAL_INV', invalidate: this.rkey });
    } else {
      await qp.execute({ opcode: 'BIND_MW', bind: { window: this, mr: null, access: 0, length: 0 } });
    }
  }

  private nextRkey(): number {
    const { rkey } = this;
    return this.type === 1 ? 0 : ((rkey & ~0xff) | ((rkey + 1) & 0xff)) >>> 0;
  }

  protected override release(handle: number): void {
    this.provider.deallocMw(handle);
  }
}
