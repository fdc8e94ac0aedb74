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
