/**
 * Programs of ours on user-space RoCE, in two network namespaces. The kernel's netem loses, delays and reorders packets
 * on the cable between them, in both directions. Random programs print the same as on simulated devices. Needs a build,
 * root and netem, and therefore runs only in the virtual machine (ISOVERBS_GROUND=rxe).
 */
import { execFile } from 'node:child_process';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { MAIN } from '../support/main.ts';
import type { Program } from './peers/program.ts';
import { ip, listeningIn, run, startIn } from './peers/spaces.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const RANDOM_ENDS = join(ROOT, 'test/soft/children/random-ends.mjs');
const here = process.env.ISOVERBS_GROUND === 'rxe';
const SEED = Number(process.env.ISOVERBS_SEED ?? 1);
const PATIENCE = 120_000;

const ENDS = [
  { space: 'isoverbs-a', device: 'veth80', address: '10.10.0.1' },
  { space: 'isoverbs-b', device: 'veth81', address: '10.10.0.2' },
] as const;
const [SERVER, CLIENT] = ENDS;

/** Parameters of netem. With `reorder 25%`, a quarter of the packets overtake the late ones. */
const WORST = 'loss 1% delay 2ms reorder 25%';
const CABLES = ['loss 0%', 'loss 1%', 'loss 5%', 'delay 2ms', 'delay 2ms reorder 25%', WORST];

const programs = new Set<Program>();
afterEach(() => {
  for (const program of programs) program.stop();
  programs.clear();
});

function startAt({ space, address }: (typeof ENDS)[number], ...words: string[]): Program {
  const program = startIn(space, address, ...words);
  programs.add(program);
  return program;
}

/** Starts a server and a client of a program, and returns what the client prints. */
async function printed(port: number, program: string, ...more: string[]): Promise<string> {
  const server = startAt(SERVER, program, '--listen', `${port}`, ...more);
  await listeningIn(SERVER.space, port);
  const client = startAt(CLIENT, program, '--connect', `${SERVER.address}:${port}`, ...more);
  const { code, output } = await client.done;
  server.stop();
  expect(code, output + (await server.done).output).toBe(0);
  return output;
}

/** What a program prints with both ends on simulated devices. */
async function printedBySim(program: string, ...more: string[]): Promise<string> {
  const env = { ...process.env, ISOVERBS_PROVIDER: 'sim' };
  return (await promisify(execFile)(process.execPath, [program, ...more], { env })).stdout;
}

describe.skipIf(!here)('programs in two network namespaces', () => {
  const words = ['--seed', `${SEED}`, '--rounds', '3'];
  let simulated = '';

  beforeAll(async () => {
    simulated = await printedBySim(RANDOM_ENDS, ...words);
    for (const { space } of ENDS) ip(`netns add ${space}`);
    // As in scripts/test-cable: with ARP, netem would lose requests for addresses, which Linux repeats after a second.
    const [server, client] = [SERVER, CLIENT].map(
      ({ space, device }) => `${device} netns ${space} address 02:00:00:00:00:01 arp off`,
    );
    ip(`link add ${server} type veth peer name ${client}`);
    for (const { space, device, address } of ENDS) {
      ip(`-n ${space} addr add ${address}/24 dev ${device}`);
      ip(`-n ${space} link set ${device} up`);
    }
  }, PATIENCE);

  afterAll(() => {
    for (const { space } of ENDS) ip(`netns delete ${space}`);
  });

  describe.each(CABLES.map((netem, i) => [netem, 19_500 + 10 * i] as const))('%s', (netem, port) => {
    beforeAll(() => {
      for (const { space, device } of ENDS) {
        run('tc', '-n', space, ...`qdisc replace dev ${device} root netem limit 10000 ${netem}`.split(' '));
      }
    });

    const options = { tags: ['long'], timeout: PATIENCE };

    test('random programs print the same as on simulated devices', {
      ...options,
      tags: netem === WORST ? [] : ['long'],
    }, async () => {
      expect(simulated.split('\n')).toHaveLength(10);
      expect(await printed(port, RANDOM_ENDS, ...words)).toBe(simulated);
    });

    test('a file transfer arrives intact', options, async () => {
      const output = await printed(port + 1, join(ROOT, 'examples/file-transfer.mjs'), '--size', '1M');
      expect(output).toMatch(/^sent 1048576 bytes, .* sha256 ok$/m);
    });

    test('a key-value store answers all GETs', options, async () => {
      const output = await printed(port + 2, join(ROOT, 'examples/kv-store.mjs'), '--count', '100');
      expect(output).toMatch(/^100 GETs: p50/);
    });

    test('a pingpong ends at both ends', options, async () => {
      const bench = ['bench', 'send_lat', '-d', 'soft0', '-n', '100', '-s', '20000', '-p', `${port + 3}`];
      const server = startAt(SERVER, MAIN, ...bench);
      await listeningIn(SERVER.space, port + 3);
      const client = startAt(CLIENT, MAIN, ...bench, SERVER.address);
      expect(await Promise.all([client.done, server.done])).toMatchObject([{ code: 0 }, { code: 0 }]);
    });
  });
});
