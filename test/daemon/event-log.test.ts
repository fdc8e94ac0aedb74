// One event log, recorded while tenants send in the simulator, produces the same grants wherever it is replayed: in the
// coordinators of one process, in the daemon's coordinators, and in a daemon in a separate process. Requires a build.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import * as M from '../../src/coordinator/member-table.ts';
import { setRemoteCoordinators } from '../../src/coordinator/registry.ts';
import { type Answer, type Connection, connect } from '../../src/daemon/client/connection.ts';
import { parseApp } from '../../src/mix/parse.ts';
import { runMix } from '../../src/mix/run.ts';
import { DEFAULTS, type MixSpec } from '../../src/mix/spec.ts';
import { NO_ROTATION } from '../../src/policies/perf/columns.ts';
import { allGrants, grantAt, pageOf, report } from '../support/columns.ts';
import { MAIN } from '../support/main.ts';
import { type Event, InHost, InProcess, type LogRules, type Player, Recorder } from './event-log.ts';
import { reason } from './rig.ts';

const MASTER = { qNumAllow: 1, qNumCapa: 9, selective: false };
const LINK_GBPS = 100;
const WEIGHTS = { b: 3, m: 2 };
const SHORT = { ...DEFAULTS, durationNs: 2e6, warmupNs: 0.2e6, payload: false };
/** Only one large tenant, so that no tenants rotate; only coordinators of a single process rotate tenants. */
const APPS = [
  'B:name=b,qps=2,tenant=b',
  'M:name=m,qps=3,tenant=m,start=300us',
  'D:name=d,tenant=d,start=600us,stop=1200us',
  'D:name=e,tenant=m,start=900us',
];

/** The reports of a run's members. Afterwards a weight is set, and the members leave one after another. */
async function record(policy: string, options: MixSpec['policyOptions']): Promise<Event[]> {
  const recorder = new Recorder();
  setRemoteCoordinators(recorder.make);
  try {
    await runMix({ ...SHORT, policy, policyOptions: options, apps: APPS.map(parseApp) });
  } finally {
    setRemoteCoordinators(null);
  }
  const events: Event[] = recorder.text.split('\n').map((line) => JSON.parse(line));
  const { nowNs } = events.at(-1) as Event;
  const joins = events.filter((event) => event.type === 'join');
  const { device } = joins[0];
  const half = Math.floor(joins.length / 2);
  return [
    ...events,
    { nowNs, device, type: 'set', tenant: 'd', weight: 5 },
    ...joins.slice(half).map(({ member, device }) => ({ nowNs, device, type: 'leave' as const, member })),
  ];
}

const LOGS: [policy: string, options: MixSpec['policyOptions'], own: number[]][] = [
  // The columns that the policy's own run decides.
  [
    'perf',
    {},
    ['split', 'qNumAllow', 'busyLargeQps', 'smallGbps', 'reason', 'slotState', 'queueTenants'].map(grantAt),
  ],
  ['token-bucket', { linkGbps: LINK_GBPS, weights: WEIGHTS }, ['rateGbps'].map(grantAt)],
];
const RULES: LogRules = { master: MASTER, linkGbps: LINK_GBPS, weights: WEIGHTS };

const PATIENCE_MS = 15_000;
const AGAIN_MS = 20;
/** As much as the link carries in a second, far longer than the replay of an event takes. */
const EVENT_BYTES = (LINK_GBPS / 8) * 1e9;

/** A daemon in a separate process; each tenant is a connection. */
class InDaemon implements Player {
  private readonly socket: string;
  private readonly connections = new Map<string, Connection>();
  private readonly answers: Answer[] = [];
  private readonly seats = new Map<number, { connection: Connection; device: string }>();

  constructor(socket: string) {
    this.socket = socket;
  }

  async connection(tenant: string, role: 'shim' | 'tool' = 'shim'): Promise<Connection> {
    const known = this.connections.get(tenant);
    if (known !== undefined) return known;
    const made = await new Promise<Connection>((answered, ended) => {
      const on = {
        connected: answered,
        // A weight is also a label, whose change every client of the tenant receives.
        received: (answer: Answer) => answer.type !== 'labels' && this.answers.push(answer),
        signalled() {},
        ended,
      };
      connect(this.socket, { role, tenant }, on, true);
    });
    this.connections.set(tenant, made);
    return made;
  }

  private async answer(type: Answer['type']): Promise<void> {
    const found = () => this.answers.some((answer) => answer.type === type);
    for (let waitedMs = 0; !found() && waitedMs < PATIENCE_MS; waitedMs++) await delay(1);
    expect(this.answers.splice(0).map((answer) => answer.type)).toEqual([type]);
  }

  async play(event: Event): Promise<void> {
    // The daemon believes reports only of members that send.
    for (const member of this.seats.keys()) this.row(member).counters[M.SENT_BYTES] += EVENT_BYTES;
    if (event.type === 'join') {
      const connection = await this.connection(event.tenant);
      connection.send({ type: 'join', slot: event.member, device: event.device, tenant: '' });
      await this.answer('joined');
      this.seats.set(event.member, { connection, device: event.device });
    }
    if (event.type === 'leave') {
      this.seats.get(event.member)!.connection.send({ type: 'leave', slot: event.member });
      this.seats.delete(event.member);
    }
    if (event.type === 'set') {
      const tool = await this.connection('', 'tool');
      tool.send({ type: 'set', tenant: event.tenant, weight: event.weight });
      await this.answer('done');
    }
    if (event.type !== 'pass') return;
    for (const [member, column, value] of event.reports)
      report(pageOf(this.row(member)), { [column]: value });
    this.ring(event.device);
  }

  /** The daemon has its own clock, so a slow replay must report repeatedly that all members are alive. */
  async until(expected: Map<number, number[]>): Promise<void> {
    const end = performance.now() + PATIENCE_MS;
    let askedMs = performance.now();
    const isEqual = () => JSON.stringify([...this.grants()]) === JSON.stringify([...expected]);
    while (!isEqual() && performance.now() < end) {
      await delay(0);
      if (performance.now() - askedMs < AGAIN_MS) continue;
      askedMs = performance.now();
      for (const member of this.seats.keys()) this.row(member).counters[M.HEARTBEAT]++;
      for (const device of new Set([...this.seats.values()].map((seat) => seat.device))) this.ring(device);
    }
    expect(this.grants()).toEqual(expected);
  }

  private ring(device: string): void {
    // The counters of a client that does not signal are read only at the next full pass.
    for (const seat of this.seats.values()) if (seat.device === device) seat.connection.signal();
  }

  private row(member: number) {
    return this.seats.get(member)!.connection.rowAt(member)!;
  }

  grants(): Map<number, number[]> {
    return new Map([...this.seats.keys()].map((member) => [member, allGrants(pageOf(this.row(member)))]));
  }

  close(): void {
    for (const connection of this.connections.values()) connection.close();
  }
}

describe.each(LOGS)('a log of a run under %s', (policy, options, own) => {
  let log: Event[] = [];
  beforeAll(async () => {
    log = await record(policy, options);
  }, 60_000);

  test('contains events of all kinds, and grants that change', () => {
    expect(new Set(log.map(({ type }) => type))).toEqual(new Set(['join', 'pass', 'set', 'leave']));
    const passes = log.flatMap((event) => (event.type === 'pass' ? [event.grants] : []));
    expect(new Set(passes.map((grants) => JSON.stringify(grants))).size).toBeGreaterThan(3);
    // Features that exist only within one process are off: there are no tenant slots, and the run ends before a member
    // counts as silent.
    for (const [, grants] of passes.flat()) expect(grants[grantAt('slotState')]).toBe(NO_ROTATION);
  });

  test("a replay in one process produces the run's grants", () => {
    const again = new InProcess(RULES);
    let compared = 0;
    for (const event of log) {
      again.play(event);
      if (event.type !== 'pass') continue;
      for (const [member, grants] of event.grants) {
        const granted = again.grants().get(member)!;
        expect(own.map((column) => granted[column])).toEqual(own.map((column) => grants[column]));
        compared++;
      }
    }
    expect(compared).toBeGreaterThanOrEqual(log.filter(({ type }) => type === 'pass').length);
  });

  test("the daemon's coordinators grant the same after each event", () => {
    const [inside, host] = [new InProcess(RULES), new InHost(RULES)];
    for (const event of log) {
      for (const player of [inside, host]) player.play(event);
      expect(host.grants()).toEqual(inside.grants());
    }
  });

  test.skipIf(reason !== '')(
    'a daemon in a separate process grants the same after each event',
    async () => {
      const folder = mkdtempSync(join(tmpdir(), 'isoverbs-log-'));
      const [socket, config] = [join(folder, 's'), join(folder, 'daemon.yaml')];
      const devices = Object.fromEntries(['sim0', 'sim1'].map((name) => [name, { linkGbps: LINK_GBPS }]));
      const rules = Object.entries(WEIGHTS).map(([tenant, weight]) => ({
        match: { declared: tenant },
        tenant,
        weight,
      }));
      writeFileSync(config, stringify({ devices, rules }));
      const words = [MAIN, 'daemon', '--config', config, '--device', 'sim0', '--socket', socket];
      const daemon = spawn(process.execPath, words, { stdio: ['ignore', 'ignore', 'pipe'] });
      const ended = new Promise((resolve) => daemon.once('close', resolve));
      let player: InDaemon | null = null;
      try {
        await new Promise<void>((listening, failed) => {
          let said = '';
          daemon.stderr.on('data', (text) => {
            said += text;
            if (said.includes('listening')) listening();
          });
          daemon.once('exit', () => failed(new Error(said)));
        });
        player = new InDaemon(socket);
        const inside = new InProcess(RULES);
        for (const event of log) {
          inside.play(event);
          await player.play(event);
          await player.until(inside.grants());
        }
      } finally {
        player?.close();
        daemon.kill();
        await ended;
        rmSync(folder, { recursive: true });
      }
    },
    120_000,
  );
});

afterAll(() => setRemoteCoordinators(null));
