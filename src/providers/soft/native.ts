/** UDP sockets of the addon isoverbs_ipc, which requires no RDMA library. */
import { makeError, UnsupportedError } from '../../verbs/errors.ts';
import { addonLoader, buildAdvice, isAddonForbidden, whyNotLoaded } from '../native-addon.ts';

/** Words of a row: offset, length, traffic class and hop limit (<< 8), errno or source port, GID in four words. */
export const ROW_WORDS = 8;
export const ROW_GID = 4;
/** The most packets of one call. */
export const MAX_BATCH = 64;

/** native/ipc/udp.cc, native/ipc/watch.cc. */
export interface NativeUdp {
  readonly interfaceVersion: number;
  init(make: typeof makeError): void;
  /** @throws ConnectionError if the address is in use or is not one of this host */
  openUdp(gid: Uint8Array, port: number, bufferBytes: number): number;
  /** Returns how many packets were taken; the kernel has no room for the others. */
  sendUdp(fd: number, slab: Uint8Array, rows: Uint32Array, count: number, port: number): number;
  receiveUdp(fd: number, slab: Uint8Array, strideBytes: number, rows: Uint32Array, max: number): number;
  closeFd(fd: number): void;
  watchFd(fd: number, listener: (() => void) | null, keepAlive: boolean, events: number): void;
}

/** kInterfaceVersion of native/ipc/addon.cc. */
const INTERFACE_VERSION = 2;

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
  if (typeof native.openUdp === 'function') return null;
  return `the native addon was built from older sources; ${buildAdvice()}`;
}

/** The addon's functions. @throws UnsupportedError with the reason and the remedy if it cannot be used */
export function requireUdp(): NativeUdp {
  const why = whyNoUdp();
  if (why !== null) throw new UnsupportedError(`there are no user-space RoCE devices: ${why}`);
  return loadOnce().native as NativeUdp;
}
