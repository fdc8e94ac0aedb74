/** `isoverbs policies`. */
import type { Command } from 'commander';
import type { NamedEntry, PolicyEntry } from '../../policies/index.ts';
import type { Knob } from '../knobs.ts';
import { describe } from '../manual.ts';
import { jsonText } from '../output/json.ts';
import { tableText } from '../output/table.ts';

/** Adds `policies` to the command. */
export function addPolicies(command: Command): void {
  const sub = command
    .command('policies')
    .description('list the policies and interceptors, with their requirements and options')
    .argument('[name...]', 'list only these')
    .option('--json', 'print one JSON object: { policies, interceptors }')
    .action(listPolicies);
  describe(sub, {
    about:
      'A policy stands between a program and the device. ISOVERBS_POLICY=NAME:OPTION=VALUE,OPTION=VALUE selects it; ' +
      'in place of NAME, give the path of a module to use your own policy. Interceptors observe a program or inject ' +
      'faults (ISOVERBS_INTERCEPTORS). Each is listed with its options, their defaults and their units.',
    examples: [
      ['isoverbs policies', 'all of them'],
      ['isoverbs policies perf', 'one of them'],
      ['isoverbs policies --json', 'for a program'],
    ],
    failed: 'the list cannot be written',
    seeAlso: ['docs/configuration.md', 'docs/policies.md', 'docs/interceptors.md'],
  });
}

interface Listed {
  name: string;
  summary: string;
  needs?: PolicyEntry['needs'];
  options: Record<string, Knob>;
}

async function listPolicies(names: readonly string[], { json }: { json?: boolean }): Promise<void> {
  const [{ policies }, { interceptors }, { didYouMean }, { knobsOf }, { ConfigError }] = await Promise.all([
    import('../../policies/index.ts'),
    import('../../interceptors/index.ts'),
    import('../../verbs/suggestions.ts'),
    import('../knobs.ts'),
    import('../../verbs/errors.ts'),
  ]);
  const known = [...Object.keys(policies), ...Object.keys(interceptors)];
  const unknown = names.find((name) => !known.includes(name));
  if (unknown !== undefined) {
    throw new ConfigError(
      `unknown policy or interceptor '${unknown}'; ${didYouMean(unknown, known)}available: ${known.join(', ')}`,
    );
  }
  const listed = (table: Readonly<Record<string, NamedEntry & Partial<PolicyEntry>>>): Listed[] =>
    Object.entries(table)
      .filter(([name]) => names.length === 0 || names.includes(name))
      .map(([name, { summary, needs, options }]) => ({
        name,
        summary,
        ...(needs !== undefined && { needs }),
        options: Object.fromEntries(knobsOf(options).map((knob) => [knob.name, knob])),
      }));
  const lists = { policies: listed(policies), interceptors: listed(interceptors) };
  process.stdout.write(json ? jsonText(lists) : text(lists));
}

function text(lists: { policies: Listed[]; interceptors: Listed[] }): string {
  const parts: string[] = [];
  if (lists.policies.length > 0) {
    parts.push('Policies (ISOVERBS_POLICY), or the path of a module that makes one (docs/policies.md)');
    parts.push(needs(lists.policies), ...lists.policies.map(options));
  }
  if (lists.interceptors.length > 0) {
    parts.push('Interceptors (ISOVERBS_INTERCEPTORS)');
    parts.push(
      tableText(
        lists.interceptors.map(({ name, summary }) => [name, summary]),
        { head: ['name', 'what it does'], indent: INDENT },
      ),
      ...lists.interceptors.map(options),
    );
  }
  return `${parts.filter((part) => part !== '').join('\n\n')}\n`;
}

const INDENT = '  ';

/** The requirements of each policy on the device, on a coordinator and on the other end. */
function needs(policies: readonly Listed[]): string {
  const rows = policies.map(({ name, needs, summary }) => [
    name,
    needs?.wait ?? '',
    needs?.coordinator ?? '',
    needs?.shimmedPeer ?? '',
    summary,
  ]);
  const head = ['name', 'WAIT', 'coordinator', 'shim at the peer', 'what it does'];
  return tableText(rows, { head, indent: INDENT });
}

function options({ name, options: knobs }: Listed): string {
  const rows = Object.values(knobs).map(({ name: knob, default: value, unit, values, text: meaning }) => [
    knob,
    shown(value),
    unit,
    isWords(values) ? `${meaning} (${values.join(', ')})` : meaning,
  ]);
  if (rows.length === 0) return '';
  const table = tableText(rows, { head: ['option', 'default', 'unit', 'meaning'], indent: INDENT });
  return `Options of ${name}\n\n${table}`;
}

/** Whether the table lists the values of an option. Only --json prints longer lists. */
const isWords = ({ length }: readonly string[]) => length > 2 && length < 6;

/** An empty object counts as none. */
function shown(value: unknown): string {
  return value === undefined || typeof value === 'object' ? '-' : String(value);
}
