/** Memory regions of a replay, at the recorded addresses. Replay or the program owns the memory. */
import type { MrInfo } from '../../verbs/types.ts';

type AnyBuffer = ArrayBuffer | SharedArrayBuffer;

interface Region {
  info: MrInfo;
  isOwned: boolean;
}

export class ReplayMemory {
  private readonly regions = new Map<number, Region>();

  /** Allocates memory for allocMr, of the same length as in the recording. */
  own(info: MrInfo): MrInfo {
    return this.keep({ ...info, memory: new ArrayBuffer(lengthOf(info)) }, true);
  }

  borrow(info: MrInfo, memory: AnyBuffer): MrInfo {
    return this.keep({ ...info, memory }, false);
  }

  /** reregMr: new keys, and possibly new memory. */
  change(handle: number, info: MrInfo, memory: AnyBuffer | undefined): MrInfo {
    const known = this.regions.get(handle);
    this.regions.delete(handle);
    if (memory !== undefined || known === undefined) return this.borrow(info, memory ?? new ArrayBuffer(0));
    return this.keep({ ...info, memory: known.info.memory }, known.isOwned);
  }

  /** deregMr: detaches owned memory, as a provider does. */
  drop(handle: number): void {
    const region = this.regions.get(handle);
    this.regions.delete(handle);
    if (region?.isOwned) structuredClone(null, { transfer: [region.info.memory as ArrayBuffer] });
  }

  write(handle: number, offsetBytes: number, bytes: Uint8Array): void {
    const info = this.regions.get(handle)?.info;
    if (info === undefined || info.memory.byteLength === 0) return;
    new Uint8Array(info.memory).set(bytes, info.byteOffset + offsetBytes);
  }

  private keep(info: MrInfo, isOwned: boolean): MrInfo {
    this.regions.set(info.handle, { info, isOwned });
    return info;
  }
}

/** A recording keeps only the length of memory. */
function lengthOf(info: MrInfo): number {
  const { $memory } = info.memory as unknown as { $memory?: number };
  return $memory ?? info.byteOffset + info.lengthBytes;
}
