/** `isoverbs bench` as a command: rejected arguments and exit codes. Needs a build. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, test, vi } from 'vitest';
import { command } from '../mix/command.ts';
import { MAIN } from '../support/main.ts';

const ENV = { ...process.env, ISOVERBS_LOG: '', ISOVERBS_NO_ADDON: '1' };

function bench(...args: string[]) {
  const child = spawnSync(process.execPath, [MAIN, 'bench', ...args], {
    env: ENV,
    encoding: 'utf8',
    timeout: 30_000,
  });
  return { code: child.status, out: child.stdout, err: child.stderr };
}

describe('invalid input ends with one message', () => {
  vi.stubEnv('ISOVERBS_NO_ADDON', '1');
  test.each([
    ['write_bw -x 99', 2, '--gid-index 99: port 1 of sim0 has GIDs at 0, 1'],
    ['write_bw --profile cx7', 2, '--profile takes minimal, ideal, cx6-100g'],
    ['write_bw -s two', 2, "--size takes whole numbers from 1 to 2147483648, got 'two'"],
    ['write_bw -s 0', 2, '--size takes'],
    ['write_bw -n 0', 2, '--iters takes whole numbers from 5'],
    ['write_bw -t 0', 2, '--tx-depth takes'],
    ['write_bw -p 0', 2, '--port takes whole numbers from 1 to 65535'],
    ['write_bw -p 70000', 2, '--port takes'],
    ['write_bw -i 2', 2, '--ib-port 2: sim0 has 1 port'],
    ['write_bw -d sim7', 2, '--ib-dev sim7: the simulated devices of a test are sim0 and sim1'],
    ['write_bw -d mlx5_0', 1, '`isoverbs devices` shows what is missing'],
    ['write_bw -s 1073741825', 2, 'the largest message of sim0 is 1073741824 bytes'],
    ['send_bw -c UD -s 8192', 2, 'Max message size in UD cannot be greater than MTU: 4096'],
    ['write_bw -W nix', 2, "the port has no counter 'nix'; it has sentBytes, loopbackBytes, packets"],
    ['write_bw --bogus', 2, "unknown option '--bogus'"],
    ['ib_write_bw', 2, "unknown test 'ib_write_bw'; use one of write_bw"],
    ['write_bw --policy nobody', 2, "unknown policy 'nobody'"],
    ['write_bw --out_json --out_json_file /nowhere/at/all.json', 2, '--out_json_file: /nowhere/at/all.json'],
    ['write_bw --provider soft --pcap a --out_json --out_json_file ./a', 2, 'the file of --pcap'],
  ])('%s', async (words, code, sentence) => {
    const { code: ended, out, err } = await command('bench', ...words.split(' '));
    expect({ code: ended, out }).toEqual({ code, out: '' });
    expect(err).toContain(sentence);
    // The reference to further reading is a separate line.
    expect(
      err
        .trim()
        .split('\n')
        .filter((line) => !line.startsWith('See: ')),
    ).toHaveLength(1);
  });
});

test('without a real device, the table of perftest is printed for simulated ones', () => {
  const { code, out, err } = bench('write_bw', '-n', '100');
  expect(code).toBe(0);
  const lines = out.split('\n');
  expect(lines[0]).toBe('-'.repeat(87));
  expect(lines[1]).toBe(`${' '.repeat(20)}RDMA_Write BW Test`);
  expect(lines).toContain(
    ' #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]',
  );
  expect(lines.filter((line) => /^ 65536 {6}100 {8}/.test(line))).toHaveLength(1);
  expect(err).toBe(
    'isoverbs: both ends run in this process on simulated devices (cx6-100g); the client is sim0, the server sim1\n',
  );
});

test('--json prints only JSON', () => {
  const { out } = bench('write_bw', '-n', '100', '--json');
  expect(JSON.parse(out).results).toMatchObject({ MsgSize: 65536, n_iterations: 100 });
});

test('the report names the policy with its options, from --policy or ISOVERBS_POLICY', async () => {
  vi.stubEnv('ISOVERBS_NO_ADDON', '1');
  vi.stubEnv('ISOVERBS_POLICY', 'chunk:chunkBytes=32KiB');
  const run = (...more: string[]) => command('bench', 'write_bw', '-n', '100', ...more);
  const infoOf = async (...more: string[]) => JSON.parse((await run(...more, '--json')).out).test_info;
  expect((await run()).out).toContain('\n Policy          : chunk:chunkBytes=32KiB\n');
  expect(await infoOf('--policy', 'perf:paper=true,subMsgSizeBytes=8KiB;chunk')).toMatchObject({
    Policy: 'perf:paper,subMsgSizeBytes=8KiB;chunk',
  });
  expect(await infoOf('--policy', 'none')).toMatchObject({ Policy: 'none' });
  vi.stubEnv('ISOVERBS_POLICY', '');
  expect(await infoOf()).not.toHaveProperty('Policy');
  vi.unstubAllEnvs();
});

test('--run_infinitely ends on SIGINT after a complete line', async () => {
  const args = [MAIN, 'bench', 'write_bw', '--run_infinitely', '-D', '1'];
  const child = spawn(process.execPath, args, { env: ENV, stdio: ['ignore', 'pipe', 'ignore'] });
  let out = '';
  child.stdout.on('data', (text) => {
    out += text;
    if (out.includes(' #bytes ')) child.kill('SIGINT');
  });
  const [code, signal] = await once(child, 'close');
  expect({ code, signal }).toEqual({ code: null, signal: 'SIGINT' });
  expect(out.endsWith(`\n${'-'.repeat(87)}\n`)).toBe(true);
});

/** The complete rows of a table: size, iterations, peak and average bandwidth, rate. */
const rowsOf = (out: string) =>
  (out.match(/^ 65536 .*(?=\n)/gm) ?? []).map((row) => row.trim().split(/\s+/).map(Number));

describe('--rate_limit', () => {
  const RATES: [string, string, string, string, number, string[]][] = [
    ['-s 65536', '7.3', 'g', 'BW_average', 7.3, ['long']],
    ['-s 65536', '33.333', 'g', 'BW_average', 33.333, ['long']],
    ['-s 4096 -q 3', '123.4', 'M', 'BW_average', (123.4 * 8 * 2 ** 20) / 1e9, ['long']],
    ['-s 2', '12345', 'p', 'MsgRate', 0.012345, []],
    ['-s 300 -D 1', '0.777', 'g', 'BW_average', 0.777, ['long']],
  ];
  for (const [flags, rate, units, of, wanted, tags] of RATES)
    test(`${flags} at ${rate} ${units}`, { tags }, () => {
      const args = [
        ...flags.split(' '),
        '--rate_limit',
        rate,
        '--rate_units',
        units,
        '--report_gbits',
        '--json',
      ];
      const { out } = bench('write_bw', ...args);
      expect(Math.abs(JSON.parse(out).results[of] / wanted - 1)).toBeLessThan(0.05);
    });

  test('no message is early', { tags: ['long'] }, () => {
    const { out } = bench('write_bw', '--rate_limit', '40', '--report_gbits', '--json');
    const { BW_peak, BW_average } = JSON.parse(out).results;
    for (const gbps of [BW_peak, BW_average]) expect(Math.abs(gbps / 40 - 1)).toBeLessThan(0.01);
  });

  test('holds with --run_infinitely', async () => {
    const args = ['--run_infinitely', '-D', '1', '--rate_limit', '0.5', '--report_gbits'];
    const child = spawn(process.execPath, [MAIN, 'bench', 'write_bw', '--provider', 'sim', ...args], {
      env: ENV,
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    let out = '';
    child.stdout.on('data', (text) => {
      out += text;
      if (rowsOf(out).length > 2 && !child.killed) child.kill('SIGINT');
    });
    await once(child, 'close');
    expect(rowsOf(out).length).toBeGreaterThan(2);
    for (const [, , , gbps] of rowsOf(out)) expect(Math.abs(gbps / 0.5 - 1)).toBeLessThan(0.02);
    const lowest = Math.min(...rowsOf(out).map(([, , , gbps]) => gbps)).toFixed(2);
    expect(out).toContain(`\n${'-'.repeat(87)}\n BW min[Gb/sec] : ${lowest} (interval `);
  });
});
