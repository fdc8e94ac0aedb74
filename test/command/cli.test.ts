// Output and exit codes of the isoverbs command. Needs a build.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { CoordinatorRegistry } from '../../src/coordinator/registry.ts';
import { trace } from '../../src/interceptors/index.ts';
import { Chunk } from '../../src/policies/chunk/chunk.ts';
import { chunkOptions } from '../../src/policies/chunk/options.ts';
import { Drum } from '../../src/policies/drum/drum.ts';
import { drumOptions } from '../../src/policies/drum/options.ts';
import { Fair } from '../../src/policies/fair/fair.ts';
import { fairOptions } from '../../src/policies/fair/options.ts';
import { policies } from '../../src/policies/index.ts';
import { Justitia } from '../../src/policies/justitia/justitia.ts';
import { justitiaOptions } from '../../src/policies/justitia/options.ts';
import { palosOptions } from '../../src/policies/palos/options.ts';
import { Palos } from '../../src/policies/palos/palos.ts';
import { perfOptions } from '../../src/policies/perf/options.ts';
import { Perf } from '../../src/policies/perf/perf.ts';
import { shareOptions } from '../../src/policies/share/options.ts';
import { Share } from '../../src/policies/share/share.ts';
import { tasselOptions } from '../../src/policies/tassel/options.ts';
import { Tassel } from '../../src/policies/tassel/tassel.ts';
import { tokenBucketOptions } from '../../src/policies/token-bucket/options.ts';
import { TokenBucket } from '../../src/policies/token-bucket/token-bucket.ts';
import { handleIndex } from '../../src/verbs/handles.ts';
import { MAIN } from '../support/main.ts';
import { pairOn, simUnder } from '../unit/interceptors-rig.ts';

function isoverbs(args: string[], env: Record<string, string> = {}) {
  const child = spawnSync(process.execPath, [MAIN, ...args], {
    env: { ...process.env, ISOVERBS_LOG: '', ...env },
    encoding: 'utf8',
    timeout: 60_000,
  });
  return { code: child.status, out: child.stdout, err: child.stderr };
}

test('devices --json lists the simulated devices, and the requirements of real devices', () => {
  const { code, out, err } = isoverbs(['devices', '--json'], { ISOVERBS_NO_ADDON: '1' });
  expect({ code, err }).toEqual({ code: 0, err: '' });
  const { devices, notes } = JSON.parse(out);
  expect(devices.map((device: { name: string }) => device.name)).toEqual(['sim0', 'sim1']);
  expect(devices[0]).toMatchObject({
    provider: 'sim',
    wait: 'simulated',
    waitNote: 'WAIT and ENABLE are executed by the simulated device',
    ports: [{ port: 1, state: 'ACTIVE', linkLayer: 'Ethernet', activeMtuBytes: 4096 }],
  });
  expect(devices[0].ports[0].gids).toContainEqual({
    index: 1,
    gid: '::ffff:10.0.0.1',
    type: 'RoCE v2',
    ndevIfindex: 0,
  });
  expect(notes.join(' ')).toContain('ISOVERBS_NO_ADDON');
});

test('devices prints a table, and advice on machines without RDMA', () => {
  const { code, out } = isoverbs(['devices']);
  expect(code).toBe(0);
  expect(out).toMatch(/^device +provider +port/);
  expect(out).toMatch(/sim0 +sim +1 +ACTIVE +4096/);
  if (!/rdma-core/.test(out.split('note:')[0])) expect(out).toContain('note: ');
});

test('policies lists requirements, options, defaults and units, in 80 columns', () => {
  const { out } = isoverbs(['policies']);
  expect(out).toMatch(/^Policies \(ISOVERBS_POLICY\)/);
  expect(out).toMatch(/^ {2}name +WAIT +coordinator +shim at the peer/m);
  expect(out).toMatch(/^ {2}perf +preferred +own +for SENDs +PeRF/m);
  expect(out).toMatch(/^ {2}subMsgSizeBytes +16384 +bytes +size of a sub-message$/m);
  const [, ...lines] = out.split('\n');
  expect(lines.filter((line) => line.length > 80)).toEqual([]);
  const [perf] = JSON.parse(isoverbs(['policies', '--json']).out).policies;
  expect(perf).toMatchObject({
    name: 'perf',
    needs: { wait: 'preferred' },
    options: {
      subMsgSizeBytes: { default: 16384, unit: 'bytes' },
      isolation: { values: ['auto', 'always', 'never'] },
    },
  });
  const one = isoverbs(['policies', 'token-bucket']).out;
  expect(one).toContain('burstBytes');
  expect(one).not.toContain('subMsgSizeBytes');
  expect(isoverbs(['policies', 'prf'])).toMatchObject({
    code: 2,
    err: expect.stringContaining('available: perf'),
  });
});

test('policies lists exactly the requirements that each policy declares', () => {
  const built = {
    perf: new Perf(perfOptions.parse({}), new CoordinatorRegistry()),
    justitia: new Justitia(justitiaOptions.parse({}), new CoordinatorRegistry()),
    fair: new Fair(fairOptions.parse({}), new CoordinatorRegistry()),
    palos: new Palos(palosOptions.parse({}), new CoordinatorRegistry()),
    tassel: new Tassel(tasselOptions.parse({}), new CoordinatorRegistry()),
    drum: new Drum(drumOptions.parse({}), new CoordinatorRegistry()),
    'token-bucket': new TokenBucket(tokenBucketOptions.parse({}), new CoordinatorRegistry()),
    chunk: new Chunk(chunkOptions.parse({})),
    share: new Share(shareOptions.parse({})),
  };
  expect(Object.keys(policies)).toEqual(Object.keys(built));
  for (const [name, policy] of Object.entries(built)) {
    const { wait, shimmedPeer } = policies[name].needs;
    expect(wait, name).toBe(policy.needs.wait);
    expect(shimmedPeer, name).toBe(
      ('splitsAboveBytes' in policy ? policy.splitsAboveBytes : undefined) === undefined
        ? 'none'
        : 'for SENDs',
    );
  }
});

test('a closed stdout pipe ends a command without an error', () => {
  const folder = mkdtempSync(join(tmpdir(), 'isoverbs-trace-'));
  try {
    const file = join(folder, 'long.trace');
    const interceptor = trace({ file });
    const verbs = simUnder(interceptor);
    const context = verbs.openDevice('sim0');
    for (let i = 0; i < 2000; i++) verbs.deallocPd(verbs.allocPd(context));
    interceptor.close();
    for (const [how, first] of [
      ['', /time ns +verb/],
      ['--json', /"openDevice"/],
    ] as const) {
      const shell = `"${process.execPath}" "${MAIN}" trace ${how} "${file}" | head -n 1; echo "\${PIPESTATUS[0]}"`;
      const { stdout, stderr } = spawnSync('bash', ['-c', shell], { encoding: 'utf8', timeout: 60_000 });
      expect(stderr).toBe('');
      expect(stdout.trim().split('\n')).toEqual([expect.stringMatching(first), '0']);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('trace prints object names and queue pair numbers', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'isoverbs-trace-'));
  try {
    const interceptor = trace({ file: join(folder, 'named.trace') });
    const { a, close } = await pairOn(simUnder(interceptor));
    const [qp, cq] = [`qp${handleIndex(a.qp.handle)}`, `cq${handleIndex(a.cq.handle)}`];
    close();
    interceptor.close();
    const { out } = isoverbs(['trace', ...interceptor.files]);
    expect(out).toMatch(new RegExp(`createQp +pd\\d+ +\\(\\{"qpType":2,"sendCq":"${cq}","recvCq":"${cq}"`));
    expect(out).toContain(`= {"handle":"${qp}","qpNum":${a.qp.qpNum},`);
    expect(out).toMatch(new RegExp(`modifyQp +${qp}:${a.qp.qpNum} +\\(\\{"qpState":1,`));
    expect(out).toMatch(new RegExp(`createCq +ctx\\d+ +\\(\\d+,"channel\\d+"\\) = \\{"handle":"${cq}"`));
    expect(out).toMatch(/openDevice +\("sim0",null\) = ctx\d+/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('demo creates the folder of its JSON, but not of its picture', { tags: ['long'] }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'isoverbs-demo-'));
  try {
    const json = join(folder, 'a/demo.json');
    const svg = join(folder, 'demo.svg');
    expect(isoverbs(['demo', '--ms', '0.1', '--json', json, '--svg', svg])).toMatchObject({
      code: 0,
      err: '',
    });
    expect(JSON.parse(readFileSync(json, 'utf8')).virtualMs).toBe(0.1);
    expect(readFileSync(svg, 'utf8')).toMatch(/^<svg /);
    expect(isoverbs(['demo', '--svg', join(folder, 'b/demo.svg')])).toMatchObject({
      code: 2,
      err: expect.stringMatching(
        /svg: .*b\/demo\.svg cannot be written: ENOENT.*; create the folder .*\/b, or/,
      ),
    });
    expect(existsSync(join(folder, 'b'))).toBe(false);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('help and version exit with 0, usage errors with 2, failures with 1', () => {
  expect(isoverbs(['--version'])).toMatchObject({ code: 0, out: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) });
  expect(isoverbs(['--help']).out).toContain('devices');
  expect(isoverbs(['bogus'])).toMatchObject({ code: 2, out: '' });
  expect(isoverbs(['devices', '--bogus']).code).toBe(2);
  expect(isoverbs(['demo', '--ms', 'x']).code).toBe(2);
  expect(isoverbs(['--log', 'loud', 'devices']).code).toBe(2);
  const wrong = isoverbs(['devices'], { ISOVERBS_SIM_HOSTS: 'many' });
  expect(wrong.code).toBe(2);
  expect(wrong.err).toContain('ISO_ERR_CONFIG');
});

test('every object of --json has the version of its schema, and demo and mix fit into 80 columns', {
  tags: ['long'],
}, () => {
  const mix = [
    'mix',
    '--app',
    'B:size=1MiB',
    '--app',
    'D:count=20',
    '--duration',
    '300us',
    '--warmup',
    '100us',
  ];
  const demo = ['demo', '--ms', '0.2'];
  for (const args of [mix, demo, ['devices'], ['policies']]) {
    expect(Object.entries(JSON.parse(isoverbs([...args, '--json']).out))[0]).toEqual(['schemaVersion', 1]);
  }
  for (const args of [mix, demo]) {
    const { code, out } = isoverbs(args, { FORCE_COLOR: '0' });
    expect(code).toBe(0);
    const table = out.split('\n').filter((line) => /^(app|A|B|D)\b/.test(line));
    expect(table.length).toBeGreaterThan(3);
    for (const line of table) expect(line.length).toBeLessThanOrEqual(80);
  }
  expect(isoverbs(mix, { FORCE_COLOR: '1' }).out).toContain('\u001b[1m');
});
