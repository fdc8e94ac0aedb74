/** Opens devices: chooses the provider, and puts the policies around it. */

import { type Driver, type DriverChoice, driverOf, policyInterceptors } from './drivers/index.ts';
import { Context, type ContextLabels } from './objects/index.ts';
import {
  composeOnce,
  namedProviders,
  PROVIDER_NAMES,
  type ProviderName,
  processInterceptors,
  reportOnce,
} from './process-interceptors.ts';
import { factsOfProcess } from './providers/facts.ts';
import { createRdmaCoreProvider, isAddonAvailable } from './providers/rdma-core/index.ts';
import { defaultSimProvider } from './providers/sim/index.ts';
import { defaultSoftProvider } from './providers/soft/index.ts';
import { setAssertions } from './shim/assertions.ts';
import type { Interceptor } from './shim/compose.ts';
import {
  ConfigError,
  type DeviceInfo,
  InvalidArgumentError,
  NoDeviceError,
  type Provider,
  requireKnown,
  requireOptions,
  shown,
  UnsupportedError,
} from './verbs/index.ts';
import { didYouMeanNearest, meantBy } from './verbs/suggestions.ts';

if (process.env.ISOVERBS_ASSERT === '1') setAssertions(true);

export type { ProviderName } from './process-interceptors.ts';

/** A policy: its name, its name and options, or an interceptor. */
export type PolicyChoice = string | { name: string; options?: Record<string, unknown> } | Interceptor;

/** Options of openDevice(). */
export interface OpenDeviceOptions {
  /** Default: ISOVERBS_TENANT, otherwise the tenant that `isoverbs/register` set, otherwise a separate tenant. */
  tenant?: string;
  /** What policies should know of the context and its queue pairs. */
  labels?: ContextLabels;
  /** Groups of queue pairs that the context creates (context.createGroup), with their weights. */
  groups?: Readonly<Record<string, number>>;
  /** Default: the provider that has the device. */
  provider?: Provider | ProviderName;
  /**
   * Policies around this context, outermost first. They replace those that `isoverbs/register` set for the process.
   * null or []: none.
   */
  policy?: PolicyChoice | readonly PolicyChoice[] | null;
  /**
   * Where the policies run: in the program's own calls ('inline') or in a worker thread ('worker'). 'worker:cpu=3,spin=1ms'
   * pins the thread to a CPU, and sets how long it polls before it sleeps. Default: ISOVERBS_DRIVER, otherwise what
   * `isoverbs/register` set, otherwise inline.
   */
  driver?: DriverChoice;
}

let realProvider: Provider | null | undefined;

/** The provider of real devices; null if the addon or the RDMA libraries are missing. */
function rdmaCore(): Provider | null {
  if (realProvider === undefined) realProvider = loadRdmaCore();
  return realProvider;
}

function loadRdmaCore(): Provider | null {
  try {
    return isAddonAvailable() ? createRdmaCoreProvider() : null;
  } catch (error) {
    if (error instanceof NoDeviceError || error instanceof UnsupportedError) return null;
    throw error;
  }
}

interface Choice {
  provider: Provider;
  devices: readonly DeviceInfo[];
}

const choiceOf = (provider: Provider): Choice => ({ provider, devices: provider.getDeviceList() });

/**
 * The providers of this process: those of ISOVERBS_PROVIDER in its order, otherwise real devices first. Under replay, only the
 * recording. User-space RoCE devices count only if they are named.
 */
function choices(name?: string): Choice[] {
  const { replay } = processInterceptors();
  if (replay !== undefined) return [replay];
  const wanted = namedProviders();
  if (wanted.length > 0) return wanted.map((one) => choiceOf(namedProvider(one)));
  if (name !== undefined && /^soft\d+$/.test(name)) return [choiceOf(defaultSoftProvider())];
  const real = rdmaCore();
  const simulated = choiceOf(defaultSimProvider());
  return real === null ? [simulated] : [choiceOf(real), simulated];
}

/** All devices: real ones first, then sim0, sim1, ... An empty list is not an error. */
export function getDeviceList(): DeviceInfo[] {
  return choices().flatMap(({ devices }) => devices);
}

/**
 * Opens a device. Default: ISOVERBS_DEVICE, otherwise what `isoverbs/register` set, otherwise the first device of the
 * providers that ISOVERBS_PROVIDER names, otherwise the first real device, otherwise sim0.
 * @throws NoDeviceError that names the available devices
 * @throws ConfigError for an unknown policy or option
 */
export function openDevice(name?: string, options: OpenDeviceOptions = {}): Context {
  checkArguments(name, options);
  const state = processInterceptors();
  const tenant = options.tenant ?? (process.env.ISOVERBS_TENANT || state.tenant);
  const chosen = chooseDevice(name ?? defaultDeviceName(), options.provider);
  const provider = underPolicies(chosen.provider, options.policy, options.driver);
  const { labels, groups } = options;
  const context = new Context(provider, chosen.name, { tenant, labels, groups });
  if (provider.wait === 'emulated') reportOnce(`WAIT and ENABLE are emulated on ${chosen.name}`);
  state.opened.push(chosen.name);
  state.providers.add(provider);
  return context;
}

function checkArguments(name: unknown, options: object): void {
  if (name !== undefined && typeof name !== 'string') {
    throw new InvalidArgumentError(
      `openDevice: the name must be a string, got ${typeof name} ${String(name)}`,
    );
  }
  const known = ['tenant', 'labels', 'groups', 'provider', 'policy', 'driver'];
  requireKnown('openDevice', options, known);
}

/** The provider that openDevice() without arguments would use, with the policies of the process. */
export function defaultProvider(): Provider {
  return underPolicies(chooseDevice(defaultDeviceName(), undefined).provider, undefined);
}

/**
 * Puts policies around a provider, by default those of the process. The process's interceptors and facts stay.
 * @throws ConfigError
 */
export function underPolicies(
  provider: Provider,
  policy: OpenDeviceOptions['policy'],
  wanted?: DriverChoice,
): Provider {
  const { outside, inside, facts } = processInterceptors();
  const policies = policiesOf(policy, wanted);
  return composeOnce(provider, [...outside, ...policies, ...inside, ...factsOfProcess(facts)]);
}

function policiesOf(
  policy: OpenDeviceOptions['policy'],
  wanted: DriverChoice | undefined,
): readonly Interceptor[] {
  const { interceptors, policies = [], driver: registered } = processInterceptors();
  const byDefault = registered ?? driverOf(process.env.ISOVERBS_DRIVER || 'inline', 'ISOVERBS_DRIVER');
  const driver = wanted === undefined ? byDefault : driverOf(wanted, 'openDevice: driver');
  if (policy !== undefined) return interceptorsOf(policy, driver);
  return driver === byDefault ? interceptors : drivenOnce(driver, policies);
}

/** The provider that openDevice() would use, without policies. @throws NoDeviceError */
export function providerFor(wanted?: Provider | ProviderName): Provider {
  return wanted === undefined ? chooseDevice(defaultDeviceName(), undefined).provider : namedProvider(wanted);
}

function defaultDeviceName(): string | undefined {
  return process.env.ISOVERBS_DEVICE || processInterceptors().device;
}

function chooseDevice(name: string | undefined, wanted: OpenDeviceOptions['provider']) {
  const { replay } = processInterceptors();
  const isReplay = replay !== undefined && (typeof wanted !== 'object' || wanted === replay.provider);
  const among = wanted === undefined || isReplay ? choices(name) : [choiceOf(namedProvider(wanted))];
  const seen: string[] = [];
  for (const { provider, devices } of among) {
    for (const device of devices) {
      if (name === undefined || device.name === name) return { provider, name: device.name };
      seen.push(device.name);
    }
  }
  const from = name !== undefined && name === process.env.ISOVERBS_DEVICE ? ' (from ISOVERBS_DEVICE)' : '';
  const which = name === undefined ? 'no device' : `no device '${name}'${from}`;
  const available =
    seen.length === 0
      ? 'there is no RDMA device here, but the providers soft and sim require none'
      : `available: ${seen.join(', ')}`;
  const meant = name === undefined ? '' : didYouMeanDevice(name, [...seen, 'soft0']);
  throw new NoDeviceError(`${which}; ${meant}${available}. \`isoverbs devices\` shows what is missing`, {
    verb: 'openDevice',
  });
}

/** Asks for devices that may have been meant. A name that differs in its number alone is not misspelt. */
function didYouMeanDevice(name: string, known: readonly string[]): string {
  const kindOf = (device: string) => device.replace(/\d+$/, '');
  return didYouMeanNearest(
    name,
    [...new Set(known)].filter((one) => kindOf(one) !== kindOf(name)),
  );
}

function namedProvider(wanted: Provider | ProviderName): Provider {
  if (typeof wanted === 'object') return wanted;
  const { replay } = processInterceptors();
  if (replay !== undefined) return replay.provider;
  if (wanted === 'sim') return defaultSimProvider();
  if (wanted === 'soft') return defaultSoftProvider();
  if (wanted !== 'rdma-core') {
    const meant = meantBy(String(wanted), PROVIDER_NAMES);
    throw new InvalidArgumentError(
      `provider must be 'rdma-core', 'sim', 'soft' or a Provider, got '${wanted}'${meant}`,
    );
  }
  const real = rdmaCore();
  if (real !== null) return real;
  throw new NoDeviceError('the rdma-core provider is unavailable; `isoverbs devices` shows what is missing');
}

const named = new Map<string, Interceptor[]>();

function interceptorsOf(
  policy: NonNullable<OpenDeviceOptions['policy']> | null,
  driver: Driver,
): Interceptor[] {
  if (policy === null) return [];
  const list: readonly PolicyChoice[] = Array.isArray(policy) ? policy : [policy];
  const specs = list.map(specOf);
  if (driver === 'inline')
    return specs.flatMap((spec) => ('wrap' in spec ? spec : drivenOnce(driver, [spec])));
  const object = specs.find((spec) => 'wrap' in spec);
  if (object !== undefined) {
    throw new ConfigError(
      `policy '${object.name}' is an object, which cannot run in a worker thread; give its name or module, or use the driver 'inline'`,
    );
  }
  return drivenOnce(driver, specs as { name: string; options: Record<string, unknown> }[]);
}

/** @throws InvalidArgumentError for a choice of a wrong type */
function specOf(choice: PolicyChoice): Interceptor | { name: string; options: Record<string, unknown> } {
  if (typeof choice === 'string') return { name: choice, options: {} };
  if (typeof choice !== 'object' || choice === null) throw notAPolicy(shown(choice));
  if ('wrap' in choice && typeof choice.wrap === 'function') return choice;
  requireKnown('policy', choice, ['name', 'options']);
  const { name, options = {} } = choice as Exclude<PolicyChoice, string | Interceptor>;
  if (typeof name !== 'string') throw notAPolicy(`an object whose name is ${shown(name)}`);
  requireOptions(name, options);
  return { name, options };
}

function notAPolicy(got: string): InvalidArgumentError {
  return new InvalidArgumentError(
    `policy: must be a name such as 'fair', { name: 'fair', options: {} }, an interceptor, a list of these, or null, got ${got}`,
  );
}

/** Contexts that name the same policies with the same options share them, so that each policy sees all their tenants. */
function drivenOnce(
  driver: Driver,
  policies: readonly { name: string; options: Record<string, unknown> }[],
): Interceptor[] {
  const key = keyOf(driver, policies);
  const interceptors = named.get(key) ?? policyInterceptors(driver, policies);
  named.set(key, interceptors);
  return interceptors;
}

/** @throws ConfigError for options that text cannot represent, such as a BigInt */
function keyOf(driver: Driver, policies: readonly { name: string }[]): string {
  try {
    return JSON.stringify([driver, policies]);
  } catch (cause) {
    const names = policies.map(({ name }) => name).join(', ');
    const [why] = (cause as Error).message.split('\n', 1);
    throw new ConfigError(
      `policy ${names}: the options must be numbers, strings, booleans, and lists and objects of these: ${why}`,
      { cause },
    );
  }
}
