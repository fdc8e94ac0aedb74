// `isoverbs top`: rates, order, and terminal handling. Requires a build.
// @module-tag wide
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { escaped } from '../../src/cli/escape.ts';
import { ordered, ratesOf, type TopRow, topTable } from '../../src/cli/top/table.ts';
import type { TenantRow } from '../../src/daemon/protocol.ts';
import { daemon, folder, isoverbs, MAIN, started, tenant } from './command-rig.ts';
import { hasPython, reason, until } from './rig.ts';

const row = (tenant: string, more: Partial<TopRow> = {}): TopRow => ({
  device: 'sim0',
  tenant,
  weight: 1,
  gbps: null,
  qpWeight: null,
  group: null,
  traffic: null,
  class: 'messages',
  why: 'nothing to isolate',
  contexts: 1,
  processes: 1,
  qps: 2,
  wireGbps: 0,
  sentRequests: 0,
  sentBytes: 0,
  heldRequests: 0,
  latencyNs: 0,
  maxQps: null,
  maxRequestsPerS: null,
  rateGbps: 50,
  split: false,
  qNumAllow: 0,
  referenceShare: 0,
  sentGbps: null,
  requestsPerS: null,
  ...more,
});

const look = (nowNs: number, ...rows: TenantRow[]) => ({ nowNs, rows });

test("rates are computed between two samples, with the daemon's clock", () => {
  const before = look(1e9, row('a', { sentBytes: 1000, sentRequests: 10 }), row('b', { sentBytes: 5000 }));
  const after = look(
    3e9,
    row('a', { sentBytes: 1000 + 25e7, sentRequests: 30 }),
    row('b', { sentBytes: 10 }),
    row('c', { sentBytes: 9 }),
  );
  const [a, b, c] = ratesOf(before, after);
  expect(a).toMatchObject({ sentGbps: 1, requestsPerS: 10 });
  // The first tenant's sums restarted, and the second tenant is new.
  for (const one of [b, c]) expect(one).toMatchObject({ sentGbps: null, requestsPerS: null });
  // The clock of another daemon.
  expect(ratesOf(look(9e9, row('a')), look(1e9, row('a')))[0].sentGbps).toBeNull();
});

test('the largest rows come first', () => {
  const rows = [
    row('a', { latencyNs: 5 }),
    row('b', { sentGbps: 3, requestsPerS: 1 }),
    row('c', { sentGbps: 1, requestsPerS: 7, latencyNs: 9 }),
  ];
  const names = (order: Parameters<typeof ordered>[1]) => ordered(rows, order).map(({ tenant }) => tenant);
  expect(names('bandwidth')).toEqual(['b', 'c', 'a']);
  expect(names('rate')).toEqual(['c', 'b', 'a']);
  expect(names('latency')).toEqual(['c', 'a', 'b']);
  expect(names('tenant')).toEqual(['a', 'b', 'c']);
});

test('the table shows everything, and no terminal control characters', () => {
  const text = topTable(
    [
      row('x\x1b[2Jy\n\u009b', {
        sentGbps: 12.345,
        requestsPerS: 2_500_000,
        heldRequests: 17,
        latencyNs: 3456,
        maxQps: 8,
        maxRequestsPerS: 20_000,
        split: true,
        why: 'large messages beside small ones',
      }),
      row('own', { gbps: 10 }),
      row('idle', { requestsPerS: 0, latencyNs: 3456 }),
    ],
    200,
  );
  expect(text.split('\n')[1]).toBe(
    'sim0    x\\u001b[2Jy\\u000a\\u009b  messages  2    1      12.35   2.5M   50.00  1       17    3.5  8 QPs, 20.0k/s  isolated: large messages beside small ones',
  );
  expect(text.split('\n')[2]).toMatch(/^sim0 {4}own .* - +50\.00 {2}own {5}- +- +- +nothing to isolate$/);
  // A latency of an earlier time is not shown.
  expect(text.split('\n')[3]).toMatch(/^sim0 {4}idle +idle .* 1 +- +- +- +nothing to isolate$/);
  expect(escaped('schön-\u{1f600}')).toBe('schön-\u{1f600}');
});

test('in a narrow terminal, limits and reasons follow below their rows', () => {
  const why =
    'with scheduling, short messages take 3.1 us instead of 9.4, and the throughput is 99 % of that without';
  const rows = [
    row('kv-store', { sentGbps: 12.345, maxQps: 8, why }),
    row('idle', { requestsPerS: 0, why: '' }),
  ];
  const lines = topTable(rows, 80).split('\n');
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(80);
  expect(lines.map((line) => line.replace(/ {2,}(?=\S)/g, '  '))).toEqual([
    'device  tenant  class  QPs  procs  Gbit/s  req/s  may  weight  held  us',
    'sim0  kv-store  messages  2  1  12.35  -  50.00  1  -  -',
    '  limits: 8 QPs; why: with scheduling, short messages take 3.1 us instead of',
    '  9.4, and the throughput is 99 % of that without',
    'sim0  idle  idle  2  1  -  -  50.00  1  -  -',
  ]);
});

test.skipIf(reason !== '')(
  'prints tables and JSON lines while a daemon stops and restarts; fails without a daemon',
  { timeout: 60_000 },
  async () => {
    const socket = join(folder(), 's');
    const first = await daemon(socket, ['--policy', 'token-bucket']);
    await tenant(socket, 'storage');
    const once = await isoverbs(['top', '--socket', socket, '--once', '--interval', '0.3']).ended;
    expect(once).toMatchObject({ status: 0, stderr: '' });
    expect(once.stdout).toMatch(/^device +tenant +class/);
    expect(once.stdout).toMatch(/^sim0 +storage +\w+ +2 +1 /m);
    const list = await isoverbs(['tenants', '--socket', socket]).ended;
    const [ofTop, ofTenants] = [once, list].map(({ stdout }) => stdout.split('\n')[0].split(/ +/));
    const inBoth = (heads: string[], others: string[]) => heads.filter((head) => others.includes(head));
    expect(inBoth(ofTenants, ofTop)).toEqual(inBoth(ofTop, ofTenants));

    const lines = isoverbs(['top', '--socket', socket, '--json', '--interval', '0.1']);
    const seen = () =>
      lines
        .out()
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line));
    await until(() => seen().length >= 2);
    expect(seen()[1].tenants).toMatchObject([{ tenant: 'storage', device: 'sim0', processes: 1 }]);
    expect(seen()[1].nowNs).toBeGreaterThan(seen()[0].nowNs);
    first.child.kill('SIGTERM');
    await until(() => /waiting for a daemon\n/.test(lines.err()));
    const before = seen().length;
    await daemon(socket, ['--policy', 'token-bucket']);
    await until(() => seen().length > before && seen().at(-1).tenants.length === 1);
    lines.child.kill('SIGINT');
    expect(await lines.ended).toMatchObject({ signal: 'SIGINT' });
    expect(lines.err().match(/waiting/g)).toHaveLength(1);

    const none = await isoverbs(['top', '--socket', `${socket}.none`, '--once']).ended;
    expect(none).toMatchObject({ status: 1, stdout: '' });
    expect(none.stderr).toMatch(/^isoverbs: start `isoverbs daemon`, .*\.none: .* \(ISO_ERR_NO_DAEMON\)\n$/);
    expect(none.stderr.match(/\.none/g)).toHaveLength(1);
  },
);

/** Runs a command in a terminal of 100 columns, and types what this process reads from its input. */
const IN_TERMINAL = `
import fcntl, os, pty, select, struct, sys, termios
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack('HHHH', 20, 100, 0, 0))
sources = [fd, 0]
while True:
    ready = select.select(sources, [], [])[0]
    if 0 in ready:
        typed = os.read(0, 64)
        if typed: os.write(fd, typed)
        else: sources.remove(0)
    if fd in ready:
        try: data = os.read(fd, 65536)
        except OSError: break
        if not data: break
        os.write(1, data)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) % 256)
`;

test.skipIf(reason !== '' || !hasPython)(
  'in a terminal it lists processes, filters, changes weights, and restores the screen however it ends',
  { timeout: 60_000 },
  async () => {
    const socket = join(folder(), 's');
    const running = await daemon(socket);
    const open = async () => {
      const args = [
        '-c',
        IN_TERMINAL,
        process.execPath,
        MAIN,
        'top',
        '--socket',
        socket,
        '--interval',
        '0.1',
      ];
      const terminal = started('python3', args, { TERM: 'xterm' });
      await until(() => /no tenants|storage/.test(terminal.out()));
      expect(terminal.out().startsWith('\x1b[?1049h')).toBe(true);
      return terminal;
    };
    const left = '\x1b[?7h\x1b[?25h\x1b[?1049l';
    const first = await open();
    first.child.stdin!.write('l');
    await until(() => first.out().includes('by latency'));
    await tenant(socket, 'storage');
    await until(() => /\+ storage +\w+/.test(first.out()));
    first.child.stdin!.write(' ');
    await until(() => /└ \d+ \S*node/.test(first.out()));
    first.child.stdin!.write('\x1b[A+');
    await until(() => first.out().includes('the weight of storage is now 2'));
    first.child.stdin!.write('/x');
    await until(() => first.out().includes("no tenant matches 'x'"));
    first.child.stdin!.write('\x1b');
    await until(
      () =>
        first.out().lastIndexOf('+ storage') > first.out().lastIndexOf('no tenant matches') ||
        first.out().lastIndexOf('- storage') > first.out().lastIndexOf('no tenant matches'),
    );
    running.child.kill('SIGTERM');
    await until(() => first.out().includes('waiting for a daemon'));
    await daemon(socket);
    await until(() => first.out().lastIndexOf('default policy') > first.out().lastIndexOf('waiting'));
    first.child.stdin!.write('q');
    expect((await first.ended).status).toBe(0);
    expect(first.out().endsWith(left)).toBe(true);
    const second = await open();
    second.child.stdin!.write('\x03');
    expect((await second.ended).status).toBe(256 - 2);
    expect(second.out().endsWith(left)).toBe(true);
  },
);
