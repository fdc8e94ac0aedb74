/** UDP sockets of the addon isoverbs_ipc, which requires no RDMA library. */
import { makeError, UnsupportedError } from '../../verbs/errors.ts';
import { addonLoader, buildAdvice, isAddonForbidden, whyNotLoaded } from '../native-addon.ts';

/**
 * Words of a row: offset, length, traffic class and hop limit (<< 8), errno or source port and identification (<< 16), GID in
 * four words.
 */
export const ROW_WORDS = 8;
export const ROW_GID = 4;
/** In the third word of a received row: the ICRC is wrong. */
export const BAD_ICRC = 1 << 16;
/** The most packets of one call of sendUdp. */
export const MAX_BATCH = 64;
/** Room for a datagram that is received, and rows for its packets. */
export const DATAGRAM_BYTES = 65_536;
export const DATAGRAM_PACKETS = 128;
/** For sendUdp and receiveUdp: packets have their ICRC already, or it is not checked. */
export const NO_GID = new Uint8Array(0);

/** native/ipc/udp.cc, native/ipc/watch.cc. */
export interface NativeUdp {
  readonly interfaceVersion: number;
  init(make: typeof makeError): void;
  /** @throws ConnectionError if the address is in use or is not one of this host */
  openUdp(gid: Uint8Array, port: number, bufferBytes: number, ifindex: number): number;
  /**
   * A socket that receives what is sent to this port of a multicast group, as a member on the interface with this address
   * and number. @throws ConnectionError if the kernel refuses
   */
  joinUdp(group: Uint8Array, gid: Uint8Array, port: number, bufferBytes: number, ifindex: number): number;
  /**
   * Returns how many packets were taken; the kernel has no room for the others. With the GID of the sender, the last four
   * bytes of each packet become its ICRC, for the port of the socket, and packets of one size leave together.
   */
  sendUdp(
    fd: number,
    slab: Uint8Array,
    rows: Uint32Array,
    count: number,
    port: number,
    source: Uint8Array,
  ): number;
  /**
   * Returns how many packets arrived, in datagrams at multiples of DATAGRAM_BYTES: as many as slab and rows have room for.
   * With the GID of the receiver, ICRCs are checked (BAD_ICRC).
   */
  receiveUdp(fd: number, slab: Uint8Array, rows: Uint32Array, dest: Uint8Array): number;
  /**
   * Writes CLOCK_MONOTONIC, which all threads and processes of a host share, in nanoseconds to the first element of an array.
   * V8 would allocate a double that a function returns, such as that of performance.now().
   */
  readClock(to: Float64Array): void;
  closeFd(fd: number): void;
  watchFd(fd: number, listener: (() => void) | null, keepAlive: boolean, events: number): void;
}

/** kInterfaceVersion of native/ipc/addon.cc. */
const INTERFACE_VERSION = 4;

const loadOnce = addonLoader<NativeUdp>('isoverbs_ipc', INTERFACE_VERSION, (native) =>
  native.init(makeError),
);

/** Why there are no user-space RoCE devices here; null if there may be. */
export function whyNoUdp(): string | null {
  const { native, error } = loadOnce();
  if (native === null) {
    const advice = isAddonForbidden() ? 'unset it' : buildAdvice();
    return `they require a native addon, which is not loaded: ${whyNotLoaded(error)}; ${advice}`;
  }
  if (typeof native.readClock === 'function') return null;
  return `the native addon was built from older sources; ${buildAdvice()}`;
}

/** The addon's functions. @throws UnsupportedError with the reason and the remedy if it cannot be used */
export function requireUdp(): NativeUdp {
  const why = whyNoUdp();
  if (why !== null) throw new UnsupportedError(`user-space RoCE devices are unavailable: ${why}`);
  return loadOnce().native as NativeUdp;
}
