/** The file of `isoverbs drum solve`: an allocation problem of DRUM, as YAML or JSON (docs/policies/drum.md). */
import { z } from 'zod';
import { firstLine, issueText } from '../../daemon/config-issue.ts';
import { type DrumProblem, MOST_DESTINATIONS, type Traffic } from '../../policies/drum/solver/problem.ts';
import type { SolveOptions } from '../../policies/drum/solver/solve.ts';
import { refuseProto } from '../../policies/parse-options.ts';
import { parseYaml } from '../../providers/yaml.ts';
import { ConfigError } from '../../verbs/errors.ts';

const name = z.string().min(1).max(128);
const above0 = z.number().positive({ error: 'must be above 0' });
const rate = z.number().positive({ error: 'must be above 0; leave out a host that serves nothing' });

const application = z.strictObject({
  name,
  weight: above0.default(1),
  completions: above0.default(1),
  /** Completions per request on other hosts, by host. */
  to: z.preprocess(refuseProto, z.record(name, above0)).optional(),
  guaranteed: above0.optional(),
  preemptible: z.number().min(0).optional(),
});

const host = z.strictObject({
  name: name.optional(),
  requestRate: rate,
  completionRate: rate,
  applications: z.array(application).min(1, { error: 'must have at least one application' }),
});

const schema = z.strictObject({
  alpha: z.number().default(1),
  beta: z.number().default(0),
  capacity: z.enum(['linear', 'logsum', 'logdomain']).default('linear'),
  tolerance: z.number().positive().max(1).default(1e-9),
  mostIterations: z.number().int().positive().max(1e6).default(2000),
  mostDestinations: z.number().int().positive().default(MOST_DESTINATIONS),
  hosts: z.array(host).min(1, { error: 'must have at least one host' }),
});

type Host = z.infer<typeof host>;
type Application = z.infer<typeof application>;

/** A variable of the problem, by the names in the file. */
export interface Place {
  readonly host: string;
  readonly application: string;
  readonly weight: number;
}

/** What a file contains. */
export interface ProblemFile {
  readonly problem: DrumProblem;
  readonly options: SolveOptions;
  /** By variable. */
  readonly places: readonly Place[];
}

/** @throws ConfigError naming the file and the key */
export function parseProblem(text: string, file: string): ProblemFile {
  let value: unknown;
  try {
    value = parseYaml(text);
  } catch (error) {
    throw new ConfigError(`${file}: ${firstLine(error)}`);
  }
  const checked = schema.safeParse(value);
  if (!checked.success) {
    const problems = checked.error.issues.map((issue) =>
      [issue.path.join('.'), issueText(issue, value, schema)].filter(Boolean).join(': '),
    );
    throw new ConfigError(`${file}: ${problems.join('; ')}`);
  }
  const { alpha, beta, capacity, hosts, ...options } = checked.data;
  const names = hosts.map((one, i) => one.name ?? `host${i}`);
  requireDistinct(names, 'hosts', file);
  const numbers = new Map<string, number>();
  for (const { applications } of hosts)
    for (const one of applications) if (!numbers.has(one.name)) numbers.set(one.name, numbers.size);
  const sorted = hosts.map((one, i) => ordered(one, i, numbers, file));
  const all = sorted.flat();
  return {
    problem: {
      ...{ hosts: hosts.length, start: startsOf(sorted), alpha, beta, capacity },
      app: Int32Array.from(all, (one) => numbers.get(one.name)!),
      weights: Float64Array.from(all, ({ weight }) => weight),
      completions: Float64Array.from(all, ({ completions }) => completions),
      requestRate: Float64Array.from(hosts, ({ requestRate }) => requestRate),
      completionRate: Float64Array.from(hosts, ({ completionRate }) => completionRate),
      ...trafficOf(all, names, file),
      ...preemptionOf(all),
    },
    options,
    places: sorted.flatMap((some, i) =>
      some.map(({ name: application, weight }) => ({ host: names[i], application, weight })),
    ),
  };
}

/** The position of each list in all of them together, and their total length. */
function startsOf(lists: readonly (readonly unknown[])[]): Int32Array {
  const starts = new Int32Array(lists.length + 1);
  for (const [i, list] of lists.entries()) starts[i + 1] = starts[i] + list.length;
  return starts;
}

/** The applications of a host by their numbers, which are the same on all hosts. */
function ordered(
  { applications }: Host,
  index: number,
  numbers: ReadonlyMap<string, number>,
  file: string,
): Application[] {
  requireDistinct(
    applications.map((one) => one.name),
    `hosts.${index}.applications`,
    file,
  );
  return applications.toSorted((a, b) => numbers.get(a.name)! - numbers.get(b.name)!);
}

function requireDistinct(names: readonly string[], key: string, file: string): void {
  const twice = names.find((one, i) => names.indexOf(one) !== i);
  if (twice !== undefined) throw new ConfigError(`${file}: ${key}: the name '${twice}' occurs twice`);
}

/** Where requests cause completions, if any do so on another host. @throws ConfigError for an unknown host */
function trafficOf(
  all: readonly Application[],
  names: readonly string[],
  file: string,
): { traffic?: Traffic } {
  if (all.every(({ to }) => to === undefined)) return {};
  const entries = all.map(({ name: application, to = {} }) =>
    Object.entries(to).map(([other, perRequest]) => {
      const at = names.indexOf(other);
      if (at >= 0) return { at, perRequest };
      throw new ConfigError(
        `${file}: application '${application}' sends to '${other}', which is not one of the hosts: ${names.join(', ')}`,
      );
    }),
  );
  const flat = entries.flat();
  return {
    traffic: {
      start: startsOf(entries),
      host: Int32Array.from(flat, ({ at }) => at),
      perRequest: Float64Array.from(flat, ({ perRequest }) => perRequest),
    },
  };
}

function preemptionOf(all: readonly Application[]): Pick<DrumProblem, 'preemption'> {
  if (all.every(({ guaranteed, preemptible }) => guaranteed === undefined && preemptible === undefined))
    return {};
  return {
    preemption: {
      guaranteed: Float64Array.from(all, ({ guaranteed = 1 }) => guaranteed),
      preemptible: Float64Array.from(all, ({ preemptible = 0 }) => preemptible),
    },
  };
}
