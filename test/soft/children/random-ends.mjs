// @ts-nocheck
/**
 * Random requests over three reliable connections: SENDs, WRITEs, READs, immediates and atomics. Prints what the client
 * sees: its completions in order, and digests of both memories and of the server's receives. The same seed prints the
 * same on all devices.
 *   node random-ends.mjs --seed 1 --rounds 5    both ends in this process
 * With --listen PORT it runs only the server, with --connect HOST:PORT only the client.
 */
import { createHash } from 'node:crypto';
import { connect, expectSuccess, listen } from 'isoverbs';
import { run } from '../../../examples/cli.mjs';
import { Random } from '../../fuzz/random.mjs';

const CONNECTIONS = 3;
const REQUESTS = 60;
/** Several packets at every MTU. */
const MAX_BYTES = 12_000;
/** Memory of a connection at each end. One half is read, and the other one written. */
const SHARE_BYTES = 1 << 16;
const HALF = SHARE_BYTES / 2;
const DIGEST_BYTES = 32;
/** Half a second, because an end may compute for long on a busy machine. */
const PATH = { timeout: 17 };
const ALL = { remoteRead: true, remoteWrite: true, remoteAtomic: true };
const TAKES_RECEIVE = /^SEND|IMM$/;

const OPCODES = [
  'SEND',
  'SEND_WITH_IMM',
  'RDMA_WRITE',
  'RDMA_WRITE_WITH_IMM',
  'RDMA_READ',
  'ATOMIC_FETCH_AND_ADD',
  'ATOMIC_CMP_AND_SWP',
];

/** The requests of a connection, which both ends know. The last one shows the server that the others have ended. */
function requestsOf({ seed, index }) {
  const random = new Random(seed * CONNECTIONS + index);
  const requests = Array.from({ length: REQUESTS }, () => ({
    opcode: random.pick(OPCODES),
    bytes: random.below(random.chance(0.5) ? 300 : MAX_BYTES),
    local: random.below(HALF - MAX_BYTES),
    remote: random.below(HALF - MAX_BYTES),
    fence: random.chance(0.5),
  }));
  return [...requests, { opcode: 'SEND', bytes: 1, local: 0, remote: 0, fence: true }];
}

/** Memory of one end, and its part that belongs to a connection. */
function memoryOf(pd) {
  const mr = pd.allocate(CONNECTIONS * SHARE_BYTES, { access: ALL });
  const share = (index) => mr.bytes.subarray(index * SHARE_BYTES, (index + 1) * SHARE_BYTES);
  const fill = ({ seed, index }) => {
    const bytes = share(index);
    for (let i = 0; i < bytes.length; i++) bytes[i] = Math.imul(i + seed, 0x9e3779b1) >>> 24;
  };
  return { mr, share, fill };
}

/** What the server knows of a connection, whose receives it posts before the client can send. */
function accept(pd, qp, which) {
  const count = requestsOf(which).filter(({ opcode }) => TAKES_RECEIVE.test(opcode)).length;
  const receives = pd.allocate(count * MAX_BYTES);
  for (let i = 0; i < count; i++) {
    qp.receive({ wrId: i, sgList: [{ mr: receives, offset: i * MAX_BYTES, length: MAX_BYTES }] });
  }
  qp.onClose(() => receives.close());
  return { index: which.index, receives, hash: createHash('sha256'), left: count };
}

/** Hashes the receives of each connection. When all have arrived, sends the digest to the client. */
async function answer(cq, reply, memory, sides) {
  for await (const completion of cq) {
    const { status, isRecv, wrId, byteLen, imm, opcode, qp } = completion;
    const side = sides.get(qp);
    // Closing the connection informs the client.
    if (status !== 0) qp?.close();
    if (status !== 0 || !isRecv || side === undefined) continue;
    side.hash.update(`${wrId} ${opcode} ${byteLen} ${imm}\n`);
    if (--side.left > 0) continue;
    side.hash.update(side.receives.bytes).update(memory.share(side.index));
    const offset = side.index * DIGEST_BYTES;
    reply.bytes.set(side.hash.digest(), offset);
    qp.post({ opcode: 'SEND', sgList: [{ mr: reply, offset, length: DIGEST_BYTES }] });
  }
}

function server(context, { port, host }) {
  const pd = context.allocPd();
  const cq = context.createCq({ cqe: 1024 });
  const memory = memoryOf(pd);
  const sides = new Map();
  function prepare(qp, { privateData: which }) {
    memory.fill(which);
    sides.set(qp, accept(pd, qp, which));
  }
  answer(cq, pd.allocate(CONNECTIONS * DIGEST_BYTES), memory, sides);
  const privateData = { addr: memory.mr.addr, rkey: memory.mr.rkey };
  return listen(context, { ...PATH, port, host, pd, sendCq: cq, privateData, prepare }, (connection) => {
    connection.on('close', () => connection.close());
  });
}

/** Posts a request; READs and atomics write where nothing else is read. */
function post({ qp, remote: { privateData } }, { mr }, index, i, { opcode, bytes, local, remote, fence }) {
  const isAtomic = opcode.startsWith('ATOMIC');
  const isRead = opcode === 'RDMA_READ';
  const offset = index * SHARE_BYTES + local + (isRead || isAtomic ? HALF : 0);
  const at = index * SHARE_BYTES + (isAtomic ? remote & ~7 : remote) + (isRead ? HALF : 0);
  qp.post({
    opcode,
    wrId: i,
    flags: { fence },
    sgList: [{ mr, offset, length: isAtomic ? 8 : bytes }],
    ...(opcode.startsWith('SEND') ? {} : { remote: { ...privateData, addr: privateData.addr + at } }),
    ...(opcode.endsWith('IMM') ? { imm: i } : {}),
    ...(opcode === 'ATOMIC_FETCH_AND_ADD' ? { add: BigInt(bytes) } : {}),
    ...(opcode === 'ATOMIC_CMP_AND_SWP' ? { compare: 0n, swap: BigInt(bytes) } : {}),
  });
}

/** Runs the requests of all connections at once, and returns what the client has seen of each connection. */
async function round(context, pd, memory, answers, address, seed) {
  const cq = context.createCq({ cqe: 1024 });
  const all = [];
  for (let index = 0; index < CONNECTIONS; index++) {
    const which = { seed, index };
    memory.fill(which);
    const connection = await connect(context, { ...PATH, ...address, pd, sendCq: cq, privateData: which });
    const { qp } = connection;
    qp.receive({ sgList: [{ mr: answers, offset: index * DIGEST_BYTES, length: DIGEST_BYTES }] });
    all.push({ connection, requests: requestsOf(which), seen: [] });
  }
  for (let i = 0; i <= REQUESTS; i++) {
    for (const [index, { connection, requests }] of all.entries())
      post(connection, memory, index, i, requests[i]);
  }
  for (const completion of await cq.drain(CONNECTIONS * (REQUESTS + 2))) {
    const { isRecv, wrId, opcode, byteLen, qp } = expectSuccess(completion);
    const [{ seen }] = all.filter(({ connection }) => connection.qp === qp);
    if (!isRecv) seen.push(`${wrId} ${opcode} ${opcode === 'RDMA_READ' ? byteLen : ''}`);
  }
  return all.map(({ connection, seen }, index) => {
    connection.close();
    const mine = createHash('sha256').update(memory.share(index)).digest('hex');
    const theirs = Buffer.from(answers.bytes.slice(index * DIGEST_BYTES, (index + 1) * DIGEST_BYTES));
    return { seed, index, seen, mine, theirs: theirs.toString('hex') };
  });
}

const text = { type: 'string' };
await run({
  options: { seed: text, rounds: text },
  server,
  async client(context, address, { seed = '1', rounds = '1' }) {
    const pd = context.allocPd();
    const memory = memoryOf(pd);
    const answers = pd.allocate(CONNECTIONS * DIGEST_BYTES);
    for (let i = 0; i < Number(rounds); i++) {
      for (const one of await round(context, pd, memory, answers, address, Number(seed) + i))
        console.log(JSON.stringify(one));
    }
  },
});
