/** The addon isoverbs_ipc: its functions with their TypeScript types. Descriptors are plain numbers here. */
import { addonLoader, buildAdvice, isAddonForbidden, whyNotLoaded } from '../../providers/native-addon.ts';
import { makeError, UnsupportedError } from '../../verbs/errors.ts';

/** The process at the other end of a socket, as the kernel recorded it when the two were connected. */
export interface PeerCredentials {
  /** 0 if the peer is in a PID namespace that this process cannot see. */
  readonly pid: number;
  readonly uid: number;
  readonly gid: number;
  /** Supplementary groups. */
  readonly groups: readonly number[];
}

/** The result of one receive call. */
export interface Received {
  /** Bytes written to the buffer; 0 at the end of the stream. */
  readonly bytes: number;
  /** To be closed by the receiver. */
  readonly fds: readonly number[];
}

/** native/ipc/ipc.h */
export interface NativeIpc {
  readonly interfaceVersion: number;
  init(make: typeof makeError): void;
  detachBuffer(buffer: ArrayBuffer): void;
  closeFd(fd: number): void;
  /** False if descriptors wait in the socket; the listener is then called when it is closed. */
  closeSocket(fd: number, listener: () => void): boolean;
  closeListener(fd: number): void;
  createMemory(name: string, bytes: number, reservedBytes: number): { fd: number; buffer: ArrayBuffer };
  sealMemory(fd: number, readOnlyForOthers: boolean): void;
  mapMemory(fd: number, bytes: number, writable: boolean): ArrayBuffer;
  listenUnix(path: string, mode: number, backlog: number, takesFds: boolean): number;
  /** -1 if no connection waits. */
  acceptUnix(fd: number): number;
  /** -1 if the listener's queue is full. */
  connectUnix(path: string): number;
  peerCredentials(fd: number): PeerCredentials;
  /** Undefined if the kernel cannot tell. */
  isPeerAlive(fd: number): boolean | undefined;
  sendFds(fd: number, bytes: Uint8Array, fds: Uint32Array): number;
  /** Undefined if nothing has arrived; null for a descriptor where none belongs (`maxFds` 0). */
  receiveFds(fd: number, buffer: Uint8Array, maxFds: number): Received | null | undefined;
  /** Absent if the addon was built from older sources. False if the receiver's queue is full. */
  sendDatagram?(address: string, bytes: Uint8Array): boolean;
  createWake(): { near: number; far: number };
  ring(fd: number): boolean;
  /** Null for a descriptor. */
  drain(fd: number): boolean | null;
  watchFd(fd: number, listener: (() => void) | null, keepAlive: boolean, events: number): void;
}

/** kInterfaceVersion of native/ipc/addon.cc. */
const INTERFACE_VERSION = 4;

const loadOnce = addonLoader<NativeIpc>('isoverbs_ipc', INTERFACE_VERSION, (native) =>
  native.init(makeError),
);

/**
 * Loads the addon in advance, rather than in the first verb that needs it. That verb reports why it cannot be
 * loaded.
 */
export function loadIpc(): void {
  loadOnce();
}

/** The addon's functions. @throws UnsupportedError with the reason and the remedy if it cannot be loaded */
export function requireIpc(): NativeIpc {
  const { native, error } = loadOnce();
  if (native !== null) return native;
  const advice = isAddonForbidden()
    ? 'unset it'
    : process.platform === 'linux'
      ? buildAdvice()
      : 'this requires Linux';
  throw new UnsupportedError(
    `sharing a device between processes requires a native addon, which is not loaded: ${whyNotLoaded(error)}; ${advice}`,
    { cause: error ?? undefined },
  );
}
