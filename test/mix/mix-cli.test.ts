// `isoverbs mix`: its output, and one clear message with exit code 2 for each impossible request. Needs a build.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { MAIN } from '../support/main.ts';
import { command } from './command.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

/** Runs the command in this process. */
const mix = (...args: string[]) => command('mix', ...args);

/** Runs the command in its own process. */
function isoverbs(...args: string[]) {
  const child = spawnSync(process.execPath, [MAIN, 'mix', ...args], { encoding: 'utf8', timeout: 60_000 });
  return { code: child.status, out: child.stdout, err: child.stderr };
}

test('no line of the result is wider than the terminal', async () => {
  const policy = 'justitia:chunkBytes=8KiB;perf:isolation=always,subMsgSizeBytes=8KiB';
  const words = ['--app', 'B:size=1MiB', '--app', 'D:count=3,name=interactive', '--policy', policy];
  const { out } = await mix(...words, '--details', '--gauges', '--duration', '300us', '--warmup', '100us');
  expect(out).toMatch(/^justitia: \w+ of /m);
  expect(Math.max(...out.split('\n').map((line) => line.length))).toBeLessThanOrEqual(80);
});

const PACER = './examples/policies/token-pacer.mjs';
const SHORT = ['--duration', '300us', '--warmup', '100us'];
const app = (text: string) => ['--app', text];

test.each<[string[], RegExp]>([
  [[], /a mix needs at least one app/],
  [[...app('B'), '--profile', 'cx9'], /unknown profile 'cx9'; use one of minimal, .*cx6-100g/],
  [[...app('B'), '--policy', 'magic'], /unknown policy 'magic'; use one of none, perf/],
  [[...app('B'), '--policy', 'fiar'], /unknown policy 'fiar'; did you mean 'fair'\? use one of none, perf/],
  [
    [...app('B'), '--policy', './magic.mjs'],
    /there is no file \/.*\/magic\.mjs; a relative path starts at the working directory/,
  ],
  [
    [...app('B'), '--policy', 'perf:velocity=1'],
    /there is no option 'velocity'; there are: subMsgSizeBytes, /,
  ],
  [[...app('B'), '--policy', 'perf:subMsgSizeBytes='], /perf\.subMsgSizeBytes: a value is missing/],
  [[...app('B'), '--policy', 'perf:subMsgSizeBytes=16kb'], /unknown unit 'kb'/],
  [[...app('B'), '--policy', 'perf:paper,waits=adaptive'], /adaptive and paper exclude each other/],
  [[...app('B'), '--policy', `${PACER}:rateBytePerS=1e9`], /token-pacer: rateBytesPerS must be above 0/],
  [[...app('B'), '--policy', 'none:speed=1'], /policy none takes no options/],
  [[...app('B'), '--driver', 'thread'], /unknown driver 'thread'; use inline or worker/],
  [[...app('B'), '--driver', 'inlin'], /unknown driver 'inlin'; did you mean 'inline'\? use inline or/],
  [[...app('B'), '--provider', 'simm'], /'simm' is not one of sim, rdma-core, soft; did you mean 'sim'\?/],
  [app('X'), /unknown kind 'X'; use one of B, M, D/],
  [app(''), /unknown kind ''/],
  [app('B:sze=1'), /unknown key 'sze'; did you mean 'size'\? use one of name, op, size/],
  [
    app('B:op=wirte'),
    /'wirte' is not one of write, send, read, atomic, cas, register; did you mean 'write'\?/,
  ],
  [[...app('B'), '--profile', 'cx6-10g'], /unknown profile 'cx6-10g'; did you mean 'cx6-100g'/],
  [[...app('B'), '--set', 'linkGps=40'], /a profile has no 'linkGps'; did you mean 'linkGbps'\? its/],
  [[...app('B'), '--policy', 'perf:isolation=alwys'], /got 'alwys'; did you mean 'always'\?/],
  [app('B:colour=red'), /unknown key 'colour'; use one of name, op, size/],
  [app('B:constructor=1'), /unknown key 'constructor'/],
  [app('B:size'), /'size' is not of the form key=value/],
  [app('B:size=1,size=2'), /'size' is given twice/],
  [app('B:size=1kb'), /unknown unit 'kb'; use one of B, KB, KiB/],
  [app('B:size=big'), /size: 'big' is not a number/],
  [app('B:size=-1'), /size: '-1' is neither a value nor a range/],
  [app('B:size=1-2-3'), /size: '1-2-3' is neither a value nor a range/],
  [app('B:size=0'), /size must be a whole number from 1 to 1073741824, got 0/],
  [app('B:size=1.5'), /size must be a whole number/],
  [app('B:size=2GiB'), /size must be a whole number from 1 to 1073741824, got 2147483648/],
  [app('B:size=8-4'), /range 8 to 4 is reversed/],
  [app('D:op=atomic,size=16'), /an atomic operates on 8 bytes, not 16/],
  [app('D:transport=ud,op=send,size=5000'), /a datagram holds at most 4096 bytes/],
  [app('D:transport=ud'), /transport ud does not support write, only send/],
  [app('D:transport=uc,op=read'), /transport uc does not support read, only write and send/],
  [app('D:transport=tcp'), /'tcp' is not one of rc, uc, ud/],
  [app('D:op=move'), /'move' is not one of write, send, read, atomic, cas, register/],
  [app('B:inline=yes'), /only writes and sends of at most 220 bytes .* can be inline/],
  [app('D:think=5'), /think: '5' requires a unit; use one of ns, us, ms, s/],
  [app('D:think=5min'), /unknown unit 'min'/],
  [app('D:qps=0'), /qps must be a whole number from 1/],
  [app('D:qps=two'), /qps: 'two' is not a whole number/],
  [app('D:qps=65535,count=100'), /6553500 queue pairs; at most 65535 are possible/],
  [app('D:count=0'), /count must be a whole number from 1/],
  [app('D:depth=0'), /depth must be a whole number from 1/],
  [app('D:batch=0'), /batch must be a whole number from 1/],
  [app('M:batch=64,depth=32'), /a batch of 64 does not fit into a depth of 32/],
  [app('M:cores=0'), /cores must be a whole number from 1 to 1, got 0/],
  [app('M:cores=2'), /cores must be a whole number from 1 to 1, got 2/],
  [app('M:contexts=0'), /contexts must be a whole number from 1 to 1, got 0/],
  [app('M:qps=2,contexts=3'), /contexts must be a whole number from 1 to 2, got 3/],
  [app('M:qpLife=100ns'), /app M: qpLife must be at least 1us, got 100ns/],
  [app('M:qpLife=1ms,contextLife=1ms'), /qpLife and contextLife exclude each other: leave out one/],
  [app('M:op=send,contextLife=1ms'), /contextLife is for WRITEs, READs and atomics, not for op=send/],
  [app('M:burst=1us'), /burst: '1us' is not a burst and the pause after it, such as 200us/],
  [app('M:burst=0us/1us'), /burst: the burst must be above 0, got 0/],
  [app('M:burst=1us/0us'), /burst: the pause must be above 0, got 0/],
  [app('D:weight=0'), /weight must be a number from 1e-6 to 1e6, got 0/],
  [app('D:weight=heavy'), /weight: 'heavy' is not a number/],
  [app('D:qpWeight=0'), /qpWeight must be a number from 1e-6 to 1e6, got 0/],
  [app('D:qpWeight=-1'), /qpWeight must be a number from 1e-6 to 1e6, got -1/],
  [app('D:group=g,groupWeight=0'), /groupWeight must be a number from 1e-6 to 1e6, got 0/],
  [app('D:groupWeight=2'), /app D: groupWeight needs a group: add group=NAME/],
  [app('D:class=middle'), /class: 'middle' is not a whole number/],
  [app('D:class=8'), /class must be a whole number from 0 to 7, got 8/],
  [app('D:host=2'), /app D: host: unknown host 2; hosts are 0 to 1/],
  [app('D:to=7'), /app D: to: unknown host 7/],
  [app('D:name='), /name: a name is missing/],
  [[...app('D:name=x'), ...app('B:name=x')], /two apps are named 'x'/],
  [app('D:rate=200Gbps'), /a rate of 200 Gbps is not between 0 and the link's 100 Gbps/],
  [app('D:rate=5'), /rate: '5' requires a unit/],
  [app('D:start=3ms,stop=2ms'), /stops at 2ms, not after its start at 3ms/],
  [app('D:start=1s'), /gives no samples/],
  [app('D:stop=1ms'), /gives no samples/],
  [[...app('D'), '--duration', '1ms'], /a duration of 1ms gives no samples: the first 2ms are the warm-up/],
  [[...app('D'), '--duration', '0ms', '--warmup', '0'], /the duration must be above 0/],
  [[...app('D'), '--duration', '20'], /duration: '20' requires a unit/],
  [[...app('D'), '--duration', 'long'], /duration: 'long' is not a number/],
  [[...app('D'), '--duration', '500ns', '--warmup', '0'], /gives no samples: app D completed nothing/],
  [[...app('B'), ...app('D'), '--duration', '500ns', '--warmup', '0'], /gives no samples: no app completed/],
  [[...app('D'), '--warmup', '2m'], /unknown unit 'm'/],
  [[...app('D'), '--seed', 'x'], /seed: 'x' is not a whole number/],
  [[...app('D'), '--hosts', '1'], /hosts must be a whole number from 2 to 4096, got 1/],
  [[...app('D'), '--hosts', 'all'], /hosts: 'all' is not a whole number/],
  [[...app('D'), '--topology', 'ring'], /topology must be one of cable, direct, star/],
  [[...app('D'), '--hosts', '3', '--topology', 'cable'], /topology cable joins two hosts, not 3/],
  [[...app('D'), '--set', 'speed=1'], /a profile has no 'speed'/],
  [[...app('D'), '--set', '__proto__=1'], /a profile has no '__proto__'/],
  [[...app('D'), '--set', 'linkGbps'], /'linkGbps' is not of the form key=value/],
  [[...app('D'), '--set', 'linkGbps=0'], /linkGbps must be a number above 0, got 0/],
  [[...app('D'), '--set', 'linkGbps=fast'], /linkGbps must be a number above 0, got 'fast'/],
  [[...app('D'), '--set', 'egressFifoBytes=1kb'], /unknown unit 'kb'/],
  [[...app('D'), '--set', 'mtuBytes=1000'], /mtuBytes must be one of 256, 512, 1024, 1500/],
  [[...app('D'), '--set', 'scheduler=best'], /scheduler must be one of rr, sp, ets, greedy/],
  [[...app('D'), '--set', 'etsWeights=1,0'], /etsWeights must be numbers above 0/],
  [[...app('D'), '--set', 'linkGbps=1', '--set', 'linkGbps=2'], /'linkGbps' is given twice/],
])('isoverbs mix %j', async (args, sentence) => {
  const { code, out, err } = await mix(...args);
  expect({ code, out }).toEqual({ code: 2, out: '' });
  expect(err).toMatch(sentence);
  expect(err).toMatch(/^isoverbs: [^\n]+ \(ISO_ERR_CONFIG\)\n$/);
});

test('--policy accepts the path of a policy module', async () => {
  const time = ['--duration', '2ms', '--warmup', '1ms'];
  const policy = `${PACER}:rateBytesPerS=1e9,burstBytes=4096`;
  const { code, out, err } = await mix(...time, ...app('B:size=64KiB'), '--policy', policy, '--json');
  expect({ code, err }).toEqual({ code: 0, err: '' });
  const result = JSON.parse(out);
  expect(result.policy).toBe(policy);
  expect(result.apps[0].throughputGbps).toBeGreaterThan(7.5);
  expect(result.apps[0].throughputGbps).toBeLessThan(8.5);
});

test("--driver worker runs the policy's steps on a separate core", async () => {
  // Few pieces are issued ahead, so that the cost of a piece becomes visible.
  const shaped = ['--policy', 'perf:isolation=always,waits=fixed,feedPieces=2'];
  const hash = async (...more: string[]) => {
    const { code, out, err } = await mix(...SHORT, ...app('B:size=64KiB'), ...shaped, ...more, '--json');
    expect({ code, err }).toEqual({ code: 0, err: '' });
    return JSON.parse(out).traceHash;
  };
  const inline = await hash('--driver', 'inline');
  expect(await hash()).toBe(inline);
  expect(await hash('--driver', 'worker')).not.toBe(inline);
});

test('the JSON has the documented fields', async () => {
  const { code, out, err } = await mix(...SHORT, ...app('B'), ...app('D'), '--seed', '3', '--json');
  expect({ code, err }).toEqual({ code: 0, err: '' });
  const result = JSON.parse(out);
  expect(result).toMatchObject({ profile: 'cx6-100g', policy: 'none', seed: 3, durationNs: 300e3 });
  for (const name of ['wallMs', 'events', 'packets']) expect(result[name]).toBeGreaterThan(0);
  expect(result.traceHash).toMatch(/^[0-9a-f]{16}$/);
  expect(result.invariants).toEqual([]);
  expect(result.apps.map((one: { name: string }) => one.name)).toEqual(['B', 'D']);
  expect(result.apps[1]).toMatchObject({ kind: 'D', qps: 1, messageBytes: 16, errors: 0 });
  const { throughputGbps, messageRateMmps, completed, latencyUs } = result.apps[1];
  for (const value of [throughputGbps, messageRateMmps, completed]) expect(value).toBeGreaterThan(0);
  expect(Object.keys(latencyUs)).toEqual(['avg', 'p50', 'p99', 'p999', 'max']);
  expect(result.links[0]).toMatchObject({ from: 'host0', to: 'host1', drops: 0 });
});

test.each([
  ['perf:paper,subMsgSizeBytes=8KiB'],
  ['token-bucket:ratesGbps=B:30/D:1;chunk:chunkBytes=32KiB'],
  [`${PACER}:rateBytesPerS=1e9`],
  ['none'],
])('text and JSON name the policy with its options: %s', async (policy) => {
  const onHost = '@1=chunk:chunkBytes=64KiB';
  const args = [...SHORT, ...app('B'), ...app('D'), '--policy', policy, '--policy', onHost];
  const words = `${policy} ${onHost}`;
  // Lines end where the terminal does.
  const unfolded = (text: string) => text.replace(/\s+/g, '');
  const { out } = await mix(...args);
  expect(unfolded(out)).toContain(unfolded(`cx6-100g, policy ${words}, seed 1: `));
  expect(JSON.parse((await mix(...args, '--json')).out).policy).toBe(words);
});

test('the text output is a table', async () => {
  const { code, out } = await mix(...SHORT, ...app('M:count=2'));
  expect(code).toBe(0);
  // It folds, because a row has more than 80 columns.
  expect(out).toMatch(/^app .*QPs .*Gbit\/s .*done/);
  expect(out).toMatch(/\napp .*avg us .*p99/);
  expect(out.match(/^M\.0 .*\nM\.1 /gm)).toHaveLength(2);
  expect(out).toMatch(/trace [0-9a-f]{16}\n$/);
});

test.each([
  [['--trace', 'a', '--pcap', './a@host0'], 'trace: a is already the file of pcap; choose another file'],
  [['--departures', 'B=b.svg', '--plot', 'b.svg'], 'plot: b.svg is already the file of departures'],
  [['--departures', 'B=c', '--departures', 'B#0=c'], 'departures: c is already the file of departures'],
])('one file for two outputs is refused: %j', async (files, message) => {
  const { code, err } = await mix(...SHORT, ...app('B'), ...files);
  expect(code).toBe(2);
  expect(err).toContain(message);
});

test('--plot draws the run over time', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'isoverbs-mix-'));
  try {
    const file = join(folder, 'mix.svg');
    expect(await mix(...SHORT, ...app('B'), ...app('D'), '--plot', file)).toMatchObject({ code: 0, err: '' });
    const svg = readFileSync(file, 'utf8');
    for (const text of ['throughput, Gbit/s', 'messages, M/s', 'mean latency, us'])
      expect(svg).toContain(text);
    expect(await mix(...SHORT, ...app('B'), '--plot', join(folder, 'a/mix.svg'))).toMatchObject({
      code: 2,
      err: expect.stringMatching(/plot: .* cannot be written: ENOENT/),
    });
    expect(existsSync(join(folder, 'a'))).toBe(false);
    expect(await mix(...SHORT, ...app('B'), '--plot', join(folder, 'mix.png'))).toMatchObject({
      code: 2,
      err: expect.stringMatching(/plot: .*mix\.png must end in \.svg, because/),
    });
    expect(existsSync(join(folder, 'mix.png'))).toBe(false);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('a seed determines the trace, in any process and with or without payload', () => {
  const args = [...SHORT, '--json', ...app('B'), ...app('M'), ...app('D:think=1us')];
  const hash = (...more: string[]) => {
    const { code, out } = isoverbs(...args, ...more);
    expect(code).toBe(0);
    return JSON.parse(out).traceHash;
  };
  const first = hash('--seed', '5');
  expect(hash('--seed', '5')).toBe(first);
  expect(hash('--seed', '5', '--no-payload')).toBe(first);
  expect(hash('--seed', '6')).not.toBe(first);
});
