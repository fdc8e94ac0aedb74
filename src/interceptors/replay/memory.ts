/** Memory regions of a replay: memory of the program's, or ours, at the recorded addresses. */
import type { MrInfo } from '../../verbs/types.ts';

type AnyBuffer = ArrayBuffer | SharedArrayBuffer;

interface Region {
  info: MrInfo;
  isOurs: boolean;
}

export class ReplayMemory {
  private readonly regions = new Map<number, Region>();

  /** Memory that the provider made: as long as the recorded. */
  own(info: MrInfo): MrInfo {
    return this.keep({ ...info, memory: new ArrayBuffer(lengthOf(info)) }, true);
  }

  borrow(info: MrInfo, memory: AnyBuffer): MrInfo {
    return this.keep({ ...info, memory }, false);
  }

  /** reregMr: other keys, and perhaps other memory. */
  change(handle: number, info: MrInfo, memory: AnyBuffer | undefined): MrInfo {
    const known = this.regions.get(handle);
    this.regions.delete(handle);
    if (memory !== undefined || known === undefined) return this.borrow(info, memory ?? new ArrayBuffer(0));
    return this.keep({ ...info, memory: known.info.memory }, known.isOurs);
  }

  /** deregMr: ours is detached, as the provider's would be. */
  drop(handle: number): void {
    const region = this.regions.get(handle);
    this.regions.delete(handle);
    if (region?.isOurs) structuredClone(null, { transfer: [region.info.memory as ArrayBuffer] });
  }

  write(handle: number, offsetBytes: number, bytes: Uint8Array): void {
    const info = this.regions.get(handle)?.info;
    if (info === undefined || info.memory.byteLength === 0) return;
    new Uint8Array(info.memory).set(bytes, info.byteOffset + offsetBytes);
  }

  private keep(info: MrInfo, isOurs: boolean): MrInfo {
    this.regions.set(info.handle, { info, isOurs });
    return info;
  }
}

/** Memory is recorded by its length alone. */
function lengthOf(info: MrInfo): number {
  const { $memory } = info.memory as unknown as { $memory?: number };
  return $memory ?? info.byteOffset + info.lengthBytes;
}
