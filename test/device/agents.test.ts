// The queue pairs of agents on a real device: two hosts' agents on one device exchange messages and probe each other.
import { describe, expect, test } from 'vitest';
import { AgentLink, type LinkEvents } from '../../src/coordinator/agent-link.ts';
import { defined, skipReason } from './rig.ts';

const PATIENCE_MS = 10_000;

async function until(isTrue: () => boolean): Promise<void> {
  const endMs = performance.now() + PATIENCE_MS;
  while (!isTrue()) {
    if (performance.now() > endMs) throw new Error(`never came true: ${isTrue}`);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

/** A link that notes what happens to it. */
function noted() {
  const { provider, name } = defined();
  const messages: number[][] = [];
  const probes: number[] = [];
  const peers: string[] = [];
  const events: LinkEvents = {
    message: (_peer, _agent, words) => messages.push([...words]),
    peer: (peer, change) => peers.push(`${peer} ${change}`),
    silent: () => {},
    forget: () => false,
    probe: (_peer, latencyNs) => probes.push(latencyNs),
  };
  const link = new AgentLink(provider, name, events);
  const { gid } = provider.queryGid(link.context, 1, 0);
  return { link, messages, probes, peers, gid };
}

describe.skipIf(skipReason !== '')('agents', () => {
  test('exchange messages in both directions, and probe each other', async () => {
    const [a, b] = [noted(), noted()];
    const peer = a.link.peerAt({ gid: b.gid, qpNum: b.link.qpNum }, a.gid);
    expect(peer).toBe(0);
    await until(() => a.peers.length > 0 && b.peers.length > 0);
    for (let i = 0; i < 1000; i++) {
      a.link.send(0, 7, [i, i / 7]);
      await until(() => b.messages.length > i);
    }
    expect(b.messages).toEqual(Array.from({ length: 1000 }, (_, i) => [i, i / 7]));
    b.link.send(0, 7, [1]);
    await until(() => a.messages.length > 0);
    for (const from of [a, b]) {
      for (let i = 1; i <= 10; i++) {
        from.link.probe(0, 4096);
        await until(() => from.probes.length === i);
      }
      for (const latencyNs of from.probes) expect(latencyNs).toBeGreaterThan(1000);
    }
    a.link.close();
    b.link.close();
  });
});
