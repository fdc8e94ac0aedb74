/** Queue pairs, and the destinations of datagrams: address handles and multicast groups. */
import {
  IBV_QPT_RC,
  IBV_QPT_UC,
  IBV_QPT_UD,
  IBV_QPT_XRC_RECV,
  IBV_QPT_XRC_SEND,
  IBV_WR_SEND_WITH_INV,
} from '../../verbs/constants.ts';
import { InvalidArgumentError, shown, UnsupportedError } from '../../verbs/errors.ts';
import { requireGid } from '../../verbs/gid.ts';
import { checkModify } from '../../verbs/qp-state.ts';
import type { AhAttr, Ece, QpAttr, QpInfo, QpInitAttr, QpRateLimit } from '../../verbs/types.ts';
import type { Verbs } from '../../verbs/verbs.ts';
import type { NativeVerbs } from './addon.ts';
import { handleOf, requireObject, requireWhole } from './check.ts';
import * as W from './qp-words.ts';

/** @throws InvalidArgumentError for an invalid GID or LID */
function groupBytes(verb: string, gid: string, lid: number): Uint8Array {
  requireWhole(verb, 'lid', lid, 0, 0xffff);
  return requireGid(verb, 'gid', gid);
}

const QP_TYPES = new Set([IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV]);

export function qpVerbs(native: NativeVerbs) {
  return {
    createQp(pd: number, attr: QpInitAttr): QpInfo {
      const verb = 'createQp';
      requireObject(verb, 'attr', attr);
      if (attr.managed === true) {
        throw new UnsupportedError(
          'createQp: this device does not support managed queue pairs (WAIT and ENABLE)',
          {
            verb,
          },
        );
      }
      if (!QP_TYPES.has(attr.qpType)) {
        throw new InvalidArgumentError(
          `${verb}: qpType must be one of IBV_QPT_*, got ${shown(attr.qpType)}`,
          {
            verb,
          },
        );
      }
      const words = new Uint32Array(W.QPW_COUNT);
      W.writeCap(verb, attr.cap, words);
      words[W.QPW_TYPE] = attr.qpType;
      words[W.QPW_EXTENDED] = attr.extended === true ? 1 : 0;
      words[W.QPW_SEND_CQ] = handleOf(attr.sendCq);
      words[W.QPW_RECV_CQ] = handleOf(attr.recvCq);
      words[W.QPW_SRQ] = handleOf(attr.srq ?? 0);
      words[W.QPW_XRCD] = handleOf(attr.xrcd ?? 0);
      const { handle, qpNum, ...cap } = native.createQp(pd, words, attr.sqSigAll === true);
      return { handle, qpNum, cap };
    },
    modifyQp(qp: number, attr: QpAttr, mask: number): void {
      requireObject('modifyQp', 'attr', attr);
      requireWhole('modifyQp', 'mask', mask, 0, 0x7fffffff);
      const known = native.knownState(qp);
      try {
        checkModify(known >>> 8, known & 0xff, attr, mask);
        native.modifyQp(qp, W.wordsOf(attr), mask);
      } catch (error) {
        // The device may have moved the queue pair to SQE or ERR on its own, so judge by its actual state.
        const now = new Uint32Array(W.QPW_COUNT);
        native.queryQp(qp, now);
        if (now[W.QPW_STATE] === (known & 0xff)) throw error;
        checkModify(now[W.QPW_TYPE], now[W.QPW_STATE], attr, mask);
        native.modifyQp(qp, W.wordsOf(attr), mask);
      }
    },
    queryQp(qp: number) {
      const words = new Uint32Array(W.QPW_COUNT);
      native.queryQp(qp, words);
      return W.attrOf(words);
    },
    destroyQp: native.destroyQp,
    attachMcast: (qp: number, gid: string, lid: number) =>
      native.attachMcast(qp, groupBytes('attachMcast', gid, lid), lid),
    detachMcast: (qp: number, gid: string, lid: number) =>
      native.detachMcast(qp, groupBytes('detachMcast', gid, lid), lid),
    createAh(pd: number, attr: AhAttr): number {
      requireObject('createAh', 'attr', attr);
      const words = new Uint32Array(W.QPW_COUNT);
      W.writeAh('createAh', attr, words);
      return native.createAh(pd, words);
    },
    destroyAh: native.destroyAh,
  } satisfies Partial<Verbs>;
}

const U32 = 0xffffffff;

export function qpExVerbs(native: NativeVerbs) {
  return {
    modifyQpRateLimit(qp: number, limit: QpRateLimit): void {
      const verb = 'modifyQpRateLimit';
      requireObject(verb, 'limit', limit);
      const { rateLimitKbps, maxBurstBytes = 0, typicalPktBytes = 0 } = limit;
      requireWhole(verb, 'rateLimitKbps', rateLimitKbps, 0, U32);
      requireWhole(verb, 'maxBurstBytes', maxBurstBytes, 0, U32);
      requireWhole(verb, 'typicalPktBytes', typicalPktBytes, 0, 0xffff);
      native.modifyQpRateLimit(qp, rateLimitKbps, maxBurstBytes, typicalPktBytes);
    },
    queryQpDataInOrder(qp: number, opcode: number, flags: number): number {
      requireWhole('queryQpDataInOrder', 'opcode', opcode, 0, IBV_WR_SEND_WITH_INV);
      requireWhole('queryQpDataInOrder', 'flags', flags, 0, 1);
      return native.queryQpDataInOrder(qp, opcode, flags);
    },
    queryEce: native.queryEce,
    setEce(qp: number, ece: Ece): void {
      requireObject('setEce', 'ece', ece);
      requireWhole('setEce', 'vendorId', ece.vendorId, 0, U32);
      requireWhole('setEce', 'options', ece.options, 0, U32);
      native.setEce(qp, ece.vendorId, ece.options);
    },
  } satisfies Partial<Verbs>;
}
