/** Random receives and messages between two shims: SENDs and immediates go in pieces, and programs see no difference. */
// @module-tag wide
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { fill, post, postRecv } from '../sim/helpers.ts';
import { chains } from './chains.ts';
import {
  closeEnd,
  FENCE,
  type PeerWorld,
  peerWorld,
  piecesOf,
  SIGNALED,
  SOLICITED,
  settle,
} from './peer-rig.ts';

const RUNS = Number(process.env.ISOVERBS_RUNS ?? 40);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_123);
/** Receives do not overlap each other, or memory that is written directly. */
const SLOT = 32_768;
const DIRECT = 24 * SLOT;

type Kind = 'send' | 'sendImm' | 'writeImm' | 'write' | 'read' | 'inline';
interface Message {
  kind: Kind;
  sges: number[];
  flags: number;
}
type Step =
  | { do: 'recv'; lengths: number[]; sges: number }
  | { do: 'send'; messages: Message[] }
  | { do: 'run'; ns: number };

const message: fc.Arbitrary<Message> = fc.record({
  kind: fc.constantFrom('send', 'send', 'send', 'sendImm', 'writeImm', 'write', 'read', 'inline'),
  sges: fc.array(fc.oneof(fc.integer({ min: 0, max: 300 }), fc.integer({ min: 0, max: 9000 })), {
    minLength: 1,
    maxLength: 3,
  }),
  flags: fc.constantFrom(0, SIGNALED, SIGNALED, SIGNALED | FENCE, SIGNALED | SOLICITED),
});
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    do: fc.constant('recv' as const),
    lengths: fc.array(
      fc.oneof({ weight: 9, arbitrary: fc.constant(28_000) }, fc.integer({ max: 9000, min: 0 })),
      {
        minLength: 1,
        maxLength: 6,
      },
    ),
    sges: fc.constantFrom(1, 1, 1, 2),
  }),
  fc.record({
    do: fc.constant('send' as const),
    messages: fc.array(message, { minLength: 1, maxLength: 5 }),
  }),
  fc.record({ do: fc.constant('run' as const), ns: fc.integer({ min: 0, max: 8000 }) }),
);

class Run {
  readonly w: PeerWorld;
  private recvs = 0;
  private taking = 0;
  private id = 0;
  readonly posts: string[] = [];

  constructor(w: PeerWorld) {
    this.w = w;
    fill(w.a.bytes, 0, w.a.bytes.length, 3);
  }

  recv(lengths: number[], sges: number): void {
    const { b } = this.w;
    for (const length of lengths) {
      // The queue has no more receives than there are separate buffers.
      if (this.recvs - this.taking >= 24 || this.recvs >= 60) return;
      const at = b.mr.addr + (this.recvs % 24) * SLOT;
      const first = sges === 1 ? length : length >> 1;
      b.recv.recv(1000 + this.recvs, at, first, b.mr.lkey);
      if (sges === 2) b.recv.sge(b.recv.length - 1, at + first, length - first, b.mr.lkey);
      this.recvs++;
    }
    this.posts.push(`recv ${postRecv(b)}`);
  }

  send({ kind, sges, flags }: Message): void {
    const { a, b } = this.w;
    const id = ++this.id;
    // READs use separate memory, because later requests may overtake them.
    const target = b.mr.addr + DIRECT + (kind === 'read' ? 2 * SLOT : 0);
    const from = (n: number) =>
      a.mr.addr +
      (kind === 'read' ? 400_000 + (id % 20) * 28_000 + n * 9000 : (id * 977 + n * 12_000) % 200_000);
    if (kind === 'inline') {
      this.taking++;
      a.send.inline(id, V.IBV_WR_SEND, flags, new Uint8Array(sges[0] % 128).fill(id));
      return;
    }
    const i = a.send.length;
    a.send.write(id, flags, from(0), sges[0], a.mr.lkey, target, b.mr.rkey);
    for (let n = 1; n < sges.length; n++) a.send.sge(i, from(n), sges[n], a.mr.lkey);
    const opcode = {
      send: V.IBV_WR_SEND,
      sendImm: V.IBV_WR_SEND_WITH_IMM,
      writeImm: V.IBV_WR_RDMA_WRITE_WITH_IMM,
      write: V.IBV_WR_RDMA_WRITE,
      read: V.IBV_WR_RDMA_READ,
    }[kind];
    const at = V.slotAt(i) + V.WR_OP;
    a.send.words[at] = (a.send.words[at] & ~0xff) | opcode;
    a.send.imm(i, id);
    if (kind !== 'write' && kind !== 'read') this.taking++;
  }

  async step(s: Step): Promise<void> {
    if (s.do === 'recv') this.recv(s.lengths, s.sges);
    else if (s.do === 'run') await this.w.fabric.advance(s.ns);
    else {
      for (const m of s.messages) this.send(m);
      this.posts.push(`send ${post(this.w.a)}`);
    }
  }

  /** Posts receives for messages that lack one and would otherwise be retried for ever. */
  async finish() {
    while (this.recvs < this.taking) this.recv([28_000], 1);
    const seen = await settle(this.w);
    const { a, b } = this.w;
    const failed = [...seen.a, ...seen.b].some((line) => !line.includes(' SUCCESS'));
    const data = failed ? 'not compared' : hash(a.bytes) + hash(b.bytes);
    for (const end of [a, b]) closeEnd(end);
    return { ...seen, posts: this.posts, data };
  }
}

function hash(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

async function runAll(steps: Step[], w: PeerWorld) {
  const run = new Run(w);
  for (const s of steps) await run.step(s);
  return run.finish();
}

for (const name of ['arbitrary', 'perf 256', 'arbitrary over arbitrary', 'perf 1024, WAIT emulated']) {
  const { chain, wait } = chains[name];
  test(`receives of all lengths, posted at any time: ${name}`, async () => {
    let pieces = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 14 }), async (steps) => {
        const bare = await runAll(steps, peerWorld([], [], { wait }));
        const w = peerWorld(chain(), chain(), { wait });
        expect(await runAll(steps, w)).toEqual(bare);
        pieces += piecesOf(w.a);
      }),
      { numRuns: RUNS, seed: SEED },
    );
    expect(pieces).toBeGreaterThan(RUNS);
  }, 600_000);
}
