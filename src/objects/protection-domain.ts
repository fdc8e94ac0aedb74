import { InvalidArgumentError, MemoryError } from '../verbs/errors.ts';
import { type Access, accessBits } from './access.ts';
import type { Context } from './context.ts';
import { MemoryRegion } from './memory-region.ts';
import { QueuePair, type QueuePairOptions } from './queue-pair.ts';
import { CLOSE_RANK, Resource } from './resource.ts';

export interface AllocateOptions {
  /** Default: local write. */
  access?: Access;
}

export interface RegisterOptions extends AllocateOptions {
  /** Where the region begins, counted from the start of the buffer or view. Default 0. */
  byteOffset?: number;
  /** Default: up to the end. */
  lengthBytes?: number;
}

/** What pd.register() takes. */
export type Registrable = ArrayBuffer | SharedArrayBuffer | ArrayBufferView;

/** A protection domain (ibv_alloc_pd(3)): queue pairs reach only the memory of their own. */
export class ProtectionDomain extends Resource {
  readonly context: Context;

  /** @internal Use context.allocPd(). */
  constructor(context: Context) {
    super({
      provider: context.provider,
      handle: context.provider.allocPd(context.handle),
      label: context.labelFor('protection domain'),
      rank: CLOSE_RANK.domain,
      parents: [context],
    });
    this.context = context;
  }

  /**
   * Page-aligned, zeroed memory of the device's own choice, registered. This is the recommended way:
   * its ArrayBuffer cannot be moved under the device.
   * @throws NoResourcesError
   */
  allocate(lengthBytes: number, options: AllocateOptions = {}): MemoryRegion {
    if (!Number.isSafeInteger(lengthBytes) || lengthBytes <= 0) {
      throw new InvalidArgumentError(`allocate: bytes must be a positive integer, got ${lengthBytes}`);
    }
    return new MemoryRegion(
      this,
      this.provider.allocMr(this.handle, lengthBytes, accessBits(options.access)),
    );
  }

  /**
   * Registers memory that you have (ibv_reg_mr(3)). Recommended: a SharedArrayBuffer, which cannot be
   * detached. An ArrayBuffer that is detached later fails the requests that name it.
   * @throws MemoryError for pooled Buffers, and for resizable, growable, empty or detached buffers
   */
  register(source: Registrable, options: RegisterOptions = {}): MemoryRegion {
    const range = rangeOf(source, options);
    const access = accessBits(options.access);
    const info = this.provider.regMr(this.handle, range.memory, range.byteOffset, range.lengthBytes, access);
    return new MemoryRegion(this, info);
  }

  /** ibv_create_qp(3). @throws NoResourcesError, InvalidHandleError */
  createQp(options: QueuePairOptions): QueuePair {
    return new QueuePair(this, options);
  }

  protected override release(handle: number): void {
    this.provider.deallocPd(handle);
  }
}

function rangeOf(source: Registrable, options: RegisterOptions) {
  const view = ArrayBuffer.isView(source);
  const memory = view ? source.buffer : source;
  if (!(memory instanceof ArrayBuffer) && !(memory instanceof SharedArrayBuffer)) {
    throw new InvalidArgumentError('register takes an ArrayBuffer, a SharedArrayBuffer or a view of one');
  }
  refuseUnstable(source, memory);
  const start = view ? source.byteOffset : 0;
  const { byteOffset = 0, lengthBytes = source.byteLength - byteOffset } = options;
  const good = Number.isSafeInteger(byteOffset) && Number.isSafeInteger(lengthBytes);
  if (!good || byteOffset < 0 || lengthBytes <= 0 || byteOffset + lengthBytes > source.byteLength) {
    throw new InvalidArgumentError(
      `register: byteOffset ${byteOffset} and lengthBytes ${lengthBytes} do not lie inside the ` +
        `${source.byteLength} bytes given`,
    );
  }
  return { memory, byteOffset: start + byteOffset, lengthBytes };
}

function refuseUnstable(source: Registrable, memory: ArrayBuffer | SharedArrayBuffer): void {
  if (Buffer.isBuffer(source) && source.byteLength !== memory.byteLength) {
    throw new MemoryError(
      'this Buffer is a slice of a larger buffer (Node keeps small ones in a pool that others use); ' +
        'use pd.allocate(), Buffer.alloc() with a size of its own, or a SharedArrayBuffer',
    );
  }
  const flexible = memory as { resizable?: boolean; growable?: boolean };
  if (flexible.resizable || flexible.growable) {
    throw new MemoryError(
      'a resizable or growable buffer cannot be registered: it may move; make it without maxByteLength',
    );
  }
  if (memory.byteLength === 0) {
    throw new MemoryError('the buffer is empty or detached; register memory that is there');
  }
}
