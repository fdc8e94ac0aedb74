// Programs that connect, hand the socket over and exit: rules that ask for their cgroup or command line cannot be checked,
// so these programs get no connection.
// @module-tag wide
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { afterEach, describe, expect, test } from 'vitest';
import { requestTenants } from '../../src/daemon/client/tool-request.ts';
import { until } from '../daemon/world.ts';
import { eachShort } from '../support/variants.ts';
import { EVIL_UID, type Evil, evil, HostileWorld, isRoot, reason } from './rig.ts';

const TIMEOUT_MS = 240_000;
const LAST_PID = '/proc/sys/kernel/ns_last_pid';
/** SO_PEERPIDFD */
const [major, minor] = readFileSync('/proc/sys/kernel/osrelease', 'utf8').split('.').map(Number);
const hasPeerPidfd = major > 6 || (major === 6 && minor >= 5);
const mayChoosePid = isRoot && hasPeerPidfd;
if (!mayChoosePid)
  console.warn('skipped: that a process number is used again requires root, and Linux 6.5 or later');

const configOf = (...rules: string[]) =>
  `devices: {sim0: {linkGbps: 100}}\npolicy: token-bucket\nrules: [${rules.join(', ')}]\n`;
const ofCgroup = "{ match: { cgroup: '/*' }, tenant: limited, gbps: 9 }";
const ofCommand = `{ match: { uid: ${EVIL_UID}, command: '*python*' }, tenant: limited, gbps: 9 }`;
const ofOther = "{ match: { uid: 4321, cgroup: '/*' }, tenant: other }";
const decided = `{ match: { uid: ${EVIL_UID} }, tenant: decided }`;

const programs: Evil[] = [];
afterEach(async () => {
  for (const { child } of programs.splice(0)) child.stdin!.destroy();
});

/** A connection whose process has exited; another process has the socket. */
async function ghost(socket: string, when: 'exit' | 'stay'): Promise<Evil & { pid: number }> {
  const one = evil('handover.py', socket, when);
  programs.push(one);
  await one.exited;
  const find = () => messages(one).find((message) => 'pid' in message);
  await until('the program prints its number', () => find() !== undefined);
  const { pid } = find()!;
  return { ...one, pid: pid as number };
}

/** Starts a program with this process number. Returns false if that fails, as when another program has the number. */
function takeNumber(pid: number): boolean {
  for (let i = 0; i < 200; i++) {
    writeFileSync(LAST_PID, String(pid - 1));
    const other = evil('lock.py', '/tmp');
    programs.push(other);
    if (other.child.pid === pid) return true;
    other.child.kill('SIGKILL');
    if (existsSync(`/proc/${pid}`)) return false;
  }
  return false;
}

const messages = ({ lines }: Evil): Record<string, unknown>[] => lines().map((line) => JSON.parse(line));

/** What the daemon answers to the hello of the other process. */
async function answer(one: Evil): Promise<Record<string, unknown>> {
  const find = () => messages(one).find(({ type }) => type !== undefined);
  await until('the daemon answers', () => find() !== undefined);
  return find()!;
}

describe.skipIf(reason !== '')('a program that hands its connection over and exits', () => {
  test.each([
    ['cgroup', ofCgroup],
    ['command line', ofCommand],
  ])('is refused if a rule asks for its %s', { timeout: TIMEOUT_MS }, async (what, rule) => {
    await using world = new HostileWorld(configOf(ofOther, rule));
    await world.startDaemon();
    world.daemon!.kill('SIGSTOP');
    const one = await ghost(world.socket, 'exit');
    world.daemon!.kill('SIGCONT');
    const said = await answer(one);
    expect(said).toMatchObject({
      type: 'refused',
      reason: expect.stringContaining(`rules.1 asks for the ${what}`),
    });
    expect(world.log).toContain(
      `process ${one.pid} of user ${EVIL_UID} was refused: rules.1 asks for the ${what}`,
    );
  });

  eachShort(1, [
    ['an earlier rule has decided', [decided, ofCgroup], 'decided'],
    ['no rule asks', [ofOther], `uid${EVIL_UID}`],
  ])(
    'is welcome if %s',
    async (_what, rules, tenant) => {
      await using world = new HostileWorld(configOf(...rules));
      await world.startDaemon();
      const said = await answer(await ghost(world.socket, 'exit'));
      expect(said).toMatchObject({ type: 'welcome', tenant });
    },
    TIMEOUT_MS,
  );

  test('keeps the cgroup that it had when it connected, if rules change later', {
    timeout: TIMEOUT_MS,
  }, async () => {
    await using world = new HostileWorld(configOf());
    await world.startDaemon();
    const one = await ghost(world.socket, 'stay');
    expect(messages(one).map(({ type }) => type)).toEqual(['welcome', 'joined', undefined]);
    await world.reload(configOf(ofCgroup));
    expect((await requestTenants(world.socket)).map(({ tenant }) => tenant)).toEqual(['limited']);
  });

  test('does not keep tools from the daemon, whatever its rules ask for', {
    timeout: TIMEOUT_MS,
  }, async () => {
    await using world = new HostileWorld(configOf(ofCgroup));
    await world.startDaemon();
    const program = evil('handover.py', world.socket, 'exit', 'tool');
    programs.push(program);
    await program.exited;
    expect(await answer(program)).toMatchObject({ type: 'welcome', tenant: '' });
  });

  test('is disconnected if new rules ask for a command line that was not read before', {
    timeout: TIMEOUT_MS,
  }, async () => {
    await using world = new HostileWorld(configOf());
    await world.startDaemon();
    const one = await ghost(world.socket, 'stay');
    await world.reload(configOf(ofCommand));
    await until('the daemon disconnects it', () =>
      world.log.includes(
        `process ${one.pid} of user ${EVIL_UID} was refused: rules.0 asks for the command line`,
      ),
    );
    await until('it is gone', () => world.log.includes('disconnected'));
    expect(await requestTenants(world.socket)).toEqual([]);
  });

  test.runIf(mayChoosePid)(
    'gains nothing if its number now belongs to another process',
    { timeout: TIMEOUT_MS },
    async () => {
      await using world = new HostileWorld(configOf(ofCgroup));
      await world.startDaemon();
      world.daemon!.kill('SIGSTOP');
      let one: Evil & { pid: number };
      let tries = 0;
      do {
        expect(++tries, 'another program always took the number').toBeLessThan(10);
        one = await ghost(world.socket, 'exit');
      } while (!takeNumber(one.pid));
      world.daemon!.kill('SIGCONT');
      expect(await answer(one)).toMatchObject({ type: 'refused' });
    },
  );
});
