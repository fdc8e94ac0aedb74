/** Memory of applications: one block for each host, of which each takes a part. */

/** All queue pairs of an app send from, and into, memory of their own up to this much in all; beyond it they share. */
export const OWN_MEMORY_BYTES = 64 << 20;
/** A host has no more than this, unless a single message is longer: then applications share memory. */
const HOST_BYTES = 512 << 20;
const PAGE_BYTES = 4096;

interface Block {
  /** What its applications take, and the most that one takes. */
  reserved: number;
  largest: number;
  next: number;
  memory: ArrayBuffer | null;
}

export class HostMemory {
  private readonly blocks = new Map<number, Block>();

  /** An application on this host is going to take so much. */
  reserve(host: number, bytes: number): void {
    const block = this.blocks.get(host) ?? { reserved: 0, largest: 0, next: 0, memory: null };
    const pages = roundUpToPages(bytes);
    block.reserved += pages;
    block.largest = Math.max(block.largest, pages);
    this.blocks.set(host, block);
  }

  /** Its part: from a page's beginning on. */
  allocate(host: number, bytes: number): { memory: ArrayBuffer; offset: number } {
    const block = this.blocks.get(host);
    if (block === undefined) throw new Error(`nobody planned to take memory on host ${host}`);
    const size = Math.min(block.reserved, Math.max(HOST_BYTES, block.largest));
    block.memory ??= new ArrayBuffer(size);
    if (block.next + bytes > size) block.next = 0;
    const offset = block.next;
    block.next += roundUpToPages(bytes);
    return { memory: block.memory, offset };
  }
}

function roundUpToPages(bytes: number): number {
  return Math.ceil(bytes / PAGE_BYTES) * PAGE_BYTES;
}
