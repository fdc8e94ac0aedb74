/** Runs of plain requests: the bit test agrees with a check of each field. */
import { expect, test } from 'vitest';
import { plainBytes, plainRun } from '../../src/shim/plain-requests.ts';
import { RandomStream } from '../../src/sim/kernel/random.ts';
import * as V from '../../src/verbs/constants.ts';
import * as L from '../../src/verbs/layout.ts';

const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_122);
const ROUNDS = 3000;
const CAPACITY = 1100;
/** Limits of the shim, beyond which it does not sum up messages in a run. */
const MOST = 1024;
const SHORT_BYTES = 2 ** 21;

const OPCODES = [V.IBV_WR_RDMA_WRITE, V.IBV_WR_SEND, V.IBV_WR_RDMA_READ, V.IBV_WR_ATOMIC_FETCH_AND_ADD];
const ODD_OPCODES = [V.ISO_WR_WAIT, V.ISO_WR_ENABLE, 0x80, 0xff];
const LENGTHS = [0, 1, 4096, SHORT_BYTES - 1];
const LONG_LENGTHS = [SHORT_BYTES, 2 ** 31, 2 ** 32 - 1];
const ALL_FLAGS = 0xff & ~V.IBV_SEND_INLINE;

interface Request {
  opcode: number;
  flags: number;
  sges: number;
  length: number;
}

const pick = (random: RandomStream, from: readonly number[]) => from[Math.floor(random.next() * from.length)];

/** Plain requests, except one in `rarity` for each kind of exception. */
function requestOf(random: RandomStream, rarity: number): Request {
  const odd = () => random.next() * rarity < 1;
  const flags = random.u32() & ALL_FLAGS;
  return {
    opcode: pick(random, odd() ? ODD_OPCODES : OPCODES),
    flags: odd() ? flags | V.IBV_SEND_INLINE : flags,
    sges: odd() ? pick(random, [0, 2, 3, 0x8001, 0xffff]) : 1,
    length: odd() ? pick(random, LONG_LENGTHS) : pick(random, LENGTHS),
  };
}

/** Random words everywhere else, including the slots around them. */
function ringOf(random: RandomStream, start: number, requests: readonly Request[]): Uint32Array {
  const words = new Uint32Array(L.slotAt(start + requests.length + 1));
  for (let i = 0; i < words.length; i++) words[i] = random.u32();
  requests.forEach(({ opcode, flags, sges, length }, i) => {
    const at = L.slotAt(start + i);
    words[at + L.WR_OP] = opcode | (flags << 8) | (sges << 16);
    words[at + L.WR_SGE0 + L.SGE_LENGTH] = length;
  });
  return words;
}

const isPlain = ({ opcode, flags, sges }: Request) =>
  sges === 1 && (flags & V.IBV_SEND_INLINE) === 0 && !ODD_OPCODES.includes(opcode);

function slowRun(requests: readonly Request[], bytes: number): number {
  const end = requests.findIndex((one) => !isPlain(one) || one.length >= bytes);
  return end < 0 ? requests.length : end;
}

function slowBytes(requests: readonly Request[]): number {
  const fits = requests.every((one) => isPlain(one) && one.length < SHORT_BYTES);
  if (!fits || requests.length > MOST) return -1;
  return requests.reduce((sum, { length }) => sum + length, 0);
}

test(`runs and sums of random requests (seed ${SEED})`, () => {
  const random = new RandomStream(SEED, 'plain');
  const seen = { whole: 0, cut: 0, summed: 0, refused: 0 };
  for (let round = 0; round < ROUNDS; round++) {
    const start = Math.floor(random.next() * 8);
    const count = Math.floor(random.next() * 24);
    const rarity = pick(random, [4, 30, Number.POSITIVE_INFINITY]);
    const requests = Array.from({ length: count }, () => requestOf(random, rarity));
    const words = ringOf(random, start, requests);
    const bytes = pick(random, [0, 1, 2, 4096, 4097, SHORT_BYTES, 2 ** 32]);
    const run = slowRun(requests, bytes);
    const sum = slowBytes(requests);
    const why = `round ${round}, bytes ${bytes}: ${JSON.stringify(requests)}`;
    expect(plainRun(words, start, count, bytes), why).toBe(run);
    expect(plainBytes(words, start, count), why).toBe(sum);
    seen[run === count ? 'whole' : 'cut']++;
    seen[sum < 0 ? 'refused' : 'summed']++;
  }
  expect(Math.min(...Object.values(seen))).toBeGreaterThan(ROUNDS / 10);
});

test('the largest sum of messages stays below 2^31, and one more message is refused', () => {
  const longest = { opcode: V.IBV_WR_SEND, flags: 0, sges: 1, length: SHORT_BYTES - 1 };
  const words = ringOf(
    new RandomStream(SEED, 'longest'),
    0,
    Array.from({ length: CAPACITY }, () => longest),
  );
  expect(plainBytes(words, 0, MOST)).toBe(MOST * (SHORT_BYTES - 1));
  expect(plainBytes(words, 0, MOST + 1)).toBe(-1);
  expect(plainRun(words, 0, CAPACITY, SHORT_BYTES)).toBe(CAPACITY);
});
