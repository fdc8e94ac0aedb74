/** Memory of the applications: each host has one block, and each application takes a part of it. */

/** The queue pairs of an application have separate buffers up to this total; beyond it they share one. */
export const OWN_MEMORY_BYTES = 64 << 20;
/** Largest block of a host, unless one application needs more. Beyond it, applications share memory. */
const HOST_BYTES = 512 << 20;
const PAGE_BYTES = 4096;
/**
 * glibc maps blocks of more than 32 MiB, so that only the pages that are used are ever cleared. Smaller ones may be on the
 * heap, and are cleared at once.
 */
const MAPPED_BYTES = 33 << 20;
const SMALL_BYTES = 4 << 20;

/** A part of the block of a host. */
export interface MemoryPart {
  readonly memory: ArrayBuffer;
  readonly offset: number;
}

interface Block {
  /** The bytes that all applications of the host require, and those of the largest one. */
  reserved: number;
  largest: number;
  next: number;
  memory: ArrayBuffer | null;
}

export class HostMemory {
  private readonly blocks = new Map<number, Block>();

  /** Announces that an application will allocate `bytes` on this host. */
  reserve(host: number, bytes: number): void {
    const block = this.blocks.get(host) ?? { reserved: 0, largest: 0, next: 0, memory: null };
    const pages = roundUpToPages(bytes);
    block.reserved += pages;
    block.largest = Math.max(block.largest, pages);
    this.blocks.set(host, block);
  }

  /** Returns the application's part, aligned to a page. */
  allocate(host: number, bytes: number): MemoryPart {
    const block = this.blocks.get(host);
    if (block === undefined) throw new Error(`no memory was reserved on host ${host}`);
    const size = Math.min(block.reserved, Math.max(HOST_BYTES, block.largest));
    block.memory ??= new ArrayBuffer(size > SMALL_BYTES ? Math.max(size, MAPPED_BYTES) : size);
    if (block.next + bytes > size) block.next = 0;
    const offset = block.next;
    block.next += roundUpToPages(bytes);
    return { memory: block.memory, offset };
  }
}

function roundUpToPages(bytes: number): number {
  return Math.ceil(bytes / PAGE_BYTES) * PAGE_BYTES;
}
