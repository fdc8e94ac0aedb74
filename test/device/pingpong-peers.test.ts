/** RC, UC, UD and shared receive queues against the C programs of ibverbs-utils, in both roles. */
import { describe, expect, test } from 'vitest';
import { type Kind, type PingpongOptions, pingpong } from './peers/pingpong.ts';
import { isInstalled, listening, type Program, start } from './peers/program.ts';
import { findDevice, gidIndexOf } from './rig.ts';

const found = findDevice();
const installed = isInstalled('ibv_srq_pingpong');
const here = typeof found !== 'string' && installed;
if (typeof found !== 'string' && !installed) {
  console.warn('no ibv_srq_pingpong (apt install ibverbs-utils): the pingpongs are skipped');
}

const ITERS = 40;
const PAGE_BYTES = 4096;
let nextPort = 22_000 + (process.pid % 1000);

interface Shape {
  tags?: string[];
  kind: Kind;
  sizeBytes: number;
  qps: number;
  events: boolean;
}

const shapes: Shape[] = [
  { kind: 'rc', sizeBytes: 1, qps: 1, events: false, tags: ['long'] },
  { kind: 'rc', sizeBytes: 50_000, qps: 1, events: false },
  { kind: 'rc', sizeBytes: 5000, qps: 1, events: true },
  { kind: 'uc', sizeBytes: 64, qps: 1, events: false, tags: ['long'] },
  { kind: 'uc', sizeBytes: 20_000, qps: 1, events: false },
  { kind: 'uc', sizeBytes: 5000, qps: 1, events: true, tags: ['long'] },
  { kind: 'ud', sizeBytes: 1, qps: 1, events: false, tags: ['long'] },
  { kind: 'ud', sizeBytes: 1024, qps: 1, events: true },
  { kind: 'srq', sizeBytes: 64, qps: 1, events: false, tags: ['long'] },
  { kind: 'srq', sizeBytes: 20_000, qps: 1, events: false, tags: ['long'] },
  { kind: 'srq', sizeBytes: 5000, qps: 16, events: false, tags: ['long'] },
  { kind: 'srq', sizeBytes: 5000, qps: 4, events: true },
];

function options(shape: Shape): Omit<PingpongOptions, 'port'> {
  if (typeof found === 'string') throw new Error(found);
  const { provider, name: device } = found;
  const context = provider.openDevice(device);
  const gidIndex = gidIndexOf(provider, context);
  provider.closeDevice(context);
  return { ...shape, device, gidIndex, iters: ITERS };
}

/** Starts the C program with -c, so that it checks what it receives. */
function theirs({ kind, sizeBytes, qps, events }: Shape, port: number, ...host: string[]): Program {
  const { device, gidIndex } = options({ kind, sizeBytes, qps, events });
  const numbers = { '-g': gidIndex, '-n': ITERS, '-s': sizeBytes, '-p': port };
  const args = ['-d', device, '-c', ...Object.entries(numbers).flat().map(String)];
  if (events) args.push('-e');
  if (kind === 'srq') args.push('-q', `${qps}`);
  return start(`ibv_${kind}_pingpong`, ...args, ...host);
}

async function withServer(shape: Shape, spoiled = false): Promise<string> {
  const port = nextPort++;
  const server = theirs(shape, port);
  await Promise.race([listening(port), endedEarly(server)]);
  return play(
    server,
    pingpong({ ...options(shape), host: '127.0.0.1', port, spoiled }, () => server.done),
  );
}

function withClient(shape: Shape): Promise<string> {
  return new Promise((resolve, reject) => {
    let client: Program | null = null;
    const ours = pingpong(
      {
        ...options(shape),
        port: 0,
        listening: (port) => {
          client = theirs(shape, port, '127.0.0.1');
          play(client, ours).then(resolve, reject);
        },
      },
      async () => client?.done,
    );
    ours.catch(reject);
  });
}

/** Rejects with the program's output if it fails; never resolves. */
async function endedEarly({ done }: Program): Promise<never> {
  const { code, output } = await done;
  if (code !== 0) throw new Error(`the C program ended with ${code}: ${output}`);
  return new Promise(() => {});
}

/** Runs both to the end; returns the output of the C program. */
async function play(program: Program, ours: Promise<void>): Promise<string> {
  await Promise.race([ours, endedEarly(program)]);
  const { code, output } = await program.done;
  if (code !== 0) throw new Error(`the C program ended with ${code}: ${output}`);
  return output;
}

function expectWhole(output: string, { sizeBytes }: Shape): void {
  expect(output).toMatch(new RegExp(`^${2 * ITERS * sizeBytes} bytes in [\\d.]+ seconds`, 'm'));
  expect(output).toMatch(new RegExp(`^${ITERS} iters in [\\d.]+ seconds`, 'm'));
  expect(output).not.toContain('invalid data');
}

for (const shape of shapes) {
  const { kind, sizeBytes, qps, events, tags = [] } = shape;
  const name = `C pingpong ${kind}, ${sizeBytes} bytes, QPs ${qps}, events ${events}`;
  describe.skipIf(!here)(name, { tags, timeout: 60_000 }, () => {
    test('is the server', async () => expectWhole(await withServer(shape), shape));
    test('is the client', async () => expectWhole(await withClient(shape), shape));
  });
}

describe.skipIf(!here)('the C programs do check the data', () => {
  const spoilt = (['rc', 'uc', 'ud', 'srq'] as const).flatMap((kind) => {
    return shapes.find((shape) => shape.kind === kind && shape.sizeBytes > 1) ?? [];
  });
  test.each(spoilt)(
    '$kind: each page of $sizeBytes bytes gets a complaint',
    async (shape) => {
      const pages = Math.ceil(shape.sizeBytes / PAGE_BYTES);
      const complaints = (await withServer(shape, true)).match(/^invalid data in page \d+$/gm);
      expect(complaints).toEqual(Array.from({ length: pages }, (_, page) => `invalid data in page ${page}`));
    },
    60_000,
  );
});
