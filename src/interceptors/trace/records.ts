/** Decodes trace entries into readable records. */
import * as V from '../../verbs/constants.ts';
import { handleIndex } from '../../verbs/handles.ts';
import * as L from '../../verbs/layout.ts';
import { asyncEventName, wcOpcodeName, wcStatusName, wrOpcodeName } from '../../verbs/names.ts';
import * as F from './format.ts';

/** One request, completion, call or event. Fields that do not apply are absent. */
export interface TraceRecord {
  timeNs: number;
  /** Name of the verb, or 'event', 'uncut', 'counters', 'lost' or 'end'. */
  verb: string;
  /** The object of the call: 'qp3', 'cq0' and so on, numbered within this process. */
  object?: string;
  /** Queue pair of a completion. */
  qp?: string;
  /** The 64-bit wr_id in decimal. */
  wrId?: string;
  opcode?: string;
  flags?: string[];
  bytes?: number;
  sges?: number;
  /** Posts: 'posted', or the reason of the refusal. Completions: ibv_wc_status. */
  status?: string;
  /** Sequence number of the completed request in its queue. */
  seq?: number;
  imm?: number;
  /** Empty polls before this one. */
  emptyPolls?: number;
  args?: unknown[];
  result?: unknown;
  error?: { code?: string; message: string };
  /** 'lost' and 'end': number of lost requests and completions. */
  lost?: number;
}

/** The `verb` of a held request that a policy would have cut, but that went whole. */
export const UNCUT = 'uncut';
/** The `verb` of an entry at the end: how a shim has treated requests. */
export const COUNTERS = 'counters';

const SHORT_NAMES = [
  '?',
  'ctx',
  'pd',
  'mr',
  'cq',
  'qp',
  'channel',
  'ring',
  'ring',
  'srq',
  'ah',
  'mw',
  'xrcd',
];
const POST_NAMES = ['', 'postSend', 'postRecv', 'postSrqRecv'];
const TWO32 = 4294967296;

const SEND_FLAGS: readonly [number, string][] = [
  [V.IBV_SEND_FENCE, 'FENCE'],
  [V.IBV_SEND_SIGNALED, 'SIGNALED'],
  [V.IBV_SEND_SOLICITED, 'SOLICITED'],
  [V.IBV_SEND_INLINE, 'INLINE'],
];

/** Names a handle by kind and index, such as `qp3`. Other numbers are left unchanged. */
export function handleName(handle: number): string {
  const kind = SHORT_NAMES[handle >> 27];
  return kind === undefined || kind === '?' ? String(handle) : `${kind}${handleIndex(handle)}`;
}

/** The records of one entry: one for each slot. */
export function describeEntry(entry: Uint32Array): TraceRecord[] {
  const timeNs = entry[F.TIME_LO] + entry[F.TIME_HI] * TWO32;
  const kind = entry[F.KIND];
  const object = handleName(entry[F.HANDLE]);
  if (kind <= F.POST_SRQ_RECV) return posts(entry, timeNs, object);
  if (kind === F.POLL) return completions(entry, timeNs, object);
  if (kind === F.CONTROL) return [control(entry, timeNs, object)];
  if (kind === F.ARM) return [{ timeNs, verb: 'reqNotifyCq', object, args: [entry[F.A] === 1] }];
  if (kind === F.COMP_EVENT) return [{ timeNs, verb: 'event', object, opcode: handleName(entry[F.A]) }];
  if (kind === F.ASYNC_EVENT) {
    const element = entry[F.B] >> 27 === 0 ? `port${entry[F.B]}` : handleName(entry[F.B]);
    return [{ timeNs, verb: 'event', object: element, opcode: asyncEventName(entry[F.A]) }];
  }
  const lost = entry[F.A] + entry[F.B] * TWO32;
  return [{ timeNs, verb: kind === F.LOST ? 'lost' : 'end', lost }];
}

function posts(entry: Uint32Array, timeNs: number, object: string): TraceRecord[] {
  const taken = entry[F.A];
  const count = entry[F.B];
  const extWords = entry[F.C] >>> 20;
  const verb = POST_NAMES[entry[F.KIND]];
  if (count === 0) return [{ timeNs, verb, object, status: `${taken} posted, from an unknown ring` }];
  return Array.from({ length: count }, (_, i) => {
    const at = F.ENTRY_WORDS + i * L.SLOT_WORDS;
    const ext = F.ENTRY_WORDS + count * L.SLOT_WORDS + i * extWords;
    const status = i < taken ? 'posted' : refusal(entry[F.C]);
    const isSend = entry[F.KIND] === F.POST_SEND;
    const request = isSend ? sendFields(entry, at, ext) : receiveFields(entry, at, ext);
    return { timeNs, verb, object, wrId: wrId(entry, at), ...request, status };
  });
}

function refusal(why: number): string {
  return `refused: ${L.REASON_TEXT[(why >>> 12) & 0xff] ?? 'no reason given'} (errno ${why & 0xfff})`;
}

function wrId(words: Uint32Array, at: number): string {
  return String((BigInt(words[at + 1]) << 32n) | BigInt(words[at]));
}

function sendFields(words: Uint32Array, at: number, ext: number): Partial<TraceRecord> {
  const op = words[at + L.WR_OP];
  const opcode = op & 0xff;
  const sges = op >>> 16;
  const flagBits = (op >>> 8) & 0xff;
  const flags = SEND_FLAGS.filter(([bit]) => (flagBits & bit) !== 0).map(([, name]) => name);
  const isInline = (flagBits & V.IBV_SEND_INLINE) !== 0;
  const bytes = isInline ? words[at + L.WR_INLINE_LENGTH] : listBytes(words, at, ext, sges);
  const fields: Partial<TraceRecord> = { opcode: wrOpcodeName(opcode), flags, bytes, sges };
  if (opcode === V.IBV_WR_SEND_WITH_IMM || opcode === V.IBV_WR_RDMA_WRITE_WITH_IMM)
    fields.imm = words[at + L.WR_IMM];
  return fields;
}

function receiveFields(words: Uint32Array, at: number, ext: number): Partial<TraceRecord> {
  const sges = words[at + L.WR_OP] >>> 16;
  return { bytes: listBytes(words, at, ext, sges), sges };
}

/** Sums the element lengths. A refused request may claim more elements than it has. */
function listBytes(words: Uint32Array, at: number, ext: number, sges: number): number {
  let bytes = 0;
  for (let i = 0; i < sges; i++) {
    const sge = i < 2 ? at + L.WR_SGE0 + i * L.SGE_WORDS : ext + (i - 2) * L.SGE_WORDS;
    bytes += words[sge + L.SGE_LENGTH] ?? 0;
  }
  return bytes;
}

function completions(entry: Uint32Array, timeNs: number, object: string): TraceRecord[] {
  return Array.from({ length: entry[F.B] }, (_, i) => {
    const at = F.ENTRY_WORDS + i * L.SLOT_WORDS;
    const op = entry[at + L.WC_OP];
    const status = op & 0xff;
    const isReceive = (op & L.WC_RECV_SIDE) !== 0;
    const record: TraceRecord = { timeNs, verb: 'pollCq', object, qp: handleName(entry[at + L.WC_QP]) };
    record.wrId = wrId(entry, at);
    // ibv_poll_cq(3): other fields of a failed completion are undefined.
    if (status === V.IBV_WC_SUCCESS) {
      record.opcode = wcOpcodeName((op >>> 8) & 0xff);
      record.bytes = entry[at + L.WC_BYTE_LEN];
      if (((op >>> 16) & V.IBV_WC_WITH_IMM) !== 0) record.imm = entry[at + L.WC_IMM];
    } else record.opcode = isReceive ? 'RECV' : 'SEND';
    record.status = wcStatusName(status);
    record.seq = entry[at + L.WC_SEQ];
    if (i === 0 && entry[F.A] > 0) record.emptyPolls = entry[F.A];
    return record;
  });
}

function control(entry: Uint32Array, timeNs: number, object: string): TraceRecord {
  const json = new Uint8Array(entry.buffer, entry.byteOffset + F.ENTRY_WORDS * 4, entry[F.B]);
  const { verb, args, result, error } = JSON.parse(Buffer.from(json).toString());
  if (verb === UNCUT) {
    const { wrIdLo, wrIdHi, bytes, policy, reason } = result;
    const id = String((BigInt(wrIdHi) << 32n) | BigInt(wrIdLo));
    return { timeNs, verb, object, wrId: id, bytes, status: `${policy}: ${reason}` };
  }
  const record: TraceRecord = { timeNs, verb, args };
  if (entry[F.HANDLE] !== 0) record.object = object;
  if (result !== undefined) record.result = result;
  if (error !== undefined) record.error = error;
  record.status = error === undefined ? 'done' : (error.code ?? 'failed');
  return record;
}

/** Fields of arguments and results that hold handles. Any other number is not a handle. */
const HANDLE_KEYS = new Set(['handle', 'pd', 'sendCq', 'recvCq', 'cq', 'channel', 'srq', 'xrcd']);
/** Verbs whose result is a handle. */
const HANDLE_RESULTS = new Set(['openDevice', 'openXrcd', 'allocPd', 'createCompChannel']);
/** Verbs with a second handle, and its position among their arguments. */
const SECOND_HANDLE: Readonly<Record<string, number>> = { createCq: 2 };

/** A call without its object, such as `(256,channel1) = {"handle":"cq0","cqe":256}`. */
export function callText({ verb, object, args = [], result, error }: TraceRecord): string {
  const named = args.map((value, i) =>
    i === SECOND_HANDLE[verb] && typeof value === 'number' ? handleName(value) : value,
  );
  const text = `(${jsonOf(object === undefined ? named : named.slice(1)).slice(1, -1)})`;
  if (error !== undefined) return `${text} failed: ${error.message}`;
  if (result === undefined) return text;
  if (HANDLE_RESULTS.has(verb) && typeof result === 'number') return `${text} = ${handleName(result)}`;
  return `${text} = ${jsonOf(result)}`;
}

function jsonOf(value: unknown): string {
  return JSON.stringify(value, (key, part) =>
    HANDLE_KEYS.has(key) && typeof part === 'number' && part !== 0 ? handleName(part) : part,
  );
}
