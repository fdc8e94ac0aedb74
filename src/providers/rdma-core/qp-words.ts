/** Attributes of queue pairs as words, the form in which they are passed to the addon (native/qp.h). */
import { IBV_QPS_SQD } from '../../verbs/constants.ts';
import { InvalidArgumentError, shown } from '../../verbs/errors.ts';
import { gidToString, requireGid } from '../../verbs/gid.ts';
import type { AhAttr, QpAttr, QpCap, QpInitAttr } from '../../verbs/types.ts';

export const QPW_STATE = 0;
export const QPW_CUR_STATE = 1;
export const QPW_PATH_MTU = 2;
export const QPW_PATH_MIG_STATE = 3;
export const QPW_QKEY = 4;
export const QPW_RQ_PSN = 5;
export const QPW_SQ_PSN = 6;
export const QPW_DEST_QP_NUM = 7;
export const QPW_ACCESS_FLAGS = 8;
/** maxSendWr, maxRecvWr, maxSendSge, maxRecvSge, maxInlineData. */
export const QPW_CAP = 9;
export const QPW_PKEY_INDEX = 14;
export const QPW_EN_SQD = 15;
export const QPW_MAX_RD_ATOMIC = 16;
export const QPW_MAX_DEST_RD_ATOMIC = 17;
export const QPW_MIN_RNR_TIMER = 18;
export const QPW_PORT_NUM = 19;
export const QPW_TIMEOUT = 20;
export const QPW_RETRY_CNT = 21;
export const QPW_RNR_RETRY = 22;
export const QPW_IS_GLOBAL = 23;
/** Sixteen bytes in wire order. */
export const QPW_DGID = 24;
export const QPW_SGID_INDEX = 28;
export const QPW_HOP_LIMIT = 29;
export const QPW_TRAFFIC_CLASS = 30;
export const QPW_FLOW_LABEL = 31;
export const QPW_DLID = 32;
export const QPW_SL = 33;
export const QPW_SRC_PATH_BITS = 34;
export const QPW_STATIC_RATE = 35;
export const QPW_AH_PORT = 36;
export const QPW_TYPE = 37;
export const QPW_SIG_ALL = 38;
export const QPW_SEND_CQ = 39;
export const QPW_RECV_CQ = 40;
export const QPW_SRQ = 41;
export const QPW_XRCD = 42;
/** Whether the queue pair posts through ibv_wr_*(3). */
export const QPW_EXTENDED = 43;
/** Write-only: no device reports it. */
export const QPW_RATE_LIMIT = 44;
/** Reported by queryQp in SQD: whether requests are still in progress. */
export const QPW_SQ_DRAINING = 45;
export const QPW_COUNT = 46;

const U8 = 0xff;
const U16 = 0xffff;
const U32 = 0xffffffff;
const PSN = 0xffffff;

/** Each row has a field, its word and its maximum. */
const QP_FIELDS = [
  ['qpState', QPW_STATE, 6],
  ['curQpState', QPW_CUR_STATE, 6],
  ['pathMtu', QPW_PATH_MTU, 5],
  ['pathMigState', QPW_PATH_MIG_STATE, 2],
  ['qkey', QPW_QKEY, U32],
  ['rqPsn', QPW_RQ_PSN, PSN],
  ['sqPsn', QPW_SQ_PSN, PSN],
  ['destQpNum', QPW_DEST_QP_NUM, PSN],
  ['qpAccessFlags', QPW_ACCESS_FLAGS, 15],
  ['pkeyIndex', QPW_PKEY_INDEX, U16],
  ['enSqdAsyncNotify', QPW_EN_SQD, 1],
  ['maxRdAtomic', QPW_MAX_RD_ATOMIC, U8],
  ['maxDestRdAtomic', QPW_MAX_DEST_RD_ATOMIC, U8],
  ['minRnrTimer', QPW_MIN_RNR_TIMER, 31],
  ['portNum', QPW_PORT_NUM, U8],
  ['timeout', QPW_TIMEOUT, 31],
  ['retryCnt', QPW_RETRY_CNT, 7],
  ['rnrRetry', QPW_RNR_RETRY, 7],
] as const satisfies readonly (readonly [keyof QpAttr, number, number])[];

const AH_FIELDS = [
  ['sgidIndex', QPW_SGID_INDEX, U8],
  ['hopLimit', QPW_HOP_LIMIT, U8],
  ['trafficClass', QPW_TRAFFIC_CLASS, U8],
  ['flowLabel', QPW_FLOW_LABEL, 0xfffff],
  ['dlid', QPW_DLID, U16],
  ['sl', QPW_SL, 15],
  ['srcPathBits', QPW_SRC_PATH_BITS, 127],
  ['staticRate', QPW_STATIC_RATE, U8],
  ['portNum', QPW_AH_PORT, U8],
] as const satisfies readonly (readonly [keyof AhAttr, number, number])[];

const CAP_FIELDS = [
  'maxSendWr',
  'maxRecvWr',
  'maxSendSge',
  'maxRecvSge',
  'maxInlineData',
] as const satisfies readonly (keyof QpCap)[];

function requireWhole(verb: string, name: string, value: unknown, max: number): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= max) return value;
  throw new InvalidArgumentError(
    `${verb}: ${name} must be a whole number from 0 to ${max}, got ${shown(value)}`,
    {
      verb,
    },
  );
}

export function writeCap(verb: string, cap: QpCap, words: Uint32Array): void {
  CAP_FIELDS.forEach((field, i) => {
    words[QPW_CAP + i] = requireWhole(verb, `cap.${field}`, cap?.[field], 0x7fffffff);
  });
}

/** @throws InvalidArgumentError naming the field that is out of range */
export function writeAh(verb: string, ah: AhAttr, words: Uint32Array): void {
  for (const [field, at, max] of AH_FIELDS) {
    if (ah[field] !== undefined) words[at] = requireWhole(verb, `ah.${field}`, ah[field], max);
  }
  if (ah.portNum === undefined) words[QPW_AH_PORT] = 1;
  if (ah.dgid === undefined) return;
  words[QPW_IS_GLOBAL] = 1;
  if (ah.hopLimit === undefined) words[QPW_HOP_LIMIT] = 64;
  new Uint8Array(words.buffer, words.byteOffset + QPW_DGID * 4, 16).set(requireGid(verb, 'ah.dgid', ah.dgid));
}

/** The words for modifyQp. @throws InvalidArgumentError naming the field that is out of range */
export function wordsOf(attr: QpAttr): Uint32Array {
  const verb = 'modifyQp';
  const words = new Uint32Array(QPW_COUNT);
  for (const [field, at, max] of QP_FIELDS) {
    if (attr[field] !== undefined) words[at] = requireWhole(verb, field, attr[field], max);
  }
  if (attr.rateLimitKbps !== undefined) {
    words[QPW_RATE_LIMIT] = requireWhole(verb, 'rateLimitKbps', attr.rateLimitKbps, U32);
  }
  if (attr.cap !== undefined) writeCap(verb, attr.cap, words);
  if (attr.ah !== undefined) writeAh(verb, attr.ah, words);
  return words;
}

function readCap(words: Uint32Array): QpCap {
  const [maxSendWr, maxRecvWr, maxSendSge, maxRecvSge, maxInlineData] = words.subarray(QPW_CAP, QPW_CAP + 5);
  return { maxSendWr, maxRecvWr, maxSendSge, maxRecvSge, maxInlineData };
}

/** The address handle attributes in these words. */
export function readAh(words: Uint32Array): AhAttr {
  const ah: AhAttr = {};
  for (const [field, at] of AH_FIELDS) ah[field] = words[at];
  if (words[QPW_IS_GLOBAL] !== 0) {
    ah.dgid = gidToString(new Uint8Array(words.buffer, words.byteOffset + QPW_DGID * 4, 16));
  }
  return ah;
}

/** The result of queryQp from its words. */
export function attrOf(words: Uint32Array): { attr: QpAttr; init: QpInitAttr } {
  const attr: QpAttr = {};
  for (const [field, at] of QP_FIELDS) attr[field] = words[at];
  if (attr.qpState === IBV_QPS_SQD) attr.sqDraining = words[QPW_SQ_DRAINING] !== 0;
  attr.cap = readCap(words);
  attr.ah = readAh(words);
  const init: QpInitAttr = {
    qpType: words[QPW_TYPE],
    sendCq: words[QPW_SEND_CQ],
    recvCq: words[QPW_RECV_CQ],
    cap: readCap(words),
    sqSigAll: words[QPW_SIG_ALL] !== 0,
    ...(words[QPW_EXTENDED] !== 0 && { extended: true }),
  };
  if (words[QPW_SRQ] !== 0) init.srq = words[QPW_SRQ];
  if (words[QPW_XRCD] !== 0) init.xrcd = words[QPW_XRCD];
  return { attr, init };
}
