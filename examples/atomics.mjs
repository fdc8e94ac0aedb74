// @ts-nocheck
// Atomics on a peer's memory: a counter, and a lock that only one client can take. Each returns the old value.
//   node examples/atomics.mjs [--device NAME]
import { connectedEnds } from './ends.mjs';

const [client, server] = connectedEnds();
const old = new DataView(client.mr.buffer, client.mr.bytes.byteOffset, 8);
const sgList = [{ mr: client.mr, length: 8 }];
const word = (index) => ({ addr: server.mr.addr + 8 * index, rkey: server.mr.rkey });

async function fetchAdd(index, add) {
  await client.qp.execute({ opcode: 'ATOMIC_FETCH_AND_ADD', sgList, remote: word(index), add });
  return old.getBigUint64(0, true);
}

async function compareSwap(index, compare, swap) {
  await client.qp.execute({ opcode: 'ATOMIC_CMP_AND_SWP', sgList, remote: word(index), compare, swap });
  return old.getBigUint64(0, true);
}

for (let i = 0; i < 3; i++) console.log(`ticket ${await fetchAdd(0, 1n)}`);

// 0 means free. A client that swaps in its own number holds the lock.
console.log(`lock: ${(await compareSwap(1, 0n, 17n)) === 0n ? 'taken by 17' : 'held'}`);
console.log(`lock: ${(await compareSwap(1, 0n, 18n)) === 0n ? 'taken by 18' : 'held'}`);

client.context.close();
server.context.close();
