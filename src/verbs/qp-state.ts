/** The queue-pair state table of the InfiniBand specification (10.3.1; ibv_modify_qp(3)), for RC, UC, UD and XRC. */
import * as C from './constants.ts';
import { InvalidArgumentError, InvalidStateError, shown } from './errors.ts';
import type { QpAttr } from './types.ts';

const STATE_NAMES = ['RESET', 'INIT', 'RTR', 'RTS', 'SQD', 'SQE', 'ERR'];

const MASK_BITS: readonly [name: string, bit: number, field: keyof QpAttr][] = [
  ['IBV_QP_STATE', C.IBV_QP_STATE, 'qpState'],
  ['IBV_QP_CUR_STATE', C.IBV_QP_CUR_STATE, 'curQpState'],
  ['IBV_QP_EN_SQD_ASYNC_NOTIFY', C.IBV_QP_EN_SQD_ASYNC_NOTIFY, 'enSqdAsyncNotify'],
  ['IBV_QP_ACCESS_FLAGS', C.IBV_QP_ACCESS_FLAGS, 'qpAccessFlags'],
  ['IBV_QP_PKEY_INDEX', C.IBV_QP_PKEY_INDEX, 'pkeyIndex'],
  ['IBV_QP_PORT', C.IBV_QP_PORT, 'portNum'],
  ['IBV_QP_QKEY', C.IBV_QP_QKEY, 'qkey'],
  ['IBV_QP_AV', C.IBV_QP_AV, 'ah'],
  ['IBV_QP_PATH_MTU', C.IBV_QP_PATH_MTU, 'pathMtu'],
  ['IBV_QP_TIMEOUT', C.IBV_QP_TIMEOUT, 'timeout'],
  ['IBV_QP_RETRY_CNT', C.IBV_QP_RETRY_CNT, 'retryCnt'],
  ['IBV_QP_RNR_RETRY', C.IBV_QP_RNR_RETRY, 'rnrRetry'],
  ['IBV_QP_RQ_PSN', C.IBV_QP_RQ_PSN, 'rqPsn'],
  ['IBV_QP_MAX_QP_RD_ATOMIC', C.IBV_QP_MAX_QP_RD_ATOMIC, 'maxRdAtomic'],
  ['IBV_QP_MIN_RNR_TIMER', C.IBV_QP_MIN_RNR_TIMER, 'minRnrTimer'],
  ['IBV_QP_SQ_PSN', C.IBV_QP_SQ_PSN, 'sqPsn'],
  ['IBV_QP_MAX_DEST_RD_ATOMIC', C.IBV_QP_MAX_DEST_RD_ATOMIC, 'maxDestRdAtomic'],
  ['IBV_QP_PATH_MIG_STATE', C.IBV_QP_PATH_MIG_STATE, 'pathMigState'],
  ['IBV_QP_CAP', C.IBV_QP_CAP, 'cap'],
  ['IBV_QP_DEST_QPN', C.IBV_QP_DEST_QPN, 'destQpNum'],
  ['IBV_QP_RATE_LIMIT', C.IBV_QP_RATE_LIMIT, 'rateLimitKbps'],
  ['ISO_QP_WEIGHT', C.ISO_QP_WEIGHT, 'qpWeight'],
  ['ISO_QP_GROUP', C.ISO_QP_GROUP, 'group'],
  ['ISO_QP_TRAFFIC', C.ISO_QP_TRAFFIC, 'traffic'],
];

/** The fields of QpAttr. */
export const QP_ATTR_FIELDS: readonly string[] = [...MASK_BITS.map(([, , field]) => field), 'sqDraining'];

interface Transition {
  required: number;
  optional: number;
}

const { IBV_QPS_RESET: RESET, IBV_QPS_INIT: INIT, IBV_QPS_RTR: RTR, IBV_QPS_RTS: RTS } = C;
const { IBV_QPS_SQD: SQD, IBV_QPS_SQE: SQE } = C;

/** Bits that RC, UC, UD and both halves of XRC require for a transition. To RESET or ERR, the state alone is enough. */
function transition(qpType: number, from: number, to: number): Transition | null {
  // A queue pair in RESET cannot fail.
  if (from === RESET && to === C.IBV_QPS_ERR) return null;
  if (to === RESET || to === C.IBV_QPS_ERR) return { required: 0, optional: 0 };
  // XRC is a reliable connection whose halves are separate queue pairs.
  const requests = qpType === C.IBV_QPT_RC || qpType === C.IBV_QPT_XRC_SEND;
  const responds = qpType === C.IBV_QPT_RC || qpType === C.IBV_QPT_XRC_RECV;
  const ud = qpType === C.IBV_QPT_UD;
  const access = ud ? C.IBV_QP_QKEY : C.IBV_QP_ACCESS_FLAGS;
  if (from === RESET && to === INIT) {
    return { required: C.IBV_QP_PKEY_INDEX | C.IBV_QP_PORT | access, optional: 0 };
  }
  if (from === INIT && to === INIT) {
    return { required: 0, optional: C.IBV_QP_PKEY_INDEX | C.IBV_QP_PORT | access };
  }
  if (from === INIT && to === RTR) {
    if (ud) return { required: 0, optional: C.IBV_QP_PKEY_INDEX | C.IBV_QP_QKEY };
    const connected = C.IBV_QP_AV | C.IBV_QP_PATH_MTU | C.IBV_QP_DEST_QPN | C.IBV_QP_RQ_PSN;
    const responder = C.IBV_QP_MAX_DEST_RD_ATOMIC | C.IBV_QP_MIN_RNR_TIMER;
    return { required: connected | (responds ? responder : 0), optional: C.IBV_QP_PKEY_INDEX | access };
  }
  const live =
    C.IBV_QP_CUR_STATE |
    access |
    (responds ? C.IBV_QP_MIN_RNR_TIMER : 0) |
    (ud ? 0 : C.IBV_QP_PATH_MIG_STATE);
  const rate = requests ? C.IBV_QP_RATE_LIMIT : 0;
  if (from === RTR && to === RTS) {
    const retry = C.IBV_QP_RETRY_CNT | C.IBV_QP_RNR_RETRY | C.IBV_QP_MAX_QP_RD_ATOMIC;
    const timeout = requests || responds ? C.IBV_QP_TIMEOUT : 0;
    return { required: C.IBV_QP_SQ_PSN | timeout | (requests ? retry : 0), optional: live | rate };
  }
  if (to === RTS && (from === RTS || from === SQD)) return { required: 0, optional: live | rate };
  // Only unreliable queue pairs have SQE: errors move others to ERR.
  if (to === RTS && from === SQE && !requests && !responds) return { required: 0, optional: live };
  const connection =
    C.IBV_QP_AV | (requests ? C.IBV_QP_TIMEOUT | C.IBV_QP_RETRY_CNT | C.IBV_QP_RNR_RETRY : 0);
  const readLimits =
    (requests ? C.IBV_QP_MAX_QP_RD_ATOMIC : 0) | (responds ? C.IBV_QP_MAX_DEST_RD_ATOMIC : 0);
  const drained = ud ? 0 : connection | readLimits;
  if (from === RTS && to === SQD) return { required: 0, optional: C.IBV_QP_EN_SQD_ASYNC_NOTIFY };
  if (from === SQD && to === SQD) return { required: 0, optional: live | C.IBV_QP_PKEY_INDEX | drained };
  return null;
}

/** How a queue pair in state `from` gets to `to` although there is no direct transition. */
function wayTo(from: number, to: number): string {
  if (to === SQE) return 'only the device moves a queue pair to SQE';
  if (to === INIT || (to === RTR && from !== RESET)) return 'move it to RESET first, with reset()';
  if (from === C.IBV_QPS_ERR || from === SQE)
    return 'it has failed: move it to RESET with reset(), and connect it again';
  if (from === RESET && to === C.IBV_QPS_ERR) return 'it has no requests to flush yet; call toInit() first';
  if (from === RESET) return 'call toInit() first, or connectTo() for all transitions to RTS';
  return to === RTS ? 'call toRtr() first' : 'only a queue pair in RTS can pause: call toRts() first';
}

function bitNames(mask: number): string {
  const known = MASK_BITS.filter(([, bit]) => (mask & bit) !== 0).map(([name]) => name);
  const unknown = MASK_BITS.reduce((rest, [, bit]) => rest & ~bit, mask);
  if (unknown !== 0) known.push(`0x${(unknown >>> 0).toString(16)}`);
  return known.join(', ');
}

/** `'RTS'` for IBV_QPS_RTS; for messages. */
export function stateName(state: number): string {
  return STATE_NAMES[state] ?? `state ${state}`;
}

/** The mask of the fields of `attr` that are set. */
export function maskOf(attr: QpAttr): number {
  return MASK_BITS.reduce((mask, [, bit, field]) => (attr[field] === undefined ? mask : mask | bit), 0);
}

/** The fields of `attr` that `mask` names. */
export function fieldsOf(attr: QpAttr, mask: number): QpAttr {
  const named: Record<string, unknown> = {};
  for (const [, bit, field] of MASK_BITS) if ((mask & bit) !== 0) named[field] = attr[field];
  return named;
}

/** @throws InvalidArgumentError when a bit of the mask is set whose field is not */
export function requireFields(attr: QpAttr, mask: number): void {
  const isAbsent = ([, bit, field]: (typeof MASK_BITS)[number]) =>
    (mask & bit) !== 0 && attr[field] === undefined;
  if (!MASK_BITS.some(isAbsent)) return;
  const absent = MASK_BITS.filter(isAbsent);
  const list = absent.map(([name, , field]) => `${name} (attr.${field})`).join(', ');
  throw new InvalidArgumentError(`modifyQp: the mask names ${list}, but attr has no such field`, {
    verb: 'modifyQp',
  });
}

/**
 * Checks one modifyQp against the table and returns the state that the queue pair will have.
 * @throws InvalidStateError naming the transition, the missing and the disallowed bits, or a curQpState that is wrong
 * @throws InvalidArgumentError when a bit is set whose field is not
 */
export function checkModify(qpType: number, current: number, attr: QpAttr, mask: number): number {
  const to = (mask & C.IBV_QP_STATE) !== 0 ? attr.qpState : current;
  if (typeof to !== 'number' || STATE_NAMES[to] === undefined) {
    throw new InvalidArgumentError(`modifyQp: qpState must be one of IBV_QPS_*, got ${shown(to)}`, {
      verb: 'modifyQp',
    });
  }
  requireFields(attr, mask);
  const told = (mask & C.IBV_QP_CUR_STATE) !== 0 ? attr.curQpState : current;
  if (told !== current) {
    throw new InvalidStateError(
      `modifyQp: curQpState is ${stateName(told ?? -1)}, but the queue pair is in ${stateName(current)}`,
      { verb: 'modifyQp', errno: C.EINVAL },
    );
  }
  const edge = `${stateName(current)} -> ${stateName(to)}`;
  const rule = transition(qpType, current, to);
  if (rule === null) {
    throw new InvalidStateError(
      `modifyQp: ${edge} is not a transition of this queue pair; ${wayTo(current, to)}`,
      { verb: 'modifyQp' },
    );
  }
  const missing = rule.required & ~mask;
  const disallowed = mask & ~(rule.required | rule.optional | C.IBV_QP_STATE | C.IBV_QP_CUR_STATE);
  if (missing !== 0 || disallowed !== 0) {
    const parts = [];
    if (missing !== 0) parts.push(`missing ${bitNames(missing)}`);
    if (disallowed !== 0) parts.push(`disallowed ${bitNames(disallowed)}`);
    throw new InvalidStateError(`modifyQp: ${edge}: ${parts.join('; ')}`, { verb: 'modifyQp' });
  }
  return to;
}
