/** One long SEND and one long READ over a connection of rdma_cm, with a shim at both ends or at neither. */
import { once } from 'node:events';
import { type CmConnection, type CmConnectOptions, connect, createServer } from '../../src/rdma-cm.ts';
import type { Interceptor } from '../../src/shim/compose.ts';
import type { Provider } from '../../src/verbs/index.ts';

export const BYTES = 100_000;

export interface CmTransfer {
  provider: Provider;
  caller: Interceptor[];
  server: Interceptor[];
  /** The address on which the server listens. */
  host?: string;
  /** The programs' own private data. */
  request?: Uint8Array;
  reply?: Uint8Array;
  /** Results on the caller's side. */
  options?: Partial<CmConnectOptions>;
}

export async function transferOverCm(of: CmTransfer) {
  const { provider, host = 'sim0' } = of;
  const prepare = ({ qp, pd }: CmConnection) => qp.receive({ sgList: [{ mr: pd.allocate(BYTES) }] });
  const server = createServer({ provider, policy: of.server, prepare, privateData: of.reply });
  server.listen({ host });
  await once(server, 'listening');
  const accepted = once(server, 'connection');
  const { port } = server.address() as { port: number };
  const own = { provider, policy: of.caller, privateData: of.request };
  const client = await connect({ ...of.options, ...own, host, port });
  const [peer] = (await accepted) as [CmConnection];
  const mr = client.pd.allocate(BYTES, { access: { remoteRead: true } });
  for (let i = 0; i < BYTES; i++) mr.bytes[i] = i * 7;
  await client.qp.execute({ opcode: 'SEND_WITH_IMM', imm: 5, sgList: [{ mr }] });
  const { status, byteLen, imm } = await peer.cq.next();
  const back = peer.pd.allocate(BYTES);
  const remote = { addr: mr.addr, rkey: mr.rkey };
  await peer.qp.execute({ opcode: 'RDMA_READ', sgList: [{ mr: back }], remote });
  const counters = client.context.provider.counters?.() ?? [];
  const result = {
    /** Counted by the caller's shims. */
    pieces: counters.reduce((sum, { internal }) => sum + internal.pieces, 0),
    got: { status, byteLen, imm },
    same: Buffer.from(back.bytes).equals(mr.bytes),
    heard: [Buffer.from(peer.privateData), Buffer.from(client.privateData)],
  };
  client.close();
  await server[Symbol.asyncDispose]();
  return result;
}
