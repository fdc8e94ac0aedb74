import { z } from 'zod';
import { policies } from '../policies/index.ts';

interface OptionInfo {
  type?: string;
  default?: unknown;
  description?: string;
}

/** Options of a policy as JSON Schema says them. */
function optionsOf(name: string): Record<string, OptionInfo> {
  const schema = z.toJSONSchema(policies[name].options, { io: 'output', unrepresentable: 'any' });
  return (schema.properties ?? {}) as Record<string, OptionInfo>;
}

/** `isoverbs policies`. */
export function listPolicies(options: { json?: boolean }): void {
  const list = Object.entries(policies).map(([name, { summary }]) => ({
    name,
    summary,
    options: optionsOf(name),
  }));
  if (options.json) {
    process.stdout.write(`${JSON.stringify({ policies: list }, null, 2)}\n`);
    return;
  }
  for (const policy of list) {
    process.stdout.write(`${policy.name}  ${policy.summary}\n`);
    for (const [key, info] of Object.entries(policy.options)) {
      const value = info.default === undefined ? '' : `=${info.default}`;
      process.stdout.write(`    ${key}${value}  ${info.description ?? ''}\n`);
    }
  }
}
