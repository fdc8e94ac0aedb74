/** Policies as text, in the form of ISOVERBS_POLICY and of `--policy`. */

/**
 * A policy with all options that were given: `perf:paper,subMsgSizeBytes=8KiB`. Parsing the text gives the same policy.
 * @param options values as they were given; an object becomes pairs such as `a:3/b:1`
 */
export function policyText(name: string, options: Readonly<Record<string, unknown>> = {}): string {
  const words = Object.entries(options).map(([key, value]) =>
    value === true || value === 'true' ? key : `${key}=${valueText(value)}`,
  );
  return words.length === 0 ? name : `${name}:${words.join(',')}`;
}

/** Several policies, the outermost first, joined by semicolons; `none` if there is none. */
export function policiesText(
  policies: readonly { readonly name: string; readonly options?: Readonly<Record<string, unknown>> }[],
): string {
  return policies.map(({ name, options }) => policyText(name, options)).join(';') || 'none';
}

/** The value of an option that was given as text: a number, true or false if the text is one, otherwise the text. */
export function scalarOf(text: string): unknown {
  if (text === 'true' || text === 'false') return text === 'true';
  return text !== '' && Number.isFinite(Number(text)) ? Number(text) : text;
}

function valueText(value: unknown): string {
  if (typeof value !== 'object' || value === null) return String(value);
  if (Array.isArray(value)) return value.map(valueText).join('/');
  return Object.entries(value)
    .map(([key, one]) => `${key}:${valueText(one)}`)
    .join('/');
}

/**
 * Where options belong, for a name that contains some, as in `drum,topK=20` or `drum:topK=20;epochUs=100`; otherwise
 * empty.
 */
export const optionsHint = (name: string): string =>
  name.includes('=') ? '; options are written as NAME:OPTION=VALUE,OPTION=VALUE' : '';
