/** Finds changes in registered memory by comparison with a copy. The device or the program made them. */
import { Buffer } from 'node:buffer';
import type { MrInfo } from '../../verbs/types.ts';

const BLOCK_BYTES = 65536;
const PAGE_BYTES = 4096;

interface Region {
  info: MrInfo;
  seen: Buffer;
}

export class Regions {
  private readonly regions = new Map<number, Region>();

  add(info: MrInfo): void {
    const bytes = bytesOf(info);
    if (bytes !== null) this.regions.set(info.handle, { info, seen: Buffer.from(bytes) });
  }

  remove(handle: number): void {
    this.regions.delete(handle);
  }

  /** Calls `changed` for each page that differs from the last call. */
  changes(changed: (mr: number, offsetBytes: number, bytes: Uint8Array) => void): void {
    for (const [handle, { info, seen }] of this.regions) {
      const now = bytesOf(info);
      if (now === null) continue;
      for (let block = 0; block < now.length; block += BLOCK_BYTES) {
        const blockEnd = Math.min(block + BLOCK_BYTES, now.length);
        if (isSame(now, seen, block, blockEnd)) continue;
        for (let page = block; page < blockEnd; page += PAGE_BYTES) {
          const end = Math.min(page + PAGE_BYTES, blockEnd);
          if (isSame(now, seen, page, end)) continue;
          const bytes = now.subarray(page, end);
          seen.set(bytes, page);
          changed(handle, page, bytes);
        }
      }
    }
  }
}

/** Null for detached memory, or memory without an ArrayBuffer. */
function bytesOf({ memory, byteOffset, lengthBytes }: MrInfo): Buffer | null {
  if (memory.byteLength < byteOffset + lengthBytes) return null;
  return Buffer.from(memory as ArrayBuffer, byteOffset, lengthBytes);
}

function isSame(a: Buffer, b: Buffer, from: number, to: number): boolean {
  return a.compare(b, from, to, from, to) === 0;
}
