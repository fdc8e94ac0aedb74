/** The addon isoverbs_ipc: its functions as TypeScript sees them. Descriptors are plain numbers here. */
import { addonLoader, buildAdvice, isAddonForbidden, whyNotLoaded } from '../../providers/native-addon.ts';
import { makeError, UnsupportedError } from '../../verbs/errors.ts';

/** Who is at the other end of a socket, as the kernel kept it when the two were connected. */
export interface PeerCredentials {
  /** 0 where the peer is in a PID namespace that this process cannot see. */
  readonly pid: number;
  readonly uid: number;
  readonly gid: number;
  /** Supplementary groups. */
  readonly groups: readonly number[];
}

/** What one call to receive brought. */
export interface Received {
  /** Written to the buffer; 0 at the end of the stream. */
  readonly bytes: number;
  /** The receiver's to close. */
  readonly fds: readonly number[];
}

/** native/ipc/ipc.h */
export interface NativeIpc {
  readonly interfaceVersion: number;
  init(make: typeof makeError): void;
  detachBuffer(buffer: ArrayBuffer): void;
  closeFd(fd: number): void;
  createMemory(name: string, bytes: number, reservedBytes: number): { fd: number; buffer: ArrayBuffer };
  sealMemory(fd: number, readOnlyForOthers: boolean): void;
  mapMemory(fd: number, bytes: number, writable: boolean): ArrayBuffer;
  listenUnix(path: string, mode: number, backlog: number, takesFds: boolean): number;
  /** -1: none waits. */
  acceptUnix(fd: number): number;
  /** -1: the listener's queue is full. */
  connectUnix(path: string): number;
  peerCredentials(fd: number): PeerCredentials;
  sendFds(fd: number, bytes: Uint8Array, fds: Uint32Array): number;
  receiveFds(fd: number, buffer: Uint8Array, maxFds: number): Received | undefined;
  /** Absent in a build of older sources. False: the receiver's queue is full. */
  sendDatagram?(address: string, bytes: Uint8Array): boolean;
  createWake(): { near: number; far: number };
  ring(fd: number): boolean;
  drain(fd: number): boolean;
  watchFd(fd: number, listener: (() => void) | null, keepAlive: boolean): void;
}

/** kInterfaceVersion of native/ipc/addon.cc. */
const INTERFACE_VERSION = 1;

const loadOnce = addonLoader<NativeIpc>('isoverbs_ipc', INTERFACE_VERSION, (native) =>
  native.init(makeError),
);

/** Now, and not within the first verb that needs it; why it cannot be loaded that one tells. */
export function loadIpc(): void {
  loadOnce();
}

/** The addon's functions. @throws UnsupportedError with the reason and what to do, where it cannot be loaded */
export function requireIpc(): NativeIpc {
  const { native, error } = loadOnce();
  if (native !== null) return native;
  const advice = isAddonForbidden()
    ? 'unset it'
    : process.platform === 'linux'
      ? buildAdvice()
      : 'this needs Linux';
  throw new UnsupportedError(
    `processes share a device through a native addon, which is not loaded: ${whyNotLoaded(error)}; ${advice}`,
    { cause: error ?? undefined },
  );
}
