/** rdma_cm on real devices: librdmacm through the addon. */

import type { CmAddress, CmConnParam, CmEvent, ConnectionManager } from '../../verbs/connection-manager.ts';
import * as C from '../../verbs/constants.ts';
import { InvalidArgumentError, UnsupportedError } from '../../verbs/errors.ts';
import { fieldsOf } from '../../verbs/qp-state.ts';
import type { QpAttr } from '../../verbs/types.ts';
import type { NativeCm, NativeCmListener, NativeVerbs } from './addon.ts';
import { requireWhole } from './check.ts';
import { attrOf, QPW_COUNT, QPW_DEST_QP_NUM, QPW_QKEY, readAh } from './qp-words.ts';

const NOTHING = new Uint8Array(0);
/** kNoQp of native/cm-verbs.cc. */
const NO_QP = 0xffffffff;
const MAX_TIMEOUT_MS = 0x7fffffff;

/** The fields of rdma_conn_param except its private data, in its order: name, default, maximum. */
const CONN_FIELDS = [
  ['responderResources', C.RDMA_MAX_RESP_RES, 0xff],
  ['initiatorDepth', C.RDMA_MAX_INIT_DEPTH, 0xff],
  ['flowControl', 0, 1],
  ['retryCount', 7, 7],
  ['rnrRetryCount', 7, 7],
  ['srq', 0, 1],
  ['qpNum', NO_QP, 0xffffff],
] as const satisfies readonly (readonly [keyof CmConnParam, number, number])[];

function connWords(verb: string, param: CmConnParam): Uint32Array {
  if (typeof param !== 'object' || param === null) {
    throw new InvalidArgumentError(`${verb}: the parameters must be an object, got ${String(param)}`, {
      verb,
    });
  }
  const words = new Uint32Array(CONN_FIELDS.length);
  CONN_FIELDS.forEach(([field, fallback, max], i) => {
    const value = param[field];
    if (value === undefined) {
      words[i] = fallback;
    } else {
      const number = typeof value === 'boolean' && field === 'srq' ? Number(value) : value;
      requireWhole(verb, field, number, 0, max);
      words[i] = number as number;
    }
  });
  return words;
}

function connOf(words: Uint32Array): CmConnParam {
  const [responderResources, initiatorDepth, flowControl, retryCount, rnrRetryCount, srq, qpNum] = words;
  return {
    responderResources,
    initiatorDepth,
    flowControl,
    retryCount,
    rnrRetryCount,
    srq: srq !== 0,
    qpNum,
  };
}

function bytesOf(verb: string, data: Uint8Array | undefined): Uint8Array {
  if (data === undefined) return NOTHING;
  if (data instanceof Uint8Array) return data;
  throw new InvalidArgumentError(`${verb}: privateData must be a Uint8Array, got ${String(data)}`, { verb });
}

function checkAddress(verb: string, name: string, address: CmAddress): void {
  if (typeof address !== 'object' || address === null || typeof address.address !== 'string') {
    throw new InvalidArgumentError(`${verb}: ${name} must be { address: string, port: number }`, { verb });
  }
  requireWhole(verb, `${name}.port`, address.port, 0, 0xffff);
}

function cmListener(listener: (event: CmEvent) => void): NativeCmListener {
  return (event, id, listenId, status, privateData, conn, ud) => {
    const cmEvent: CmEvent = { event, id, listenId, status, privateData };
    if (conn !== undefined) cmEvent.conn = connOf(conn);
    if (ud !== undefined) cmEvent.ud = { ah: readAh(ud), qpNum: ud[QPW_DEST_QP_NUM], qkey: ud[QPW_QKEY] };
    listener(cmEvent);
  };
}

function addressVerbs(native: NativeCm) {
  return {
    bindAddr(id: number, local: CmAddress): void {
      checkAddress('bindAddr', 'local', local);
      native.bindAddr(id, local.address, local.port);
    },
    resolveAddr(id: number, local: CmAddress | null, remote: CmAddress, timeoutMs: number): void {
      const verb = 'resolveAddr';
      if (local !== null) checkAddress(verb, 'local', local);
      checkAddress(verb, 'remote', remote);
      requireWhole(verb, 'timeoutMs', timeoutMs, 0, MAX_TIMEOUT_MS);
      native.resolveAddr(id, local?.address ?? '', local?.port ?? 0, remote.address, remote.port, timeoutMs);
    },
    resolveRoute(id: number, timeoutMs: number): void {
      requireWhole('resolveRoute', 'timeoutMs', timeoutMs, 0, MAX_TIMEOUT_MS);
      native.resolveRoute(id, timeoutMs);
    },
    listen(id: number, backlog: number): void {
      requireWhole('listen', 'backlog', backlog, 0, 0x7fffffff);
      native.listen(id, backlog);
    },
    joinMulticast(id: number, group: CmAddress): void {
      checkAddress('joinMulticast', 'group', group);
      native.joinMulticast(id, group.address, group.port);
    },
    leaveMulticast(id: number, group: CmAddress): void {
      checkAddress('leaveMulticast', 'group', group);
      native.leaveMulticast(id, group.address, group.port);
    },
  } satisfies Partial<ConnectionManager>;
}

function connectionVerbs(native: NativeCm) {
  return {
    connect(id: number, param: CmConnParam): void {
      const words = connWords('connect', param);
      native.connect(id, words, bytesOf('connect', param.privateData));
    },
    accept(id: number, param: CmConnParam & { qkey?: number }): void {
      const verb = 'accept';
      const words = connWords(verb, param);
      if (param.qkey !== undefined && param.qkey !== C.RDMA_UDP_QKEY) {
        requireWhole(verb, 'qkey', param.qkey, 0, 0xffffffff);
        throw new UnsupportedError(
          'accept: librdmacm supports no qkey other than RDMA_UDP_QKEY (0x01234567)',
          {
            verb,
          },
        );
      }
      native.accept(id, words, bytesOf(verb, param.privateData));
    },
    reject(id: number, privateData: Uint8Array): void {
      native.reject(id, bytesOf('reject', privateData));
    },
    notify(id: number, event: number): void {
      if (event !== C.IBV_EVENT_COMM_EST) {
        throw new InvalidArgumentError(`notify: event must be IBV_EVENT_COMM_EST, got ${String(event)}`, {
          verb: 'notify',
        });
      }
      native.notify(id, event);
    },
    initQpAttr(id: number, qpState: number): { attr: QpAttr; mask: number } {
      requireWhole('initQpAttr', 'qpState', qpState, 0, 6);
      const words = new Uint32Array(QPW_COUNT);
      const mask = native.initQpAttr(id, qpState, words);
      return { attr: fieldsOf(attrOf(words).attr, mask), mask };
    },
  } satisfies Partial<ConnectionManager>;
}

function cmVerbs(native: NativeCm): ConnectionManager {
  return Object.freeze({
    createEventChannel: native.createEventChannel,
    destroyEventChannel: native.destroyEventChannel,
    watchEventChannel(channel: number, listener: ((event: CmEvent) => void) | null): void {
      // The addon rejects anything that is neither a function nor null.
      native.watchEventChannel(channel, typeof listener === 'function' ? cmListener(listener) : listener);
    },
    refEventChannel: native.refEventChannel,
    createId(channel: number, portSpace: number): number {
      requireWhole('createId', 'portSpace', portSpace, 0, 0xffff);
      return native.createId(channel, portSpace);
    },
    destroyId: native.destroyId,
    queryId: native.queryId,
    establish: native.establish,
    disconnect: native.disconnect,
    ...addressVerbs(native),
    ...connectionVerbs(native),
  });
}

/**
 * The `cm` and `cmError` of the provider. Null only if librdmacm is missing, which does not change. Whether
 * the kernel supports rdma_cm is known only when an event channel is created, because that loads the kernel
 * module.
 */
export function connectionManager(
  native: NativeVerbs & Partial<NativeCm>,
): { cm: ConnectionManager; cmError: null } | { cm: null; cmError: string } {
  const reason = native.status().librdmacm;
  if (reason === null) return { cm: cmVerbs(native as NativeCm), cmError: null };
  return {
    cm: null,
    cmError: `librdmacm cannot be used: ${reason}; install it (\`apt install librdmacm1\`)`,
  };
}
