// Policies that break the rules of their interface: what their authors are told.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { policyInterceptors } from '../../src/drivers/index.ts';
import * as I from '../../src/index.ts';
import { Context } from '../../src/objects/index.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose } from '../../src/shim/compose.ts';

const folder = mkdtempSync(join(tmpdir(), 'isoverbs-policies-'));
afterAll(() => rmSync(folder, { recursive: true }));

const GOOD = { name: "'own'", needs: "{ wait: 'none' }", slots: '4', onload: '() => 0', feed: '() => {}' };
let modules = 0;

/** The code of members. */
type Members = Partial<typeof GOOD> & { readonly setup?: string };

/** The interceptor of a module whose policy differs from a good one in the code of some members. */
function load(changes: Members) {
  const module = join(folder, `policy-${modules++}.mjs`);
  const members = Object.entries({ ...GOOD, ...changes }).map(([key, code]) => `  ${key}: ${code},`);
  // Line 1 is the function's, so that the members are on lines 2 to 6.
  writeFileSync(module, ['export default () => ({', ...members, '});'].join('\n'));
  return { module, interceptor: policyInterceptors('inline', [{ name: module, options: {} }])[0] };
}

test.each([
  [{ name: '7' }, "policy 7: 'name' must be a non-empty string, got 7"],
  [{ name: "''" }, "policy '': 'name' must be a non-empty string, got ''"],
  [{ needs: 'undefined' }, "'needs.wait' must be one of none, preferred, required, got undefined"],
  [{ needs: "{ wait: 'always' }" }, "'needs.wait' must be one of none, preferred, required, got 'always'"],
  [{ slots: 'undefined' }, "'slots' must be an integer from 0 to 4096, got undefined"],
  [{ slots: '1.5' }, "'slots' must be an integer from 0 to 4096, got 1.5"],
  [{ slots: '-1' }, "'slots' must be an integer from 0 to 4096, got -1"],
])('%j is refused when the policy is loaded', (changes, message) => {
  expect(() => load(changes)).toThrow(
    expect.objectContaining({ code: 'ISO_ERR_CONFIG', message: expect.stringContaining(message) }),
  );
});

/** Posts a WRITE of 8 KiB under the policy. */
function write(changes: Members) {
  const { module, interceptor } = load(changes);
  const provider = compose(createFabric().provider, [interceptor]);
  const context = new Context(provider, 'sim0');
  try {
    const pd = context.allocPd();
    const cq = context.createCq();
    const [a, b] = [pd.createQp({ sendCq: cq }), pd.createQp({ sendCq: cq })];
    a.connectTo(b.endpoint());
    b.connectTo(a.endpoint());
    const mr = pd.allocate(16384, { access: { remoteWrite: true } });
    const remote = { addr: mr.addr + 8192, rkey: mr.rkey };
    const post = () => a.post({ opcode: 'RDMA_WRITE', sgList: [{ mr, length: 8192 }], remote });
    return { module, post, context };
  } catch (error) {
    context.close();
    throw error;
  }
}

test.each([
  [{ onload: '() => {}' }, 'onload must return the number of requests to pass, from 0 to 1, got undefined'],
  [{ onload: '() => 2' }, 'onload must return the number of requests to pass, from 0 to 1, got 2'],
  [{ onload: '() => -1' }, 'onload must return the number of requests to pass, from 0 to 1, got -1'],
  [{ onload: '() => 0.5' }, 'onload must return the number of requests to pass, from 0 to 1, got 0.5'],
  [{ feed: "() => { throw new Error('oops'); }" }, 'feed: oops (MODULE:6)'],
  [{ feed: "() => { throw 'oops'; }" }, 'feed: oops'],
  [
    { feed: '(qp, out) => { out.pass(qp); out.pass(qp); }' },
    'feed: pass: the queue pair holds no more requests; check backlog() first (MODULE:6)',
  ],
  [
    { feed: '(qp, out) => { out.pass(qp); out.piece(qp, 1); }' },
    'feed: piece: the queue pair holds no more requests; check backlog() first (MODULE:6)',
  ],
  ...['-5', '0', '2.5', 'NaN', "'x'"].map((bytes): [Members, string] => [
    { feed: `(qp, out) => out.piece(qp, ${bytes})` },
    `feed: piece: bytes must be a positive integer, got ${bytes} (MODULE:6)`,
  ]),
])('%j throws a PolicyError that says what is wrong', (changes, message) => {
  const { module, post, context } = write(changes);
  expect(post).toThrow(
    expect.objectContaining({
      code: 'ISO_ERR_POLICY',
      message: expect.stringContaining(`': ${message.replace('MODULE', module)}`),
    }),
  );
  context.close();
});

test.each([
  ['ConfigError', 'ISO_ERR_CONFIG', 'no such shares'],
  ['UnsupportedError', 'ISO_ERR_UNSUPPORTED', 'no such shares'],
  ['Error', 'ISO_ERR_POLICY', 'setup: no such shares'],
])('a policy may refuse a device in setup: %s', (name, code, message) => {
  const setup = `() => { throw new (globalThis.thrown.${name} ?? Error)('no such shares'); }`;
  Object.assign(globalThis, { thrown: I });
  expect(() => write({ setup })).toThrow(
    expect.objectContaining({ code, message: expect.stringContaining(message) }),
  );
});
