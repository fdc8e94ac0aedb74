import { type ZodType, z } from 'zod';
import { interceptors } from '../interceptors/index.ts';
import { type PolicyEntry, policies } from '../policies/index.ts';

interface OptionInfo {
  type?: string;
  default?: unknown;
  description?: string;
}

/** Options of a policy or interceptor as JSON Schema says them. */
function optionsOf(options: ZodType): Record<string, OptionInfo> {
  const schema = z.toJSONSchema(options, { io: 'output', unrepresentable: 'any' });
  return (schema.properties ?? {}) as Record<string, OptionInfo>;
}

function listed(table: Readonly<Record<string, PolicyEntry>>) {
  return Object.entries(table).map(([name, { summary, options }]) => ({
    name,
    summary,
    options: optionsOf(options),
  }));
}

function print(list: ReturnType<typeof listed>): void {
  for (const entry of list) {
    process.stdout.write(`${entry.name}  ${entry.summary}\n`);
    for (const [key, info] of Object.entries(entry.options)) {
      const value = info.default === undefined || typeof info.default === 'object' ? '' : `=${info.default}`;
      process.stdout.write(`    ${key}${value}  ${info.description ?? ''}\n`);
    }
  }
}

/** `isoverbs policies`. */
export function listPolicies(options: { json?: boolean }): void {
  const lists = { policies: listed(policies), interceptors: listed(interceptors) };
  if (options.json) {
    process.stdout.write(`${JSON.stringify(lists, null, 2)}\n`);
    return;
  }
  process.stdout.write(
    'Policies (ISOVERBS_POLICY), or the path of a module that makes one (docs/policies.md):\n',
  );
  print(lists.policies);
  process.stdout.write('\nInterceptors (ISOVERBS_INTERCEPTORS):\n');
  print(lists.interceptors);
}
