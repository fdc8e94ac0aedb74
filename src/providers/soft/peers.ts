/** The addresses that queue pairs and address handles of user-space RoCE devices name, by number. */
import { FIRST_REMOTE } from '../../sim/network/uplink.ts';
import { gidToBytes } from '../../verbs/gid.ts';

/** Addresses by number. The program creates them, not its peers; they are never removed, because handles name them. */
export class Peers {
  private readonly byGid = new Map<string, number>();
  /** By number: the 16 bytes of the GID. */
  readonly gids: Uint8Array[] = [];

  /** The host number of a GID in its shortest form. */
  numberOf(gid: string): number {
    let index = this.byGid.get(gid);
    if (index === undefined) {
      index = this.gids.push(gidToBytes(gid)) - 1;
      this.byGid.set(gid, index);
    }
    return FIRST_REMOTE - index;
  }

  /** The GID of a host number; undefined if it names no address. */
  gidOf(host: number): Uint8Array | undefined {
    return this.gids[FIRST_REMOTE - host];
  }
}

const V4_AT = 12;

/** Whether a GID is an IPv4 address, mapped into IPv6. */
export function isIpv4(gid: Uint8Array): boolean {
  for (let i = 0; i < 10; i++) if (gid[i] !== 0) return false;
  return gid[10] === 0xff && gid[11] === 0xff;
}

/** Copies the address of a GID into one of 4 or 16 bytes. */
export function copyAddress(to: Uint8Array, gid: Uint8Array, at: number): void {
  const from = at + (to.length === 4 ? V4_AT : 0);
  for (let i = 0; i < to.length; i++) to[i] = gid[from + i];
}
