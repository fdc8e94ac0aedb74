import { IBV_MW_TYPE_1, IBV_MW_TYPE_2, InvalidArgumentError, shown } from '../verbs/index.ts';
import type { Access } from './access.ts';
import type { Context } from './context.ts';
import type { MemoryRegion } from './memory-region.ts';
import type { ProtectionDomain } from './protection-domain.ts';
import type { QueuePair } from './queue-pair.ts';
import type { SendFlags } from './request.ts';
import { Resource, requireOwned } from './resource.ts';

/** Options of pd.allocMw(). */
export interface MemoryWindowOptions {
  /**
   * Type 1: the device chooses the keys, and all queue pairs of the domain can use the window. Type 2: the program
   * chooses the keys, only the queue pair that bound the window can use it, and peers may invalidate it. Default 2.
   */
  type?: 1 | 2;
}

/** The range and the rights that a bind gives to peers. */
export interface BindOptions {
  /** A region of the window's protection domain, registered with `access: { mwBind: true }`. */
  mr: MemoryRegion;
  /** Bytes from the start of the region. Default 0. */
  offset?: number;
  /** Length in bytes. Default: up to the end of the region. */
  length?: number;
  /** Rights of peers: the remote rights, and zeroBased. */
  access: Access;
  /** Type 2: the new key. Default: the successor of the current key (ibv_inc_rkey(3)). */
  rkey?: number;
}

/** Options of postBind(). */
export interface PostBindOptions extends BindOptions {
  wrId?: number | bigint;
  flags?: SendFlags;
}

/** A memory window (ibv_alloc_mw(3)): a cheap way to grant peers access to part of a region and to revoke it. */
export class MemoryWindow extends Resource {
  /** @internal */
  readonly kind = 'MemoryWindow';
  readonly context: Context;
  readonly pd: ProtectionDomain;
  readonly type: 1 | 2;

  /** @internal Use pd.allocMw(). */
  constructor(pd: ProtectionDomain, options: MemoryWindowOptions = {}) {
    const { type = 2 } = options;
    if (type !== 1 && type !== 2)
      throw new InvalidArgumentError(`allocMw: type must be 1 or 2, got ${shown(type)}`);
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

  /** Remote key of the last bind that was posted. */
  get rkey(): number {
    return this.provider.queryMw(this.handle).rkey;
  }

  /**
   * Grants peers access to part of a region. Posts IBV_WR_BIND_MW to the send queue of `qp` and resolves with the key
   * when it completes.
   * @throws CompletionError with MW_BIND_ERR when the device rejects the bind
   */
  async bind(qp: QueuePair, options: BindOptions): Promise<number> {
    requireOwned(qp, 'QueuePair', this.context, 'qp');
    void this.handle;
    const { rkey = this.nextRkey() } = options;
    const done = qp.execute({ opcode: 'BIND_MW', bind: { ...options, window: this, rkey } });
    // Read the key now: a later bind would change it.
    const key = this.rkey;
    await done;
    return key;
  }

  /**
   * Posts the bind and returns the key. Later requests on the same queue pair execute after it, so the next SEND can
   * already carry the key. The program polls the completion, or suppresses it with `flags`.
   */
  postBind(qp: QueuePair, options: PostBindOptions): number {
    requireOwned(qp, 'QueuePair', this.context, 'qp');
    const { wrId, flags, rkey = this.nextRkey(), ...range } = options;
    qp.post({ opcode: 'BIND_MW', wrId, flags, bind: { ...range, window: this, rkey } });
    return this.rkey;
  }

  /** Revokes the access and resolves on completion: type 1 by a bind of 0 bytes, type 2 by LOCAL_INV. */
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
