import type { IsoverbsError } from '../../src/verbs/index.ts';

/** What a program sees: the result of each call, or its error, as text. */
export function notes(): { seen: string[]; note: (what: string, call: () => unknown) => void } {
  const seen: string[] = [];
  return {
    seen,
    note(what, call) {
      try {
        seen.push(`${what}: ${JSON.stringify(call())}`);
      } catch (error) {
        const { code, message } = error as IsoverbsError;
        seen.push(`${what}: ${code} ${message}`);
      }
    },
  };
}
