/** The options of a policy or interceptor, prepared for printing. */
import { type ZodType, z } from 'zod';

export interface Knob {
  name: string;
  /** Absent if there is no default, or if it depends on something else, which the text explains. */
  default?: unknown;
  /** '' for words, and for numbers without a unit. */
  unit: string;
  /** The possible values; [] for a number or text. */
  values: readonly string[];
  text: string;
}

interface Schema {
  type?: string;
  default?: unknown;
  description?: string;
  enum?: readonly unknown[];
  anyOf?: readonly Schema[];
}

/** Units by the suffix of a name. */
const UNITS: Readonly<Record<string, string>> = {
  Bytes: 'bytes',
  Ns: 'ns',
  Gbps: 'Gbit/s',
  RequestsPerS: 'requests/s',
  Requests: 'requests',
  Pieces: 'pieces',
  Qps: 'queue pairs',
};

/** Lists the options in the order of their definition. */
export function knobsOf(options: ZodType): Knob[] {
  const schema = z.toJSONSchema(options, { io: 'output', unrepresentable: 'any' });
  const properties = (schema.properties ?? {}) as Record<string, Schema>;
  return Object.entries(properties).map(([name, info]) => ({
    name,
    ...(info.default !== undefined && { default: info.default }),
    unit: Object.entries(UNITS).find(([suffix]) => name.endsWith(suffix))?.[1] ?? '',
    values: valuesOf(info),
    text: info.description ?? '',
  }));
}

function valuesOf({ type, enum: words, anyOf = [] }: Schema): string[] {
  if (words !== undefined) return words.map(String);
  if (type === 'boolean' || anyOf.some((one) => one.type === 'boolean')) return ['true', 'false'];
  return [];
}
