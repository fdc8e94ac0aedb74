/**
 * Both roles of rping(1). For each ping, the client sends the address of its text, the server READs it and sends a
 * go-ahead; then the client sends the address for the echo, the server WRITEs it and sends a go-ahead. An address is
 * struct { be64 addr; be32 rkey; be32 lengthBytes; }.
 */
import * as V from '../../../src/verbs/index.ts';
import type { Side } from '../../verbs/cm-rig.ts';
import { polled, postRecv, postSend } from '../../verbs/rig.ts';

const INFO_BYTES = 16;
/** Offsets in our memory: the address sent, the address received, the text, and its echo. */
const TOLD_AT = 0;
const HEARD_AT = 64;
const TEXT_AT = 4096;
const BACK_AT = 8192;

export function expectInfo({ end, qp }: Side): void {
  postRecv(end, qp.handle, 1, HEARD_AT, INFO_BYTES);
}

function tell({ end, qp }: Side, offset: number, lengthBytes: number): void {
  const view = new DataView(end.bytes.buffer, end.bytes.byteOffset + TOLD_AT, INFO_BYTES);
  view.setBigUint64(0, BigInt(end.mr.addr + offset));
  view.setUint32(8, end.mr.rkey);
  view.setUint32(12, lengthBytes);
  postSend(end, qp.handle, (batch) =>
    batch.send(2, V.IBV_SEND_SIGNALED, end.mr.addr + TOLD_AT, INFO_BYTES, end.mr.lkey),
  );
}

function told({ end }: Side): { addr: number; rkey: number; lengthBytes: number } {
  const view = new DataView(end.bytes.buffer, end.bytes.byteOffset + HEARD_AT, INFO_BYTES);
  return { addr: Number(view.getBigUint64(0)), rkey: view.getUint32(8), lengthBytes: view.getUint32(12) };
}

/** Waits for these completions, in any order. */
async function completed({ end }: Side, ...opcodes: string[]): Promise<void> {
  const wcs = await polled(end, opcodes.length);
  const got = wcs.map(({ status, opcode }) => (status === 'SUCCESS' ? opcode : status)).sort();
  if (got.join() !== opcodes.sort().join()) throw new Error(`wanted ${opcodes}, got ${got}`);
}

/** One ping as the client; returns the echo. */
export async function ping(side: Side, text: string, lengthBytes: number): Promise<string> {
  const { bytes } = side.end;
  bytes.fill(0, TEXT_AT, TEXT_AT + lengthBytes);
  bytes.fill(0, BACK_AT, BACK_AT + lengthBytes);
  bytes.set(new TextEncoder().encode(text), TEXT_AT);
  tell(side, TEXT_AT, lengthBytes);
  await completed(side, 'SEND', 'RECV');
  expectInfo(side);
  tell(side, BACK_AT, lengthBytes);
  await completed(side, 'SEND', 'RECV');
  expectInfo(side);
  return new TextDecoder().decode(bytes.slice(BACK_AT, BACK_AT + lengthBytes)).replace(/\0+$/, '');
}

/** One ping as the server; returns the text of the client. */
export async function pong(side: Side): Promise<string> {
  const { end, qp } = side;
  await completed(side, 'RECV');
  const from = told(side);
  expectInfo(side);
  postSend(end, qp.handle, (batch) =>
    batch.read(
      3,
      V.IBV_SEND_SIGNALED,
      end.mr.addr + TEXT_AT,
      from.lengthBytes,
      end.mr.lkey,
      from.addr,
      from.rkey,
    ),
  );
  await completed(side, 'RDMA_READ');
  tell(side, 0, 0);
  await completed(side, 'SEND', 'RECV');
  const to = told(side);
  expectInfo(side);
  postSend(end, qp.handle, (batch) =>
    batch.write(
      4,
      V.IBV_SEND_SIGNALED,
      end.mr.addr + TEXT_AT,
      from.lengthBytes,
      end.mr.lkey,
      to.addr,
      to.rkey,
    ),
  );
  await completed(side, 'RDMA_WRITE');
  tell(side, 0, 0);
  await completed(side, 'SEND');
  return new TextDecoder().decode(end.bytes.slice(TEXT_AT, TEXT_AT + from.lengthBytes)).replace(/\0.*$/s, '');
}
