/** The script of a mix: what happens during the run. `5ms:close B`, `5ms:set B rate=10Gbps`, `5ms:stall 0 100us`. */
import { ConfigError } from '../../verbs/errors.ts';
import { durationText, GBPS, NANOSECONDS, parseQuantity, parseWhole } from '../../verbs/units.ts';
import { parseGroupWeight, parseLabel } from '../parse.ts';
import { type App, type DeviceLimits, hostsOf, isNamed, requireRate, requireTimes } from '../resolve.ts';
import type { MixSpec, ScriptAction, ScriptStep, SwitchAction } from '../spec.ts';

type ActionParser = (where: string, words: readonly string[]) => ScriptAction;

/** The actions, each with its form and the parser of what follows its name. Words in brackets may be left out. */
const ACTIONS: Readonly<Record<string, readonly [form: string, parse: ActionParser]>> = {
  set: ['set APP KEY=VALUE', parseSetting],
  close: ['close APP', (_where, [app]) => ({ kind: 'close', app })],
  kill: ['kill TENANT', (_where, [tenant]) => ({ kind: 'kill', tenant })],
  stall: [
    'stall HOST TIME',
    (where, [host, time]) => ({
      kind: 'stall',
      host: parseWhole(`${where}: host`, host),
      stallNs: parseQuantity(`${where}: time`, time, NANOSECONDS),
    }),
  ],
  coordinator: ['coordinator [HOST] down|up', parseSwitch('coordinator')],
  agent: ['agent [HOST] down|up', parseSwitch('agent')],
};

function parseSetting(where: string, [app, setting]: readonly string[]): ScriptAction {
  const [key, value = ''] = setting.split('=');
  if (key === 'groupWeight') return { kind: 'set', app, groupWeight: parseGroupWeight(where, value) };
  if (key !== 'rate') return { kind: 'set', app, labels: parseLabel(where, key, value) };
  return { kind: 'set', app, rateGbps: parseQuantity(`${where}: rate`, value, GBPS) };
}

function parseSwitch(kind: SwitchAction['kind']): ActionParser {
  return (where, words) => {
    const state = words[words.length - 1];
    if (state !== 'down' && state !== 'up') {
      throw new ConfigError(`${where}: '${state}' is not one of down, up`);
    }
    const isUp = state === 'up';
    if (words.length === 1) return { kind, isUp };
    return { kind, host: parseWhole(`${where}: host`, words[0]), isUp };
  };
}

/** Parses the argument of `--at`: TIME:ACTION. @throws ConfigError */
export function parseStep(text: string): ScriptStep {
  const where = `at '${text}'`;
  const colon = text.indexOf(':');
  if (colon < 0) throw new ConfigError(`${where} is not of the form TIME:ACTION, such as '5ms:close B'`);
  const atNs = parseQuantity(where, text.slice(0, colon), NANOSECONDS);
  const [name, ...words] = text.slice(colon + 1).split(/ +/);
  const action = Object.hasOwn(ACTIONS, name) ? ACTIONS[name] : undefined;
  if (action === undefined) {
    throw new ConfigError(
      `${where}: unknown action '${name}'; use one of ${Object.keys(ACTIONS).join(', ')}`,
    );
  }
  const [form, parse] = action;
  const most = form.split(' ').length - 1;
  const least = most - form.split('[').length + 1;
  if (words.length < least || words.length > most || words.includes('')) {
    throw new ConfigError(`${where} is not of the form TIME:${form}`);
  }
  return { atNs, action: parse(where, words) };
}

/** One step with the applications it concerns, by index. */
export interface ResolvedStep extends ScriptStep {
  readonly apps: readonly number[];
}

/** A checked script, and the applications, which stop posting when the script closes or kills them. */
export interface Script {
  readonly steps: readonly ResolvedStep[];
  readonly apps: readonly App[];
}

/** Checks a mix's script, in the order of time. Steps of one time keep their order. @throws ConfigError */
export function scriptOf(spec: MixSpec, apps: readonly App[], params: Readonly<DeviceLimits>): Script {
  const ends = new Ends(apps);
  const inOrder = (spec.script ?? []).toSorted((a, b) => a.atNs - b.atNs);
  const steps = inOrder.map((step) => ({ ...step, apps: resolve(step, spec, ends, params) }));
  requireSwitches(inOrder, spec.hosts);
  const stopping = apps.map((app, i) => {
    const stopNs = Math.min(app.stopNs, ends.atNs[i]);
    if (stopNs === app.stopNs) return app;
    requireTimes(`app ${app.name}`, app.startNs, stopNs, spec);
    return { ...app, stopNs };
  });
  return { steps, apps: stopping };
}

/** The hosts whose coordinators or agents an action takes down or brings up. */
export function switchedHosts({ kind, host }: SwitchAction, hosts: number): number[] {
  return hostsOf(kind, host ?? [0, hosts - 1], hosts);
}

/** @throws ConfigError for a coordinator or an agent that is already in the state into which a step puts it */
function requireSwitches(steps: readonly ScriptStep[], hosts: number): void {
  const down = { coordinator: new Set<number>(), agent: new Set<number>() };
  for (const { atNs, action } of steps) {
    if (action.kind !== 'coordinator' && action.kind !== 'agent') continue;
    const { kind, host, isUp } = action;
    const changing = switchedHosts(action, hosts).filter((one) => down[kind].has(one) === isUp);
    if (changing.length === 0) {
      const which = host === undefined ? `every ${kind}` : `the ${kind} of host ${host}`;
      throw new ConfigError(
        `script: ${kind} at ${durationText(atNs)}: ${which} is ${isUp ? 'up' : 'down'} already`,
      );
    }
    for (const one of changing) {
      if (isUp) down[kind].delete(one);
      else down[kind].add(one);
    }
  }
}

/** When the script ended each application; infinity: not yet. */
class Ends {
  readonly apps: readonly App[];
  readonly atNs: number[];
  private readonly how: string[] = [];
  /** The groups that applications are in; '': none. */
  private readonly groups: string[];

  constructor(apps: readonly App[]) {
    this.apps = apps;
    this.groups = apps.map(({ qpLabels }) => qpLabels.group ?? '');
    this.atNs = apps.map(() => Number.POSITIVE_INFINITY);
  }

  end(indexes: readonly number[], atNs: number, how: string): void {
    for (const i of indexes) {
      this.atNs[i] = atNs;
      this.how[i] = how;
    }
  }

  /** An application and all its copies. They must exist, have started, and not have ended. */
  named(where: string, name: string, atNs: number): number[] {
    const { apps, how } = this;
    const found = apps.flatMap((app, i) => (isNamed(app, name) ? [i] : []));
    if (found.length === 0) {
      throw new ConfigError(
        `${where}: unknown app '${name}'; there is ${namesOf(apps.map((app) => app.name))}`,
      );
    }
    for (const i of found) {
      if (how[i] !== undefined) {
        throw new ConfigError(
          `${where}: app ${apps[i].name} was ${how[i]} at ${durationText(this.atNs[i])} already`,
        );
      }
      this.requireStarted(where, i, atNs);
    }
    return found;
  }

  /** Applications change their group, or its weight, for which they must have one. */
  setGroup(where: string, apps: readonly number[], { group, weight }: { group?: string; weight?: number }) {
    for (const i of apps) {
      if (group !== undefined) this.groups[i] = group;
      if (weight === undefined || this.groups[i] !== '') continue;
      const { name } = this.apps[i];
      throw new ConfigError(`${where}: app ${name} is in no group: give it one with group=NAME`);
    }
  }

  /** The applications of a tenant that have not ended. */
  ofTenant(where: string, tenant: string, atNs: number): number[] {
    const { apps, how } = this;
    const all = apps.flatMap((app, i) => (app.tenant === tenant ? [i] : []));
    if (all.length === 0) {
      const names = namesOf(apps.map((app) => app.tenant));
      throw new ConfigError(`${where}: unknown tenant '${tenant}'; there is ${names}`);
    }
    const left = all.filter((i) => how[i] === undefined);
    if (left.length === 0) {
      throw new ConfigError(
        `${where}: all apps of tenant ${tenant} have ended; the last was ${how[all.at(-1)!]}`,
      );
    }
    for (const i of left) this.requireStarted(where, i, atNs);
    return left;
  }

  private requireStarted(where: string, app: number, atNs: number): void {
    const { name, startNs } = this.apps[app];
    if (atNs > startNs) return;
    throw new ConfigError(
      `${where}: app ${name} starts at ${durationText(startNs)}, so the step comes too early`,
    );
  }
}

/** The first few names, each once. */
function namesOf(all: readonly string[]): string {
  const names = [...new Set(all)];
  return names.length > 8 ? `${names.slice(0, 8).join(', ')} ...` : names.join(', ');
}

function resolve(
  { atNs, action }: ScriptStep,
  { durationNs, hosts }: MixSpec,
  ends: Ends,
  params: Readonly<DeviceLimits>,
): number[] {
  const where = `script: ${action.kind} at ${durationText(atNs)}`;
  if (!(atNs >= 0 && atNs < durationNs)) {
    throw new ConfigError(`${where}: the time is not within the run, from 0 to ${durationText(durationNs)}`);
  }
  switch (action.kind) {
    case 'set': {
      if ('rateGbps' in action) requireRate(where, action.rateGbps, params);
      const apps = ends.named(where, action.app, atNs);
      if ('labels' in action) ends.setGroup(where, apps, { group: action.labels.group });
      if ('groupWeight' in action) ends.setGroup(where, apps, { weight: action.groupWeight });
      return apps;
    }
    case 'close': {
      const apps = ends.named(where, action.app, atNs);
      ends.end(apps, atNs, 'closed');
      return apps;
    }
    case 'kill': {
      const apps = ends.ofTenant(where, action.tenant, atNs);
      ends.end(apps, atNs, 'killed');
      return apps;
    }
    case 'coordinator':
    case 'agent':
      if (action.host !== undefined) hostsOf(where, action.host, hosts);
      return [];
    case 'stall':
      hostsOf(where, action.host, hosts);
      if (action.stallNs > 0 && Number.isFinite(action.stallNs)) return [];
      throw new ConfigError(`${where}: the host must stall for more than 0 ns, got ${action.stallNs}`);
  }
}
