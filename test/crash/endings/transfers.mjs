// @ts-nocheck
// Endless transfers of every kind on ISOVERBS_DEVICE: WRITEs, a shared receive queue that raises its limit event,
// datagrams, a memory window that is bound and unbound, an rdma_cm connection. Each makes one round per turn of the
// event loop, so that none starves the others on a slow machine.
import { once } from 'node:events';
import { expectSuccess, GRH_BYTES, openDevice } from 'isoverbs';
import { connect, createServer } from 'isoverbs/rdma-cm';

const ROUNDS = 3;
const ACCESS = { remoteRead: true, remoteWrite: true, mwBind: true };
const device = process.env.ISOVERBS_DEVICE;

const turn = () => new Promise(setImmediate);

/** A queue pair connected to itself. */
function loop(context, options = {}) {
  const pd = context.allocPd();
  const cq = context.createCq();
  const mr = pd.allocate(1 << 20, { access: ACCESS });
  const qp = pd.createQp({ sendCq: cq, ...options, srq: options.srq?.(pd) });
  if (qp.type === 'UD') qp.start();
  else qp.connectTo(qp.endpoint());
  return { context, pd, cq, mr, qp };
}

const kinds = {
  async writes(context, round) {
    const { cq, mr, qp } = loop(context);
    const sgList = [{ mr, length: 1 << 14 }];
    const remote = { addr: mr.addr + (1 << 19), rkey: mr.rkey };
    const post = () => qp.post({ opcode: 'RDMA_WRITE', sgList, remote });
    for (let i = 0; i < 4; i++) post();
    for await (const wc of cq) {
      expectSuccess(wc);
      post();
      await round();
    }
  },

  async shared(context, round) {
    const { cq, mr, qp } = loop(context, { srq: (pd) => pd.createSrq({ maxWr: 8 }) });
    const { srq } = qp;
    const receive = () => srq.receive({ sgList: [{ mr, length: 64 }] });
    const send = () => qp.post({ opcode: 'SEND', sgList: [{ mr, offset: 64, length: 64 }] });
    let low = true;
    srq.on('srqLimitReached', () => {
      low = true;
    });
    for (let i = 0; i < 4; i++) receive();
    send();
    for await (const wc of cq) {
      if (!expectSuccess(wc).isRecv) continue;
      receive();
      if (low) {
        low = false;
        srq.arm(4);
        round();
      }
      send();
      await turn();
    }
  },

  async datagrams(context, round) {
    const { pd, cq, mr, qp } = loop(context, { type: 'UD' });
    const to = { ah: pd.createAhTo(qp.endpoint()), qpNum: qp.qpNum };
    const receive = () => qp.receive({ sgList: [{ mr, length: GRH_BYTES + 256 }] });
    const send = () => qp.post({ opcode: 'SEND', sgList: [{ mr, offset: 1024, length: 256 }], to });
    for (let i = 0; i < 4; i++) receive();
    send();
    for await (const wc of cq) {
      if (!expectSuccess(wc).isRecv) continue;
      receive();
      send();
      await round();
    }
  },

  async windows(context, round) {
    const { pd, mr, qp } = loop(context);
    const window = pd.allocMw({ type: 2 });
    for (;;) {
      const rkey = await window.bind(qp, { mr, offset: 4096, length: 4096, access: { remoteWrite: true } });
      const remote = { addr: mr.addr + 4096, rkey };
      await qp.execute({ opcode: 'RDMA_WRITE', sgList: [{ mr, length: 4096 }], remote });
      await qp.execute({ opcode: 'LOCAL_INV', invalidate: rkey });
      await round();
    }
  },

  async connection(_context, round, whenClosed) {
    const simulated = device.startsWith('sim');
    const provider = simulated ? 'sim' : undefined;
    const prepare = (connection) => {
      connection.mr = connection.pd.allocate(4096);
      connection.receive = () => connection.qp.receive({ sgList: [{ mr: connection.mr, length: 64 }] });
      connection.send = () =>
        connection.qp.post({ opcode: 'SEND', sgList: [{ mr: connection.mr, length: 64 }] });
      connection.receive();
    };
    const pingpong = async ({ cq, send, receive }) => {
      for await (const wc of cq) {
        if (wc.status !== 0) return;
        if (!wc.isRecv) continue;
        receive();
        send();
        await round();
      }
    };
    const server = createServer({ provider, prepare }, pingpong);
    server.listen({ host: simulated ? device : process.env.RXE_IP });
    await once(server, 'listening');
    const { address: host, port } = server.address();
    const client = await connect({ provider, host, port, prepare, timeoutMs: 60_000 });
    whenClosed(() => {
      client.close();
      server.closeAllConnections();
      server.close();
    });
    client.send();
    await pingpong(client);
  },
};

/** Starts all transfers. `moving()` resolves when each has completed a few more rounds; `close()` ends them. */
export function transfer() {
  const context = openDevice();
  const closers = [() => context.close()];
  const rounds = Object.fromEntries(Object.keys(kinds).map((kind) => [kind, 0]));
  let closed = false;
  const end = (error) => {
    if (!closed) throw error;
  };
  context.on('event', () => {});
  const listen = async () => {
    for await (const _ of context.events());
  };
  listen().catch(end);
  for (const [kind, begin] of Object.entries(kinds)) {
    begin(
      context,
      () => {
        rounds[kind]++;
        return turn();
      },
      (close) => closers.unshift(close),
    ).catch(end);
  }
  const moving = async () => {
    const wanted = Object.entries(rounds).map(([kind, count]) => [kind, count + ROUNDS]);
    while (wanted.some(([kind, count]) => rounds[kind] < count))
      await new Promise((resolve) => setTimeout(resolve, 1));
  };
  const close = () => {
    closed = true;
    for (const one of closers) one();
  };
  return { moving, close };
}
