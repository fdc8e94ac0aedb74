/** The options of a policy or interceptor, as people read them. */
import { type ZodType, z } from 'zod';

export interface Knob {
  name: string;
  /** Absent: none, or it follows from something else; the text says which. */
  default?: unknown;
  /** '' where it counts nothing, or is a word. */
  unit: string;
  /** All there are; [] where it is a number or a text. */
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

/** Units stand last in names. */
const UNITS: Readonly<Record<string, string>> = {
  Bytes: 'bytes',
  Ns: 'ns',
  Gbps: 'Gbit/s',
  RequestsPerS: 'requests/s',
  Requests: 'requests',
  Pieces: 'pieces',
  Qps: 'queue pairs',
};

/** In the order in which they are written. */
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
