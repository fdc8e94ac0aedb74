import { HandshakeError, InvalidArgumentError, shown } from '../../verbs/index.ts';

/** One problem that a schema found: what is wrong, and where. */
export interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** What a schema made of a value: the value as its type, or the problems. */
export type SchemaResult<T> =
  | { readonly value: T; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

/**
 * A validator that implements Standard Schema 1 (https://standardschema.dev): a schema of zod, valibot, arktype and
 * others.
 */
export interface StandardSchema<T> {
  readonly '~standard': {
    /** Version of the interface. */
    readonly version: 1;
    /** Name of the library. */
    readonly vendor: string;
    /** Returns the value, or the issues. */
    readonly validate: (value: unknown) => SchemaResult<T> | Promise<SchemaResult<T>>;
    /** For type inference only. */
    readonly types?: { readonly input: unknown; readonly output: T } | undefined;
  };
}

/** @throws InvalidArgumentError when `schema` is given but implements no Standard Schema */
export function requireSchema(schema: unknown): void {
  if (schema === undefined) return;
  const standard = (schema as { '~standard'?: { validate?: unknown } } | null)?.['~standard'];
  if (typeof standard?.validate === 'function') return;
  throw new InvalidArgumentError(
    `remoteSchema must implement Standard Schema, as the schemas of zod 4 do, got ${shown(schema)}`,
  );
}

/** The private data of the peer, as its schema returns it. @throws HandshakeError naming what does not fit */
export async function validated<T>(schema: StandardSchema<T> | undefined, data: unknown): Promise<T> {
  if (schema === undefined) return data as T;
  const result = await schema['~standard'].validate(data);
  if (result.issues === undefined) return result.value;
  const problems = result.issues.map(({ message, path = [] }) => {
    const where = path.map((part) => String(typeof part === 'object' ? part.key : part)).join('.');
    return where === '' ? message : `'${where}': ${message}`;
  });
  throw new HandshakeError(`the peer's private data does not fit remoteSchema: ${problems.join('; ')}`);
}
