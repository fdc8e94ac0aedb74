/**
 * Completes values such as `<policy>` and `<profile>`: the first word between the brackets of an option or argument
 * names the kind of value. The modules that define the values are loaded on demand.
 */
import { InvalidArgumentError } from 'commander';
import type { ZodType } from 'zod';

/** A value and its description. */
export type Candidate = readonly [value: string, text: string];

/** Paths, which the shell completes itself. */
export type Path = 'files' | 'folders';

type Source = (typed: string) => Promise<readonly Candidate[] | Path>;

/** Values of --provider: the built-in providers. */
export const PROVIDERS = ['rdma-core', 'sim', 'soft'] as const;

/** Sources of values, by the word between the brackets. */
export const SOURCES: Readonly<Record<string, Source>> = {
  file: async () => 'files',
  path: async () => 'files',
  command: async () => 'files',
  folder: async () => 'folders',
  policy: policyNamed,
  profile: async () => plain(Object.keys((await import('../sim/profile/profiles.ts')).PROFILES)),
  parameter,
  scheduler: async () => plain((await import('../sim/profile/params.ts')).WORDS.scheduler),
  topology: async () => plain((await import('../sim/network/topology.ts')).TOPOLOGIES),
  trick: tricks,
  attacker: attackers,
  victim: async () => plain(namesOf((await import('../compare/isolation/suite.ts')).VICTIM_TESTS)),
  system: async () => plain((await import('../papers/engine/papers.ts')).SYSTEMS),
  claim: claims,
  paper: papers,
  figure: figures,
  test: async () => plain((await import('../perftest/settings.ts')).TESTS.map(({ name }) => name)),
  driver: async () => plain((await import('../drivers/index.ts')).DRIVERS),
  provider: async () => plain(PROVIDERS),
  device: devices,
  app: application,
};

const plain = (values: readonly string[]): Candidate[] => values.map((value) => [value, '']);

async function devices(): Promise<Candidate[]> {
  const { getDeviceList } = await import('../open.ts');
  return getDeviceList().map(({ name, provider }) => [name, provider]);
}

async function tricks(): Promise<Candidate[]> {
  const [{ tricksOf }, { PROFILES }] = await Promise.all([
    import('../compare/tricks.ts'),
    import('../sim/profile/profiles.ts'),
  ]);
  const { ideal } = PROFILES;
  return plain(tricksOf(ideal).map(({ name }) => name));
}

async function attackers(): Promise<Candidate[]> {
  const { ATTACKERS, CLASSES } = await import('../compare/isolation/suite.ts');
  return plain([...CLASSES, ...namesOf(ATTACKERS)]);
}

/** The names of tests, and those of their forms. */
function namesOf(tests: readonly { readonly name: string }[]): string[] {
  const names = tests.map(({ name }) => name);
  return [...new Set(names.map((name) => name.slice(0, name.indexOf('/')))), ...names];
}

async function claims(): Promise<Candidate[]> {
  const [{ claimsAbout }, { SYSTEMS }] = await Promise.all([
    import('../papers/engine/papers.ts'),
    import('../papers/engine/papers.ts'),
  ]);
  const all = SYSTEMS.flatMap(claimsAbout);
  return [...new Map(all.map(({ id, title }) => [id, title]))];
}

async function papers(): Promise<Candidate[]> {
  const { PAPERS } = await import('../papers/engine/papers.ts');
  return PAPERS.map(({ key, cited }) => [key, cited.title]);
}

async function figures(): Promise<Candidate[]> {
  const { allFigures } = await import('../papers/engine/figures.ts');
  return [...allFigures().map(({ name, title }): Candidate => [name, title]), ['all', '']];
}

/** The part before the first colon, and the pairs after it. */
function split(typed: string): [head: string, pairs: string | null] {
  const colon = typed.indexOf(':');
  return colon < 0 ? [typed, null] : [typed.slice(0, colon), typed.slice(colon + 1)];
}

async function policyNamed(typed: string): Promise<readonly Candidate[] | Path> {
  if (/^[./]/.test(typed)) return 'files';
  const { policies } = await import('../policies/index.ts');
  const [name, pairs] = split(typed);
  if (pairs === null) {
    const summaries = Object.entries(policies).map(([key, { summary }]): Candidate => [key, summary]);
    return [...summaries, ['none', 'no policy']];
  }
  if (!Object.hasOwn(policies, name)) return [];
  return pairsOf(`${name}:`, pairs, await knobs(policies[name].options));
}

/** The values of each knob; [] for one that takes any number. */
async function knobs(options: ZodType): Promise<Record<string, readonly string[]>> {
  const { knobsOf } = await import('./knobs.ts');
  return Object.fromEntries(knobsOf(options).map(({ name, values }) => [name, values]));
}

async function application(typed: string): Promise<readonly Candidate[]> {
  const { APP_KEYS, KINDS } = await import('../mix/parse.ts');
  const [kind, pairs] = split(typed);
  if (pairs === null) return plain(KINDS);
  return pairsOf(`${kind}:`, pairs, Object.fromEntries(APP_KEYS.map((key) => [key, []])));
}

async function parameter(typed: string): Promise<readonly Candidate[]> {
  const [{ MINIMAL_NIC }, { WORDS }] = await Promise.all([
    import('../sim/profile/profiles.ts'),
    import('../sim/profile/params.ts'),
  ]);
  return pairsOf(
    '',
    typed,
    Object.fromEntries(Object.keys(MINIMAL_NIC).map((key) => [key, WORDS[key] ?? []])),
  );
}

/** Completes `key=value,key=value` with the keys not typed yet, or with the values of the last key. */
function pairsOf(
  head: string,
  typed: string,
  values: Readonly<Record<string, readonly string[]>>,
): Candidate[] {
  const parts = typed.split(',');
  const [key, value] = (parts.pop() ?? '').split('=');
  const before = head + parts.map((part) => `${part},`).join('');
  if (value !== undefined) return (values[key] ?? []).map((one) => [`${before}${key}=${one}`, '']);
  const there = new Set(parts.map((part) => part.split('=')[0]));
  return Object.keys(values)
    .filter((name) => !there.has(name))
    .map((name) => [`${before}${name}=`, '']);
}

/** @throws InvalidArgumentError unless the text is a number above 0 */
export function positive(text: string): number {
  const value = Number(text);
  if (!(value > 0 && Number.isFinite(value))) throw new InvalidArgumentError('It must be a number above 0.');
  return value;
}
