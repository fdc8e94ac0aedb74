// What programs meet first: typed private data of a peer that is not trusted, the connection before its first
// completion, waits that can be aborted, errors that name the state and the way out, and diagnostics channels.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { setImmediate as turn } from 'node:timers/promises';
import { expect, expectTypeOf, test } from 'vitest';
import { z } from 'zod';
import { type Connection, connect, type ListenOptions, listen } from '../../src/objects/index.ts';
import { openDevice } from '../../src/open.ts';
import { ConnectionError, HandshakeError, InvalidArgumentError } from '../../src/verbs/index.ts';

function end() {
  const context = openDevice('sim0');
  const pd = context.allocPd();
  const cq = context.createCq();
  const mr = pd.allocate(4096, { access: { remoteWrite: true } });
  return { context, pd, cq, mr, options: { pd, sendCq: cq } };
}

/** Two ends in one process, and a listener at the second one. */
async function ends<T>(options: Partial<ListenOptions<T>> = {}, onConnection?: (c: Connection<T>) => void) {
  const [a, b] = [end(), end()];
  const listener = await listen<T>(b.context, { port: 0, ...b.options, ...options }, onConnection);
  const close = () => {
    listener.close();
    a.context.close();
    b.context.close();
  };
  return { a, b, listener, close, [Symbol.dispose]: close };
}

const window = z.object({ addr: z.number(), rkey: z.number() });

test('remoteSchema gives the private data of the peer a type, and its output', async () => {
  using pair = await ends({ privateData: { addr: 4096, rkey: 7, more: true } });
  const { a, listener } = pair;
  const connection = await connect(a.context, { port: listener.port, ...a.options, remoteSchema: window });
  expectTypeOf(connection.remote.privateData).toEqualTypeOf<{ addr: number; rkey: number }>();
  expect(connection.remote.privateData).toEqual({ addr: 4096, rkey: 7 });
  const claimed = await connect<{ addr: number }>(a.context, { port: listener.port, ...a.options });
  expectTypeOf(claimed.remote.privateData).toEqualTypeOf<{ addr: number }>();
  expect(claimed.remote.privateData.addr).toBe(4096);
});

test('a peer whose private data do not fit remoteSchema is rejected, at either end', async () => {
  using pair = await ends({ remoteSchema: window, privateData: { addr: 'high' } });
  const { a, listener } = pair;
  const refused: Error[] = [];
  listener.on('clientError', (error) => refused.push(error));
  const options = { port: listener.port, ...a.options };
  await expect(connect(a.context, options)).rejects.toThrow(/rejected the connection: .*remoteSchema/);
  expect(refused[0]).toBeInstanceOf(HandshakeError);
  const privateData = { addr: 1, rkey: 2 };
  const answer = connect(a.context, { ...options, privateData, remoteSchema: window });
  await expect(answer).rejects.toThrow(/does not fit remoteSchema: 'addr': .*; 'rkey': /);
  const wrong = { ...options, remoteSchema: {} as never };
  await expect(connect(a.context, wrong)).rejects.toThrow(InvalidArgumentError);
  await expect(listen(a.context, { ...wrong, port: 0 })).rejects.toThrow('Standard Schema');
});

test('on simulated devices, an error names the ways to reach another process', async () => {
  const { context, options } = end();
  for (const [host, says] of [
    ['localhost', "nothing listens on port 9 of 'localhost'"],
    ['192.0.2.7', "no host '192.0.2.7'"],
  ]) {
    const refused = connect(context, { host, port: 9, ...options });
    await expect(refused).rejects.toThrow(says);
    await expect(refused).rejects.toThrow(/ISOVERBS_PROVIDER=soft.*isoverbs rxe.*both ends into one process/);
  }
  context.close();
});

test.each(['next', 'poll'] as const)(
  'the connection comes before its first receive, by %s()',
  async (how) => {
    const seen: string[] = [];
    const prepare: ListenOptions['prepare'] = (qp) => qp.receive({ wrId: 1n });
    using pair = await ends({ prepare }, () => seen.push('connection'));
    const { a, b, listener } = pair;
    const wc = b.context.wcBatch({ capacity: 4 });
    const watch = () => {
      if (how === 'poll' && !b.context.closed) {
        if (b.cq.poll(wc) > 0) seen.push('receive');
        else setImmediate(watch);
      }
    };
    if (how === 'next') b.cq.next().then(() => seen.push('receive'));
    watch();
    const { qp } = await connect(a.context, { port: listener.port, ...a.options });
    await qp.execute({ opcode: 'SEND' });
    for (let i = 0; i < 20; i++) await turn();
    expect(seen).toEqual(['connection', 'receive']);
  },
);

test('a signal aborts connect() before, during and after the attempt to reach the listener', async () => {
  const reason = new Error('enough');
  let entered = () => {};
  const preparing = new Promise<void>((resolve) => {
    entered = resolve;
  });
  using pair = await ends({
    prepare: () => {
      entered();
      return new Promise<void>(() => {});
    },
  });
  const { a, listener } = pair;
  const options = { port: listener.port, ...a.options };
  await expect(connect(a.context, { ...options, signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  const early = new AbortController();
  const attempt = connect(a.context, { ...options, signal: early.signal });
  early.abort(reason);
  await expect(attempt).rejects.toBe(reason);
  const late = new AbortController();
  const waiting = connect(a.context, { ...options, signal: late.signal });
  await preparing;
  late.abort(reason);
  await expect(waiting).rejects.toBe(reason);
});

test('a signal closes the listener, and refuses one that was aborted before', async () => {
  const abort = new AbortController();
  using pair = await ends({ signal: abort.signal });
  const { a, listener } = pair;
  abort.abort();
  await expect(connect(a.context, { port: listener.port, ...a.options })).rejects.toThrow(ConnectionError);
  const again = listen(a.context, { port: 0, ...a.options, signal: abort.signal });
  await expect(again).rejects.toBe(abort.signal.reason);
});

test('posts and transitions that a state does not allow name the state and the call that helps', () => {
  const { context, pd, cq } = end();
  const qp = pd.createQp({ sendCq: cq });
  expect(() => qp.receive({ wrId: 1 })).toThrow('it is in RESET; call toInit() first');
  expect(() => qp.post({ opcode: 'SEND' })).toThrow(
    'it is in RESET; call connectTo(), or start() for datagrams',
  );
  expect(() => qp.toRts()).toThrow(
    'RESET -> RTS is not a transition of this queue pair; call toInit() first',
  );
  expect(() => qp.toErr()).toThrow('it has no requests to flush yet');
  qp.toInit();
  expect(() => qp.toRts()).toThrow('INIT -> RTS is not a transition of this queue pair; call toRtr() first');
  qp.toRtr(qp.endpoint());
  expect(() => qp.post({ opcode: 'SEND' })).toThrow('it is in RTR; call toRts() first');
  qp.toRts();
  expect(() => qp.toInit()).toThrow('move it to RESET first, with reset()');
  context.close();
});

test('diagnostics channels report connections, failed attempts and failed completions', async () => {
  const names = ['connection:open', 'connection:close', 'connection:error', 'completion:error', 'event'];
  const seen: string[] = [];
  const hooks = names.map((name) => ({
    name: `isoverbs:${name}`,
    hook: (message: unknown) => seen.push(`${name} ${Object.keys(message as object).join(' ')}`),
  }));
  for (const { name, hook } of hooks) subscribe(name, hook);
  try {
    const { a, b, listener, close } = await ends({ prepare: (qp) => qp.receive({ wrId: 1n }) });
    b.context.on('event', () => {});
    const connection = await connect(a.context, { port: listener.port, ...a.options });
    await expect(connect(a.context, { port: 1, ...a.options })).rejects.toThrow(ConnectionError);
    connection.close();
    await b.cq.next();
    close();
    await turn();
  } finally {
    for (const { name, hook } of hooks) unsubscribe(name, hook);
  }
  const kinds = new Set(seen);
  expect(kinds).toContain('connection:open connection');
  expect(kinds).toContain('connection:close connection error');
  expect(kinds).toContain('connection:error context side address error');
  expect(kinds).toContain('completion:error completion');
});

test('connect() and listen() require a context, not the name of a device, and options', async () => {
  using pair = await ends();
  const named = 'sim1' as never;
  for (const wrong of [connect(named, { port: 1 } as never), listen(named, { port: 0 } as never)]) {
    await expect(wrong).rejects.toThrow(InvalidArgumentError);
    await expect(wrong).rejects.toThrow("must be a context, as returned by openDevice(), got 'sim1'");
  }
  const without = connect(pair.a.context, undefined as never);
  await expect(without).rejects.toThrow(
    /connect: the second argument must be an object of options.*, got undefined/,
  );
});
