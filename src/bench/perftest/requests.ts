/** Writes the requests of a test into its batch. */
import {
  IBV_SEND_SIGNALED,
  IBV_WR_RDMA_WRITE,
  IBV_WR_RDMA_WRITE_WITH_IMM,
  IBV_WR_SEND,
} from '../../verbs/index.ts';
import { type End, QKEY } from './end.ts';

/** The low half of a wr_id numbers the requests of a queue pair from 1, the high half is the queue pair. */
export const WR_ID_HALF = 2 ** 32;
const ADD = 1n;
const SWAP = 0n;
/** Nobody looks at it: it is there because it takes a receive. */
const IMMEDIATE = 0;

export class RequestWriter {
  private readonly end: End;
  private readonly sizeBytes: number;
  /** What goes inline, by queue pair; null where nothing does. */
  private readonly inline: readonly Uint8Array[] | null;
  private readonly withImm: boolean;
  private readonly inlineOpcode: number;
  private readonly stride: { bytes: number; places: number };

  constructor(end: End, sizeBytes: number, stride = end.strideOf(sizeBytes)) {
    this.end = end;
    this.sizeBytes = sizeBytes;
    this.stride = stride;
    const { kind, write_with_imm } = end.settings;
    this.withImm = write_with_imm;
    const write = write_with_imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
    this.inlineOpcode = kind.verb === 'write' ? write : IBV_WR_SEND;
    const fits = sizeBytes <= end.inlineBytes;
    this.inline = fits ? end.qps.map((_, i) => end.sendBytes(i).subarray(0, sizeBytes)) : null;
  }

  /** Appends request `number` (from 0) of queue pair `index`. */
  append(index: number, number: number, signaled: boolean): void {
    const { end, stride } = this;
    const offset = (number % stride.places) * stride.bytes;
    const flags = signaled ? IBV_SEND_SIGNALED : 0;
    const id = index * WR_ID_HALF + ((number + 1) % WR_ID_HALF);
    const remote = end.remotes[index];
    if (this.inline !== null) this.putInline(id, flags, index, remote.addr + offset);
    else this.put(id, flags, index, end.sendAddr(index) + offset, remote.addr + offset);
  }

  private putInline(id: number, flags: number, index: number, to: number): void {
    const { end, inline } = this;
    const { rkey, ah, qpNum } = end.remotes[index];
    const { sends } = end;
    const writes = end.settings.kind.verb === 'write';
    sends.inline(id, this.inlineOpcode, flags, (inline as Uint8Array[])[index]);
    if (this.withImm) sends.imm(sends.length - 1, IMMEDIATE);
    if (writes) sends.remoteTo(sends.length - 1, to, rkey);
    else if (ah !== 0) sends.datagramTo(sends.length - 1, ah, qpNum, QKEY);
  }

  private put(id: number, flags: number, index: number, local: number, to: number): void {
    const { end, sizeBytes } = this;
    const { sends, mr } = end;
    const { rkey, ah, qpNum } = end.remotes[index];
    switch (end.settings.kind.verb) {
      case 'write':
        if (this.withImm) sends.writeImm(id, flags, local, sizeBytes, mr.lkey, to, rkey, IMMEDIATE);
        else sends.write(id, flags, local, sizeBytes, mr.lkey, to, rkey);
        return;
      case 'read':
        sends.read(id, flags, local, sizeBytes, mr.lkey, to, rkey);
        return;
      case 'send':
        sends.send(id, flags, local, sizeBytes, mr.lkey);
        if (ah !== 0) sends.datagramTo(sends.length - 1, ah, qpNum, QKEY);
        return;
      case 'atomic':
        if (end.settings.atomic_type === 'CMP_AND_SWAP') {
          sends.compareSwap(id, flags, local, mr.lkey, to, rkey, 0n, SWAP);
        } else sends.fetchAdd(id, flags, local, mr.lkey, to, rkey, ADD);
    }
  }
}
