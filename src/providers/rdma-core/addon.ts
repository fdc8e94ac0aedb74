/** The native addon: the types of its functions, and how it is loaded and diagnosed. */

import { existsSync, readFileSync } from 'node:fs';
import type { ConnectionManager } from '../../verbs/connection-manager.ts';
import { ConfigError, makeError, NoDeviceError, UnsupportedError } from '../../verbs/errors.ts';
import type {
  CompletionListener,
  CqInfo,
  DeviceAttr,
  MrInfo,
  MwInfo,
  PortAttr,
  RingInfo,
  SrqInfo,
} from '../../verbs/types.ts';
import type { Verbs } from '../../verbs/verbs.ts';
import {
  type AddonSource,
  addonLoader,
  buildAdvice,
  detach,
  isAddonForbidden,
  whyNotLoaded,
} from '../native-addon.ts';

/**
 * The addon's report about the libraries of this machine: null if a library can be opened, otherwise the
 * reason.
 */
export interface NativeStatus {
  /** Whether rdma-core's headers were present when the addon was built. */
  verbs: boolean;
  libibverbs: string | null;
  librdmacm: string | null;
  libmlx5: string | null;
}

interface NativeMr {
  handle: number;
  lkey: number;
  rkey: number;
  addr: number;
  lengthBytes: number;
}

interface NativeQp {
  handle: number;
  qpNum: number;
  maxSendWr: number;
  maxRecvWr: number;
  maxSendSge: number;
  maxRecvSge: number;
  maxInlineData: number;
}

/** (event, id, listenId, status, privateData, words of conn, words of ud) */
export type NativeCmListener = (
  event: number,
  id: number,
  listenId: number,
  status: number,
  privateData: Uint8Array,
  conn: Uint32Array | undefined,
  ud: Uint32Array | undefined,
) => void;

/** native/cm.h; absent if the addon was built without the headers of librdmacm. */
export interface NativeCm
  extends Pick<
    ConnectionManager,
    | 'createEventChannel'
    | 'destroyEventChannel'
    | 'refEventChannel'
    | 'destroyId'
    | 'queryId'
    | 'establish'
    | 'disconnect'
  > {
  watchEventChannel(channel: number, listener: NativeCmListener | null): void;
  createId(channel: number, portSpace: number): number;
  bindAddr(id: number, address: string, port: number): void;
  /** An empty `localAddress` means any address. */
  resolveAddr(
    id: number,
    localAddress: string,
    localPort: number,
    remoteAddress: string,
    remotePort: number,
    timeoutMs: number,
  ): void;
  resolveRoute(id: number, timeoutMs: number): void;
  listen(id: number, backlog: number): void;
  connect(id: number, words: Uint32Array, privateData: Uint8Array): void;
  accept(id: number, words: Uint32Array, privateData: Uint8Array): void;
  reject(id: number, privateData: Uint8Array): void;
  notify(id: number, event: number): void;
  /** Fills `words` with the attributes and returns their mask. */
  initQpAttr(id: number, qpState: number, words: Uint32Array): number;
  joinMulticast(id: number, address: string, port: number): void;
  leaveMulticast(id: number, address: string, port: number): void;
}

/** native/verbs.h. Verbs whose arguments need no conversion are the provider's own functions. */
export interface NativeVerbs
  extends Pick<
    Verbs,
    | 'closeDevice'
    | 'allocPd'
    | 'deallocPd'
    | 'deregMr'
    | 'queryMw'
    | 'deallocMw'
    | 'destroyAh'
    | 'openXrcd'
    | 'closeXrcd'
    | 'querySrq'
    | 'destroySrq'
    | 'createCompChannel'
    | 'destroyCompChannel'
    | 'refCompChannel'
    | 'queryDeviceEx'
    | 'queryRtValues'
    | 'queryPkey'
    | 'watchAsyncEvents'
    | 'refAsyncEvents'
    | 'resizeCq'
    | 'modifyCq'
    | 'queryQpDataInOrder'
    | 'queryEce'
    | 'destroyCq'
    | 'reqNotifyCq'
    | 'destroyQp'
    | 'destroyRing'
    | 'validateSend'
  > {
  interfaceVersion: number;
  init(
    make: typeof makeError,
    allocShared: (bytes: number) => Uint8Array,
    detach: (buffer: ArrayBuffer) => void,
  ): void;
  detachBuffer(buffer: ArrayBuffer): void;
  /** Absent if the addon was built from older sources; everything else works with such an addon. */
  pinThread?(cpu: number): void;
  status(): NativeStatus;
  getDeviceList(): { name: string; guid: string; transport: string }[];
  openDevice(name: string): number;
  /** '' if the device executes WAIT, otherwise the reason (native/mlx5.h). */
  probeWait(context: number): string;
  queryDevice(context: number): DeviceAttr;
  queryPort(context: number, portNum: number): PortAttr;
  queryGid(
    context: number,
    portNum: number,
    index: number,
  ): { bytes: Uint8Array; type: string; ndevIfindex: number };
  allocMr(
    pd: number,
    lengthBytes: number,
    access: number,
  ): NativeMr & { memory: ArrayBuffer; byteOffset: number };
  regMr(pd: number, view: Uint8Array, access: number): NativeMr;
  regDmabufMr(
    pd: number,
    offsetBytes: number,
    lengthBytes: number,
    iova: number,
    fd: number,
    access: number,
  ): NativeMr;
  reregMr(mr: number, flags: number, pd: number, view: Uint8Array | undefined, access: number): MrInfo;
  allocMw(pd: number, type: number): MwInfo;
  createAh(pd: number, words: Uint32Array): number;
  attachMcast(qp: number, gid: Uint8Array, lid: number): void;
  detachMcast(qp: number, gid: Uint8Array, lid: number): void;
  createSrq(pd: number, maxWr: number, maxSge: number, xrcd: number, cq: number): SrqInfo;
  modifySrq(srq: number, maxWr: number, srqLimit: number, mask: number): void;
  watchCompChannel(channel: number, listener: CompletionListener | null): void;
  createCq(context: number, cqe: number, channel: number, compVector: number, wcFlags: number): CqInfo;
  createQp(pd: number, words: Uint32Array, sqSigAll: boolean): NativeQp;
  modifyQp(qp: number, words: Uint32Array, mask: number): void;
  /** type << 8 | the last state set, without asking the device. */
  knownState(qp: number): number;
  queryQp(qp: number, words: Uint32Array): void;
  modifyQpRateLimit(qp: number, rateLimitKbps: number, maxBurstBytes: number, typicalPktBytes: number): void;
  setEce(qp: number, vendorId: number, options: number): void;
  createWrRing(capacity: number, sges: number, inlineBytes: number): RingInfo & { byteOffset: number };
  createWcRing(capacity: number): RingInfo & { byteOffset: number };
  /** The words that carry the hot path's arguments and result (hot-path.ts). Once per env. */
  callBlock(): { memory: ArrayBuffer; byteOffset: number; words: number };
  postSend(): void;
  postRecv(): void;
  postSrqRecv(): void;
  pollCq(): void;
}

/** The report of `isoverbs devices` about real devices. */
export interface AddonStatus {
  /** Whether real devices, if present, can be used. */
  available: boolean;
  /** Whether the addon itself could be loaded. */
  loaded: boolean;
  /** Whether it was built on this machine, or came with the package; absent if it could not be loaded. */
  source?: AddonSource;
  /** Whether the addon was built with rdma-core's headers. */
  verbs: boolean;
  /** Why real devices are not available and what to do about it; empty if they are. */
  notes: string[];
  /** null if the library can be opened, otherwise the reason; undefined if the addon could not be asked. */
  libraries: { libibverbs?: string | null; librdmacm?: string | null; libmlx5?: string | null };
}

const INSTALL_LIBRARIES =
  'install rdma-core: `apt install rdma-core ibverbs-providers` (Debian, Ubuntu) or `dnf install rdma-core libibverbs` (Fedora, RHEL)';
const INSTALL_HEADERS =
  'install the headers of rdma-core: `apt install libibverbs-dev librdmacm-dev pkg-config` (Debian, Ubuntu) or `dnf install rdma-core-devel pkgconf` (Fedora, RHEL)';

/** JavaScript's own memory, for runtimes that refuse external ArrayBuffers. It cannot be detached. */
function allocShared(bytes: number): Uint8Array {
  return new Uint8Array(new SharedArrayBuffer(bytes));
}

/** kInterfaceVersion of native/addon.cc. */
const INTERFACE_VERSION = 3;

const loadOnce = addonLoader<NativeVerbs>('isoverbs', INTERFACE_VERSION, (native) =>
  native.init(makeError, allocShared, (buffer) => detach(native, buffer)),
);

function notLoadedAdvice(): string[] {
  if (isAddonForbidden()) return ['unset ISOVERBS_NO_ADDON to use real devices'];
  if (process.platform !== 'linux') return ['real devices require Linux; the simulated device works here'];
  return [INSTALL_HEADERS, `then ${buildAdvice()}`, 'or use the simulated device, which requires no addon'];
}

interface Diagnosis {
  loaded: boolean;
  verbs: boolean;
  reason: string;
  advice: string[];
  libraries: AddonStatus['libraries'];
}

function diagnose(): Diagnosis {
  const { native, error } = loadOnce();
  if (native === null) {
    const reason = `the addon is not loaded: ${whyNotLoaded(error)}`;
    return { loaded: false, verbs: false, reason, advice: notLoadedAdvice(), libraries: {} };
  }
  const { verbs, ...libraries } = native.status();
  if (!verbs) {
    const reason = 'the addon was built without the headers of rdma-core';
    return { loaded: true, verbs, reason, advice: [INSTALL_HEADERS, `then ${buildAdvice()}`], libraries };
  }
  if (libraries.libibverbs !== null) {
    const reason = `libibverbs cannot be opened: ${libraries.libibverbs}`;
    return { loaded: true, verbs, reason, advice: [INSTALL_LIBRARIES], libraries };
  }
  return { loaded: true, verbs, reason: '', advice: [], libraries };
}

/** The status on this machine; never throws. */
export function addonStatus(): AddonStatus {
  const { loaded, verbs, reason, advice, libraries } = diagnose();
  const notes = reason === '' ? [] : [`real devices cannot be used: ${reason}`, ...advice];
  return { available: reason === '', loaded, source: loadOnce().source, verbs, notes, libraries };
}

/** Whether real devices, if present, can be used. */
export function isAddonAvailable(): boolean {
  return diagnose().reason === '';
}

/**
 * The function that pins a thread to one CPU. It requires the addon, but neither rdma-core nor its headers.
 * @throws UnsupportedError with the reason and the remedy if there is none
 */
export function requirePinThread(): (cpu: number) => void {
  const { native, error } = loadOnce();
  if (native?.pinThread !== undefined) return native.pinThread;
  const why =
    native === null
      ? `is not loaded: ${whyNotLoaded(error)}`
      : 'was built from an older version without that function';
  const advice = isAddonForbidden()
    ? 'unset it'
    : process.platform === 'linux'
      ? buildAdvice()
      : 'this requires Linux';
  throw new UnsupportedError(`pinning a thread to a CPU requires the native addon, which ${why}; ${advice}`, {
    cause: error ?? undefined,
  });
}

/**
 * Pins this thread to a CPU.
 * @param source the option that names the CPU, for messages
 * @throws ConfigError if there is no such CPU, or this process may not use it; UnsupportedError without the native addon
 */
export function pinThreadTo(cpu: number, source: string): void {
  const pinThread = requirePinThread();
  try {
    pinThread(cpu);
  } catch (cause) {
    const reason = (cause as Error).message.replace(/^pinThread: /, '');
    throw new ConfigError(`${source}: ${reason}; ${cpuChoices()}`, { cause });
  }
}

/** @throws ConfigError if this host has no such CPU; a host that does not list its CPUs may have any */
export function requireCpuPresent(cpu: number, source: string): void {
  const list = '/sys/devices/system/cpu';
  if (!existsSync(`${list}/cpu0`) || existsSync(`${list}/cpu${cpu}`)) return;
  throw new ConfigError(`${source}: there is no CPU ${cpu}; ${cpuChoices()}`);
}

/** A clause that names the CPUs of this process. */
export function cpuChoices(): string {
  let allowed: string | undefined;
  try {
    allowed = /^Cpus_allowed_list:\s*(\S+)/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1];
  } catch {
    // Without /proc, the list is unknown.
  }
  return allowed === undefined ? 'choose another CPU' : `CPUs that this process may use: ${allowed}`;
}

/** The addon's functions. @throws NoDeviceError with the reason and the remedy if the addon cannot be used */
export function requireNative(): NativeVerbs {
  const { native, error } = loadOnce();
  const { verbs, reason, advice } = diagnose();
  if (native !== null && verbs) return native;
  const list = advice.map((line) => `\n  - ${line}`).join('');
  throw new NoDeviceError(`real RDMA devices cannot be used: ${reason}\nPossible solutions:${list}`, {
    cause: error ?? undefined,
  });
}
