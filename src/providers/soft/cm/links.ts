/** The exchanges of identifiers with their peers, by the IDs that messages name. */
import type { CmId } from '../../sim/cm/objects.ts';

/** One exchange. */
export interface Link {
  readonly id: CmId;
  /** Communication ID of this end, or its request ID for datagrams. */
  readonly localId: number;
  /** That of the peer; 0 until it is known. */
  remoteId: number;
  readonly remoteGid: string;
  /** The peer's queue pair; 0 until it is known. */
  remoteQpn: number;
  /** Code of the path MTU. */
  mtuCode: number;
  /** Transaction ID: this end's, until a message of the peer has another one, which answers repeat. */
  transaction: readonly [hi: number, lo: number];
  /** The last datagram, which is sent again if no answer arrives or the peer repeats its own. */
  last: Uint8Array | null;
  /** How often the last datagram was sent again, and the number of its timer. */
  tries: number;
  timer: number;
  /** Whether the peer has asked for more time, which it may do once for each message. */
  extended: boolean;
  /** Closes the device, once the identifier is destroyed and the peer has not confirmed the end yet; otherwise null. */
  release: (() => void) | null;
}

/** The most requests without a connection that a process keeps. Further ones are dropped, and their clients repeat them. */
export const MAX_HALF_OPEN = 1024;
/** Of these, the most from one address, so that one peer does not keep out all others. */
export const MAX_HALF_OPEN_OF_PEER = 512;

export class Links {
  private readonly byId = new Map<CmId, Link>();
  private readonly byLocal = new Map<number, Link>();
  /** Incoming ones by address and communication ID of the peer. */
  private readonly byRemote = new Map<string, Link>();
  /** By address and queue pair of the peer. */
  private readonly byQueuePair = new Map<string, Link>();
  private readonly halfOpen = new Set<Link>();
  private readonly random: () => number;

  /** @param random returns 32 random bits, so that no third party can guess the ID of an exchange */
  constructor(random: () => number) {
    this.random = random;
  }

  /** Adds the exchange of an identifier that connects. */
  add(id: CmId, remoteGid: string, mtuCode: number): Link {
    let localId = this.random();
    while (localId === 0 || this.byLocal.has(localId)) localId = this.random();
    const link: Link = {
      id,
      localId,
      remoteId: 0,
      remoteGid,
      remoteQpn: 0,
      mtuCode,
      transaction: [0, localId],
      last: null,
      tries: 0,
      timer: 0,
      extended: false,
      release: null,
    };
    this.byId.set(id, link);
    this.byLocal.set(localId, link);
    return link;
  }

  /** Adds the exchange of an identifier that a request has created. */
  addIncoming(id: CmId, remoteGid: string, mtuCode: number, remoteId: number): Link {
    const link = this.add(id, remoteGid, mtuCode);
    link.remoteId = remoteId;
    this.byRemote.set(keyOf(id, remoteGid, remoteId), link);
    this.halfOpen.add(link);
    return link;
  }

  /** Sets the peer's queue pair, once it is known. */
  setQueuePair(link: Link, qpn: number): void {
    link.remoteQpn = qpn;
    this.byQueuePair.set(keyOf(link.id, link.remoteGid, qpn), link);
  }

  /** The request has its final answer. */
  settle(link: Link): void {
    this.halfOpen.delete(link);
  }

  /** Whether there may be one more request from this address. */
  hasRoomFor(remoteGid: string): boolean {
    if (this.halfOpen.size >= MAX_HALF_OPEN) return false;
    let count = 0;
    for (const link of this.halfOpen) if (link.remoteGid === remoteGid) count++;
    return count < MAX_HALF_OPEN_OF_PEER;
  }

  of(id: CmId): Link | undefined {
    return this.byId.get(id);
  }

  /** The exchange with this ID at `host`, if its peer has this address. */
  local(host: number, remoteGid: string, localId: number): Link | undefined {
    const link = this.byLocal.get(localId);
    return link !== undefined && link.id.host === host && link.remoteGid === remoteGid ? link : undefined;
  }

  remote(host: number, portSpace: number, remoteGid: string, remoteId: number): Link | undefined {
    return this.byRemote.get(keyOf({ host, portSpace }, remoteGid, remoteId));
  }

  withQueuePair(host: number, portSpace: number, remoteGid: string, qpn: number): Link | undefined {
    return this.byQueuePair.get(keyOf({ host, portSpace }, remoteGid, qpn));
  }

  remove(link: Link): void {
    const { id, remoteGid, remoteId, remoteQpn } = link;
    this.byId.delete(id);
    this.byLocal.delete(link.localId);
    this.halfOpen.delete(link);
    for (const [map, number] of [
      [this.byRemote, remoteId],
      [this.byQueuePair, remoteQpn],
    ] as const) {
      const key = keyOf(id, remoteGid, number);
      if (map.get(key) === link) map.delete(key);
    }
  }
}

function keyOf(
  { host, portSpace }: { host: number; portSpace: number },
  gid: string,
  number: number,
): string {
  return `${host} ${portSpace} ${gid} ${number}`;
}
