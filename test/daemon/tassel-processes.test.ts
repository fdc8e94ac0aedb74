// Members of one tenant under tassel, over a simulated device in virtual time.
import { afterEach, expect, test } from 'vitest';
import { setRemoteCoordinators } from '../../src/coordinator/registry.ts';
import { RemoteCoordinator } from '../../src/daemon/client/remote-coordinator.ts';
import { createPolicy } from '../../src/policies/index.ts';
import { tasselRates } from '../../src/policies/tassel/ruler.ts';
import { RATED_QPS } from '../../src/policies/token-bucket/shares.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose } from '../../src/shim/compose.ts';
import * as V from '../../src/verbs/index.ts';
import { connect, type End, makeEnd, post, take } from '../sim/helpers.ts';
import { hostOf, Process } from './host-rig.ts';

const BYTES = 65_536;
const GBPS = 10;
const MESSAGES = 16;

afterEach(() => setRemoteCoordinators(null));

function write(end: End, peer: End, count: number): void {
  const { send, mr } = end;
  send.clear();
  for (let i = 0; i < count; i++)
    send.write(i, V.IBV_SEND_SIGNALED, mr.addr, BYTES, mr.lkey, peer.mr.addr, peer.mr.rkey);
  expect(post(end)).toBe(count);
}

test('a tenant of many processes that has no rate takes nothing from queue pairs with rates', async () => {
  const host = hostOf();
  for (let i = 0; i < 40; i++) {
    const other = new Process(host, 'a');
    other.join().columns(tasselRates).reports[RATED_QPS] = 1;
    other.signal();
  }
  const process = new Process(host, 'a');
  setRemoteCoordinators((device) => new RemoteCoordinator(device, process));
  const fabric = createFabric({ hosts: 2, profile: 'cx6-100g', autoAdvance: false });
  const v = compose(fabric.provider, [createPolicy('tassel')]);
  const [rated, free] = [0, 1].map(() => makeEnd({ ...fabric, provider: v }, 0));
  const peers = [rated, free].map(() => makeEnd(fabric, 1));
  connect(rated, peers[0]);
  connect(free, peers[1]);
  host.fullPass(fabric.nowNs);
  process.notify();
  v.modifyQpRateLimit(rated.qp, { rateLimitKbps: 1e6 * GBPS });
  const fromNs = fabric.nowNs;
  write(free, peers[1], 64);
  write(rated, peers[0], MESSAGES);
  for (let done = 0; done < MESSAGES; done += take(rated).length) await fabric.advance(5000);
  expect((MESSAGES * BYTES * 8) / (fabric.nowNs - fromNs)).toBeGreaterThan(0.9 * GBPS);
});
