// docs/operating: the alerts and the dashboard, loaded and evaluated by a real Prometheus that scrapes a daemon.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { parseDaemonConfig } from '../../src/daemon/config.ts';
import { daemon, folder, started, tenant } from './command-rig.ts';
import { freePort } from './nats.ts';
import { reason } from './rig.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const OPERATING = join(ROOT, 'docs/operating');
const read = (name: string) => readFileSync(join(OPERATING, name), 'utf8');

interface Panel {
  readonly title: string;
  readonly description: string;
  readonly targets: readonly { readonly expr: string }[];
}
interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly description: string };
}

const rules: readonly Rule[] = parse(read('alerts.yaml')).groups.flatMap(
  ({ rules }: { rules: Rule[] }) => rules,
);
const { panels }: { panels: readonly Panel[] } = JSON.parse(read('grafana.json'));
/** The expressions of the panels, as Grafana sends them with all hosts, devices and tenants selected. */
const expressions = panels.flatMap(({ targets }) =>
  targets.map(({ expr }) =>
    expr.replaceAll('$__rate_interval', '1m').replaceAll(/\$(instance|device|tenant)/g, '.*'),
  ),
);

test('alerts and panels use documented metrics, and say in sentences what they mean', () => {
  const documented = new Set(
    [...readFileSync(join(ROOT, 'docs/operations.md'), 'utf8').matchAll(/`((?:isoverbs|process)_\w+)`/g)].map(
      ([, name]) => name,
    ),
  );
  for (const expr of [...rules.map((rule) => rule.expr), ...expressions]) {
    for (const [name] of expr.matchAll(/\b(?:isoverbs|process)_\w+/g)) {
      expect(documented).toContain(name.replace(/_bucket$/, ''));
    }
  }
  for (const { annotations, labels } of rules) {
    expect(annotations.summary).toMatch(/\.$/);
    expect(annotations.description.trim()).toMatch(/[.`]$/);
    expect(['info', 'warning', 'critical']).toContain(labels.severity);
  }
  for (const { title, description } of panels) expect(description, title).toMatch(/^[A-Z0-9].*\.$/);
  expect(new Set(panels.map(({ title }) => title)).size).toBe(panels.length);
});

test('the example for Kubernetes has valid rules, the socket in one folder, and the devices of the host', () => {
  const documents = parseAllDocuments(read('kubernetes.yaml')).map((one) => {
    expect(one.errors).toEqual([]);
    return one.toJS();
  });
  const ofKind = (kind: string) => documents.find((one) => one.kind === kind);
  const config = parseDaemonConfig(ofKind('ConfigMap').data['daemon.yaml'], 'daemon.yaml');
  expect(config.rules.map(({ tenant }) => tenant)).toEqual(['storage', 'pods']);
  const daemonSpec = ofKind('DaemonSet').spec.template.spec;
  expect(daemonSpec).toMatchObject({ hostPID: true, hostNetwork: true });
  const [container] = daemonSpec.containers;
  const [program] = ofKind('Pod').spec.containers;
  const pathOf = (spec: { volumes: { name: string; hostPath?: { path: string } }[] }, name: string) =>
    spec.volumes.find((one) => one.name === name)?.hostPath?.path;
  expect(container.args).toContain('/run/isoverbs/daemon.sock');
  expect(program.env).toContainEqual({ name: 'ISOVERBS_DAEMON', value: '/run/isoverbs/daemon.sock' });
  expect(pathOf(daemonSpec, 'run')).toBe(pathOf(ofKind('Pod').spec, 'isoverbs'));
  expect(pathOf(daemonSpec, 'infiniband')).toBe('/dev/infiniband');
  for (const { volumeMounts } of [container, program]) {
    expect(volumeMounts).toContainEqual(expect.objectContaining({ mountPath: '/run/isoverbs' }));
  }
  expect(container.securityContext.capabilities.add).toContain('IPC_LOCK');
  expect(program.securityContext.capabilities.add).toContain('IPC_LOCK');
});

test('the image is built from files of the package, and starts the daemon', () => {
  const lines = read('Containerfile').replaceAll('\\\n', ' ').split('\n');
  const [entry] = lines.filter((line) => line.startsWith('ENTRYPOINT '));
  const [command] = lines.filter((line) => line.startsWith('CMD '));
  const words = [...JSON.parse(entry.slice(11)), ...JSON.parse(command.slice(4))];
  expect(words.slice(0, 2)).toEqual(['isoverbs', 'daemon']);
  expect(lines.filter((line) => line.startsWith('FROM '))).toHaveLength(2);
});

const promReason =
  spawnSync('promtool', ['--version']).status === 0 && spawnSync('prometheus', ['--version']).status === 0
    ? reason
    : 'prometheus is missing; run: apt-get install prometheus';
if (promReason !== '') console.warn(`skipped: ${promReason}`);

/** Starts a server that scrapes `target`; returns a function that asks its API. */
async function prometheus(target: string): Promise<(path: string) => Promise<unknown>> {
  const at = folder();
  writeFileSync(join(at, 'alerts.yaml'), read('alerts.yaml'));
  const config = read('prometheus.yaml').replaceAll('15s', '1s').replace('127.0.0.1:9464', target);
  writeFileSync(join(at, 'prometheus.yaml'), config);
  for (const check of [
    ['rules', 'alerts.yaml'],
    ['config', 'prometheus.yaml'],
  ]) {
    const { status, stdout, stderr } = spawnSync('promtool', ['check', ...check], {
      cwd: at,
      encoding: 'utf8',
    });
    expect(status, `${stdout}${stderr}`).toBe(0);
  }
  const port = await freePort();
  started('prometheus', [
    `--config.file=${join(at, 'prometheus.yaml')}`,
    `--storage.tsdb.path=${join(at, 'data')}`,
    `--web.listen-address=127.0.0.1:${port}`,
  ]);
  return async (path) => {
    const answer = await fetch(`http://127.0.0.1:${port}/api/v1/${path}`);
    const { status, data, error } = (await answer.json()) as {
      status: string;
      data: unknown;
      error?: string;
    };
    expect(error, path).toBeUndefined();
    expect(status).toBe('success');
    return data;
  };
}

test.skipIf(promReason !== '')(
  'Prometheus scrapes a daemon, and evaluates all alerts and panels',
  { timeout: 90_000, tags: ['long'] },
  async () => {
    const socket = join(folder(), 's');
    const running = await daemon(socket, ['--policy', 'token-bucket', '--metrics', '0']);
    const { host } = new URL(/"url":"(http:[^"]*)"/.exec(running.err())?.[1] ?? '');
    await tenant(socket, 'storage');
    const ask = await prometheus(host);
    const query = async (expr: string) =>
      ((await ask(`query?query=${encodeURIComponent(expr)}`)) as { result: { value: [number, string] }[] })
        .result;
    const sent = async () =>
      Number(
        (await query('rate(isoverbs_tenant_sent_bytes_total{tenant="storage"}[10s])').catch(() => []))[0]
          ?.value[1],
      );
    await expect.poll(sent, { timeout: 40_000, interval: 500 }).toBeGreaterThan(0);
    for (const expr of expressions) await query(expr);
    expect((await query(expressions[0]))[0].value[1]).toBe('1');

    type Group = { rules: { name: string; health: string; lastError?: string; state: string }[] };
    const states = async () =>
      ((await ask('rules')) as { groups: Group[] }).groups.flatMap((group) => group.rules);
    await expect
      .poll(async () => (await states()).every(({ health }) => health === 'ok'), {
        timeout: 20_000,
        interval: 500,
      })
      .toBe(true);
    expect((await states()).map(({ name }) => name)).toEqual(rules.map(({ alert }) => alert));
    // Without the daemon, the first alert becomes due.
    running.child.kill('SIGTERM');
    const down = async () => (await states()).find(({ name }) => name === 'IsoverbsDaemonDown')?.state;
    await expect.poll(down, { timeout: 20_000, interval: 500 }).toBe('pending');
  },
);
