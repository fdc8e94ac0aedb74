/**
 * Random programs of messages between two hosts, on several connections in both directions, in which receives may come
 * late or never. The result is what each end of each connection sees.
 */
import fc from 'fast-check';
import { createFabric, type Fabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import * as V from '../../src/verbs/index.ts';
import { type End, makeEnd, SIGNALED, toInit, toRtr, toRts } from '../sim/helpers.ts';
import { digest } from './bytes.ts';
import { agree, completionsOf } from './peer-rig.ts';

const DEPTH = 16;

interface Message {
  kind: 'send' | 'sendImm' | 'writeImm' | 'write';
  bytes: number;
}

type Step =
  | { do: 'post'; link: number; from: 0 | 1; messages: Message[] }
  | { do: 'recv'; link: number; at: 0 | 1; count: number; bytes: number }
  | { do: 'settle' };

export interface MessageProgram {
  links: number;
  receives: number;
  sharedCq: boolean;
  steps: Step[];
}

const message: fc.Arbitrary<Message> = fc.record({
  kind: fc.constantFrom('send', 'send', 'send', 'sendImm', 'writeImm', 'write'),
  bytes: fc.oneof(fc.integer({ min: 0, max: 64 }), fc.integer({ min: 0, max: 3000 })),
});

const side = fc.constantFrom<0 | 1>(0, 1);
export const messagePrograms: fc.Arbitrary<MessageProgram> = fc.integer({ min: 2, max: 4 }).chain((links) => {
  const link = fc.integer({ min: 0, max: links - 1 });
  const posts = fc.record({
    do: fc.constant('post' as const),
    link,
    from: side,
    messages: fc.array(message, { minLength: 1, maxLength: 3 }),
  });
  const recvs = fc.record({
    do: fc.constant('recv' as const),
    link,
    at: side,
    count: fc.integer({ min: 1, max: 3 }),
    bytes: fc.constant(3000),
  });
  const settles = fc.record({ do: fc.constant('settle' as const) });
  return fc.record({
    links: fc.constant(links),
    receives: fc.integer({ min: 0, max: 3 }),
    sharedCq: fc.boolean(),
    steps: fc.array(
      fc.oneof(
        { weight: 6, arbitrary: posts },
        { weight: 5, arbitrary: recvs },
        { weight: 5, arbitrary: settles },
      ),
      { minLength: 40, maxLength: 120 },
    ),
  });
});

/** The memory of an end: what it sends, what its peer writes, and a place for each receive. */
const SOURCE_BYTES = 1 << 14;
const RECEIVE_BYTES = 3072;
const MEMORY_BYTES = 2 * SOURCE_BYTES + 400 * RECEIVE_BYTES;
const ACCESS = V.IBV_ACCESS_LOCAL_WRITE | V.IBV_ACCESS_REMOTE_WRITE | V.IBV_ACCESS_REMOTE_READ;

/** Connections between two hosts, and what each end of each has completed. */
class Links {
  readonly fabric: Fabric;
  readonly links: [End, End][] = [];
  readonly lines: string[][] = [];
  private readonly received: number[] = [];
  private wrId = 0;

  constructor(p: MessageProgram, chain: Interceptor[]) {
    const fabric = createFabric({ hosts: 2, seed: 1, autoAdvance: false });
    this.fabric = { ...fabric, provider: compose(fabric.provider, chain) };
    const bases = [makeEnd(this.fabric, 0), makeEnd(this.fabric, 1)];
    for (let i = 0; i < p.links; i++) {
      const [a, b] = bases.map((base) => this.end(base, p.sharedCq));
      this.links.push([a, b]);
      for (const end of [a, b]) toInit(end);
      for (const at of [0, 1] as const) this.recv(i, at, p.receives, 3000);
      agree(a, b);
      toRtr(a, b);
      toRtr(b, a);
      for (const end of [a, b]) toRts(end);
    }
  }

  private end(base: End, sharedCq: boolean): End {
    const { v, pd, context } = base;
    const sendCq = v.createCq(context, 256, 0).handle;
    const recvCq = sharedCq ? sendCq : v.createCq(context, 256, 0).handle;
    const cap = { maxSendWr: DEPTH, maxRecvWr: DEPTH, maxSendSge: 3, maxRecvSge: 2, maxInlineData: 64 };
    const attr = { qpType: V.IBV_QPT_RC, sendCq, recvCq, cap, sqSigAll: false };
    const { handle, qpNum } = v.createQp(pd, attr);
    const mr = v.allocMr(pd, MEMORY_BYTES, ACCESS);
    const bytes = new Uint8Array(mr.memory, mr.byteOffset, MEMORY_BYTES);
    for (let i = 0; i < SOURCE_BYTES; i++) bytes[i] = (i * 31 + (i >> 7)) & 0xff;
    this.lines.push([]);
    this.received.push(0);
    return { ...base, sendCq, recvCq, qp: handle, qpNum, mr, bytes };
  }

  /** Posts receives of two elements. */
  recv(link: number, at: 0 | 1, count: number, bytes: number): void {
    const end = this.links[link][at];
    const { recv, mr, v } = end;
    const index = 2 * link + at;
    for (let i = 0; i < count; i++) {
      const addr = mr.addr + 2 * SOURCE_BYTES + this.received[index]++ * RECEIVE_BYTES;
      const first = Math.floor(bytes / 3);
      recv.recv(++this.wrId, addr, first, mr.lkey);
      recv.sge(i, addr + first + 8, bytes - first, mr.lkey);
    }
    const taken = v.postRecv(end.qp, recv.ring, 0, count);
    if (taken < count)
      this.lines[index].push(`${count - taken} receives refused: ${recv.words[V.HDR_REASON]}`);
    recv.clear();
  }

  post(link: number, from: 0 | 1, messages: readonly Message[]): void {
    const end = this.links[link][from];
    const { send, mr, v } = end;
    const { addr, rkey } = this.links[link][1 - from].mr;
    for (const { kind, bytes } of messages) {
      const id = ++this.wrId;
      const source = mr.addr + ((id * 37) % 8192);
      const remote = addr + SOURCE_BYTES + ((id * 11) % 4096);
      if (kind === 'send') send.send(id, SIGNALED, source, bytes, mr.lkey);
      else if (kind === 'sendImm') send.sendImm(id, SIGNALED, source, bytes, mr.lkey, id * 7);
      else if (kind === 'write') send.write(id, SIGNALED, source, bytes, mr.lkey, remote, rkey);
      else send.writeImm(id, SIGNALED, source, bytes, mr.lkey, remote, rkey, id * 7);
    }
    const taken = v.postSend(end.qp, send.ring, 0, messages.length);
    if (taken < messages.length) this.lines[2 * link + from].push(`${messages.length - taken} refused`);
    send.clear();
  }

  /** A message without a receive is repeated for ever. */
  async settle(): Promise<void> {
    for (let idle = 0; idle < 3; idle++) {
      await this.fabric.advance(10_000_000);
      for (const [i, end] of this.links.flat().entries()) {
        const lines = completionsOf(end);
        if (lines.length > 0) idle = 0;
        this.lines[i].push(...lines);
      }
    }
  }

  async run({ steps }: MessageProgram): Promise<void> {
    for (const step of steps) {
      if (step.do === 'post') this.post(step.link, step.from, step.messages);
      else if (step.do === 'recv') this.recv(step.link, step.at, step.count, step.bytes);
      else await this.settle();
    }
    await this.settle();
  }
}

/**
 * What the ends of connections see in a program: completions of sends and of receives in order, which have none among
 * each other, and memory.
 */
export async function runMessages(p: MessageProgram, chain: Interceptor[]): Promise<unknown> {
  const links = new Links(p, chain);
  await links.run(p);
  const of = (all: string[], kind: string) => all.filter((line) => line.startsWith(kind));
  const lines = links.lines.map((all) => [of(all, 'send'), of(all, 'recv'), all.length]);
  return { lines, memory: links.links.flat().map(({ mr }) => digest(mr, MEMORY_BYTES)) };
}
