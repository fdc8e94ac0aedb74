/** Memory of applications: one block for each host, of which each takes a part. */

/** All queue pairs of an app send from, and into, memory of their own up to this much in all; beyond it they share. */
export const OWN_MEMORY_BYTES = 64 << 20;
/** A host has no more than this, unless a single message is longer: then applications share memory. */
const HOST_BYTES = 512 << 20;
const PAGE_BYTES = 4096;

interface Block {
  /** What its applications take, and the most that one takes. */
  planned: number;
  most: number;
  next: number;
  memory: ArrayBuffer | null;
}

export class Memory {
  private readonly blocks = new Map<number, Block>();

  /** An application on this host is going to take so much. */
  plan(host: number, bytes: number): void {
    const block = this.blocks.get(host) ?? { planned: 0, most: 0, next: 0, memory: null };
    const pages = inPages(bytes);
    block.planned += pages;
    block.most = Math.max(block.most, pages);
    this.blocks.set(host, block);
  }

  /** Its part: from a page's beginning on. */
  take(host: number, bytes: number): { memory: ArrayBuffer; offset: number } {
    const block = this.blocks.get(host);
    if (block === undefined) throw new Error(`nobody planned to take memory on host ${host}`);
    const size = Math.min(block.planned, Math.max(HOST_BYTES, block.most));
    block.memory ??= new ArrayBuffer(size);
    if (block.next + bytes > size) block.next = 0;
    const offset = block.next;
    block.next += inPages(bytes);
    return { memory: block.memory, offset };
  }
}

function inPages(bytes: number): number {
  return Math.ceil(bytes / PAGE_BYTES) * PAGE_BYTES;
}
