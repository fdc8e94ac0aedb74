// The policy of one's own in TypeScript (docs/policies.md): its options are checked, and nothing is lost. Needs a
// build, as its users do.
import { openDevice } from 'isoverbs';
import { expect, test } from 'vitest';
import { ByteWindow, byteWindow } from '../../examples/policies/byte-window.ts';

test.each<[unknown, RegExp]>([
  [
    { windowByte: 1 },
    /no option 'windowByte'; did you mean 'windowBytes'\? there are: windowBytes, pieceBytes/,
  ],
  [{ windowBytes: -1 }, /byte-window\.windowBytes: must be/],
  [{ pieceBytes: '8 furlongs' }, /byte-window\.pieceBytes/],
  [7, /byte-window/],
])('options %j are refused', (options, message) => {
  const code = 'ISO_ERR_CONFIG';
  const error = expect.objectContaining({ code, message: expect.stringMatching(message) });
  expect(() => new ByteWindow(options)).toThrow(error);
});

test('a long WRITE under the policy arrives whole', async () => {
  const policy = byteWindow({ windowBytes: '32KiB', pieceBytes: 8192 });
  const context = openDevice('sim0', { policy });
  const pd = context.allocPd();
  const cq = context.createCq();
  const [a, b] = [pd.createQp({ sendCq: cq }), pd.createQp({ sendCq: cq })];
  a.connectTo(b.endpoint());
  b.connectTo(a.endpoint());
  const mr = pd.allocate(1 << 20, { access: { remoteWrite: true } });
  mr.bytes.fill(7, 0, 1 << 19);
  const remote = { addr: mr.addr + (1 << 19), rkey: mr.rkey };
  await a.execute({ opcode: 'RDMA_WRITE', sgList: [{ mr, length: 1 << 19 }], remote });
  expect(mr.bytes.every((byte) => byte === 7)).toBe(true);
  context.close();
});
