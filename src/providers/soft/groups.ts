/** Membership of a device in multicast groups: an additional socket for each group with attached queue pairs. */
import { ROCE_PORT } from '../../roce/icrc.ts';
import type { Group } from '../../sim/network/address.ts';
import { ConnectionError } from '../../verbs/errors.ts';
import { gidToBytes, gidToString } from '../../verbs/gid.ts';
import { addressOf } from './devices.ts';
import type { NativeUdp } from './native.ts';

/** Bytes of the receive buffer of a group's socket. */
const BUFFER_BYTES = 1 << 20;
const READABLE = 1;

/** A group of which the device is a member. */
export interface Membership {
  readonly fd: number;
  readonly gid: Uint8Array;
  readonly group: Group;
}

export class Memberships {
  /** In order of joining. A list, because iterating over a map would allocate an iterator for each poll. */
  list: readonly Membership[] = [];
  private readonly native: NativeUdp;
  private readonly device: Uint8Array;
  private readonly ifindex: number;
  private readonly onReady: () => void;
  private keepsAlive = false;

  /**
   * @param device GID of the device
   * @param ifindex number of its network interface
   */
  constructor(native: NativeUdp, device: Uint8Array, ifindex: number, onReady: () => void) {
    this.native = native;
    this.device = device;
    this.ifindex = ifindex;
    this.onReady = onReady;
  }

  /** Joins or leaves a group as its queue pairs require. @throws ConnectionError if the kernel refuses */
  update(text: string, group: Group, isMember: boolean): void {
    const member = this.list.find((one) => one.group === group);
    if (isMember === (member !== undefined)) return;
    if (member !== undefined) {
      this.list = this.list.filter((one) => one !== member);
      this.end(member);
      return;
    }
    const gid = gidToBytes(text);
    const fd = this.join(gid, text);
    this.list = [...this.list, { fd, gid, group }];
    this.watch(fd);
  }

  private join(gid: Uint8Array, text: string): number {
    try {
      return this.native.joinUdp(gid, this.device, ROCE_PORT, BUFFER_BYTES, this.ifindex);
    } catch (cause) {
      if (!(cause instanceof ConnectionError)) throw cause;
      const { message, errno } = cause;
      throw new ConnectionError(
        `attachMcast: ${addressOf(gidToString(this.device))} cannot join ${addressOf(text)}: ${message}; if kernel soft-RoCE uses port 4791 of this host, run the program in another network namespace`,
        { verb: 'attachMcast', errno, cause },
      );
    }
  }

  /** Whether waiting for packets keeps the process alive. */
  keepAlive(keeps: boolean): void {
    this.keepsAlive = keeps;
    for (const { fd } of this.list) this.watch(fd);
  }

  close(): void {
    for (const member of this.list) this.end(member);
    this.list = [];
  }

  private watch(fd: number): void {
    this.native.watchFd(fd, this.onReady, this.keepsAlive, READABLE);
  }

  private end({ fd }: Membership): void {
    this.native.watchFd(fd, null, false, READABLE);
    this.native.closeFd(fd);
  }
}
