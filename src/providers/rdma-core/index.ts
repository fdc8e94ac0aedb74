/** Real devices: rdma-core through the addon. */
import { isAnyArrayBuffer } from 'node:util/types';
import { InvalidArgumentError, MemoryError, UnsupportedError } from '../../verbs/errors.ts';
import { gidToString } from '../../verbs/gid.ts';
import type { MrInfo, Provider, QpAttr, QpInfo, QpInitAttr, RingInfo, Verbs } from '../../verbs/provider.ts';
import { checkModify } from '../../verbs/qp-state.ts';
import { unsupportedVerbs } from '../../verbs/unsupported.ts';
import { type NativeVerbs, requireNative } from './addon.ts';
import { hotPath } from './hot-path.ts';
import { attrOf, QPW_COUNT, QPW_STATE, QPW_TYPE, wordsOf, writeCap } from './qp-words.ts';
import { tcpRendezvous } from './rendezvous.ts';

export { type AddonStatus, addonStatus, isAddonAvailable } from './addon.ts';

const PROVIDER_NAME = 'rdma-core';

function whole(verb: string, name: string, value: unknown, min: number, max: number): void {
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return;
  throw new InvalidArgumentError(
    `${verb}: ${name} must be a whole number from ${min} to ${max}, got ${String(value)}`,
    { verb },
  );
}

function deviceVerbs(native: NativeVerbs) {
  return {
    getDeviceList: () => native.getDeviceList().map((device) => ({ ...device, provider: PROVIDER_NAME })),
    openDevice(name: string) {
      if (typeof name !== 'string') {
        throw new InvalidArgumentError(`openDevice: the name must be a string, got ${String(name)}`, {
          verb: 'openDevice',
        });
      }
      return native.openDevice(name);
    },
    closeDevice: native.closeDevice,
    queryDevice: native.queryDevice,
    queryPort(context: number, portNum: number) {
      whole('queryPort', 'portNum', portNum, 0, 255);
      return native.queryPort(context, portNum);
    },
    queryGid(context: number, portNum: number, index: number) {
      whole('queryGid', 'portNum', portNum, 0, 255);
      whole('queryGid', 'index', index, 0, 0xffff);
      const { bytes, type } = native.queryGid(context, portNum, index);
      return { index, gid: gidToString(bytes), type, ndevIfindex: 0 };
    },
  } satisfies Partial<Verbs>;
}

/** The bytes to register. @throws MemoryError for what cannot stay in place, InvalidArgumentError for a bad range */
function viewOf(
  memory: ArrayBuffer | SharedArrayBuffer,
  byteOffset: number,
  lengthBytes: number,
): Uint8Array {
  const verb = 'regMr';
  if (!isAnyArrayBuffer(memory)) {
    throw new InvalidArgumentError('regMr: memory must be an ArrayBuffer or a SharedArrayBuffer', { verb });
  }
  const flags = memory as { resizable?: boolean; growable?: boolean; detached?: boolean };
  if (flags.resizable === true || flags.growable === true) {
    throw new MemoryError('regMr: the buffer is resizable; it could move under the device', { verb });
  }
  if (memory.byteLength === 0) {
    throw new MemoryError('regMr: the buffer is empty or detached', { verb });
  }
  whole(verb, 'byteOffset', byteOffset, 0, memory.byteLength - 1);
  whole(verb, 'lengthBytes', lengthBytes, 1, memory.byteLength - byteOffset);
  return new Uint8Array(memory, byteOffset, lengthBytes);
}

function memoryVerbs(native: NativeVerbs) {
  const checkAccess = (verb: string, access: number) => whole(verb, 'access', access, 0, 15);
  return {
    allocPd: native.allocPd,
    deallocPd: native.deallocPd,
    allocMr(pd: number, lengthBytes: number, access: number): MrInfo {
      whole('allocMr', 'lengthBytes', lengthBytes, 1, Number.MAX_SAFE_INTEGER);
      checkAccess('allocMr', access);
      return { ...native.allocMr(pd, lengthBytes, access), lengthBytes };
    },
    regMr(
      pd: number,
      memory: ArrayBuffer | SharedArrayBuffer,
      byteOffset: number,
      lengthBytes: number,
      access: number,
    ): MrInfo {
      checkAccess('regMr', access);
      const view = viewOf(memory, byteOffset, lengthBytes);
      return { ...native.regMr(pd, view, access), lengthBytes, memory, byteOffset };
    },
    deregMr: native.deregMr,
  } satisfies Partial<Verbs>;
}

/** Rings begin at their buffer's first byte, but where the fallback of native/memory.cc had to align them. */
function ring(info: RingInfo & { byteOffset: number }): RingInfo {
  if (info.byteOffset !== 0) {
    throw new UnsupportedError(
      'this runtime allows no external ArrayBuffers: rings cannot be shared with the addon',
    );
  }
  return info;
}

function queueVerbs(native: NativeVerbs) {
  return {
    createCompChannel: native.createCompChannel,
    destroyCompChannel: native.destroyCompChannel,
    watchCompChannel: native.watchCompChannel,
    refCompChannel: native.refCompChannel,
    createCq(context: number, cqe: number, channel: number) {
      whole('createCq', 'cqe', cqe, 1, 0x7fffffff);
      // 0 is no channel; what is no handle must not become one by conversion.
      const handle = Number.isInteger(channel) && channel >= 0 && channel < 2 ** 31 ? channel : -1;
      return native.createCq(context, cqe, handle);
    },
    destroyCq: native.destroyCq,
    reqNotifyCq: native.reqNotifyCq,
    createWrRing: (capacity: number, sges: number, inlineBytes: number) =>
      ring(native.createWrRing(capacity, sges, inlineBytes)),
    createWcRing: (capacity: number) => ring(native.createWcRing(capacity)),
    destroyRing: native.destroyRing,
    validateSend: native.validateSend,
    ...hotPath(native),
  } satisfies Partial<Verbs>;
}

function qpVerbs(native: NativeVerbs) {
  return {
    createQp(pd: number, attr: QpInitAttr): QpInfo {
      const verb = 'createQp';
      if (attr.managed === true) {
        throw new UnsupportedError('createQp: this device has no managed queue pairs (WAIT and ENABLE)', {
          verb,
        });
      }
      whole(verb, 'qpType', attr.qpType, 2, 4);
      const words = new Uint32Array(QPW_COUNT);
      writeCap(verb, attr.cap, words);
      words[QPW_TYPE] = attr.qpType;
      const { handle, qpNum, ...cap } = native.createQp(
        pd,
        words,
        attr.sendCq,
        attr.recvCq,
        attr.sqSigAll === true,
      );
      return { handle, qpNum, cap };
    },
    modifyQp(qp: number, attr: QpAttr, mask: number): void {
      whole('modifyQp', 'mask', mask, 0, 0x7fffffff);
      const now = new Uint32Array(QPW_COUNT);
      native.queryQp(qp, now);
      checkModify(now[QPW_TYPE], now[QPW_STATE], attr, mask);
      native.modifyQp(qp, wordsOf(attr), mask);
    },
    queryQp(qp: number) {
      const words = new Uint32Array(QPW_COUNT);
      native.queryQp(qp, words);
      return attrOf(words);
    },
    destroyQp: native.destroyQp,
  } satisfies Partial<Verbs>;
}

const NS_PER_MS = 1e6;

/** The monotonic clock, the same in all threads: performance.now() alone begins anew in each worker. */
function monotonicClock(): () => number {
  const [seconds, nanoseconds] = process.hrtime();
  const originNs = seconds * 1e9 + nanoseconds - performance.now() * NS_PER_MS;
  return () => originNs + performance.now() * NS_PER_MS;
}

/** Real devices. @throws NoDeviceError, saying what to install, where the addon cannot be used */
export function createRdmaCoreProvider(): Provider {
  const native = requireNative();
  return Object.freeze({
    name: PROVIDER_NAME,
    threads: 'any',
    wait: 'none',
    interceptors: Object.freeze([]),
    ...unsupportedVerbs({
      queryDeviceEx: 'is not there yet',
      queryRtValues: 'is not there yet',
      queryPkey: 'is not there yet',
      watchAsyncEvents: 'is not there yet',
      refAsyncEvents: 'is not there yet',
      openXrcd: 'is not there yet',
      closeXrcd: 'is not there yet',
      regDmabufMr: 'is not there yet',
      reregMr: 'is not there yet',
      allocMw: 'is not there yet',
      queryMw: 'is not there yet',
      deallocMw: 'is not there yet',
      createAh: 'is not there yet',
      destroyAh: 'is not there yet',
      resizeCq: 'is not there yet',
      modifyCq: 'is not there yet',
      createSrq: 'is not there yet',
      modifySrq: 'is not there yet',
      querySrq: 'is not there yet',
      destroySrq: 'is not there yet',
      modifyQpRateLimit: 'is not there yet',
      queryQpDataInOrder: 'is not there yet',
      queryEce: 'is not there yet',
      setEce: 'is not there yet',
      attachMcast: 'is not there yet',
      detachMcast: 'is not there yet',
      postSrqRecv: 'is not there yet',
    }),
    cm: null,
    cmError: 'is not there yet',
    rendezvous: tcpRendezvous,
    ...deviceVerbs(native),
    ...memoryVerbs(native),
    ...queueVerbs(native),
    ...qpVerbs(native),
    nowNs: monotonicClock(),
    sleep: (_context: number, delayNs: number) =>
      new Promise<void>((resolve) => setTimeout(resolve, delayNs / NS_PER_MS)),
  });
}
