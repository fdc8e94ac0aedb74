/** A fault that was injected. */
export interface Injection {
  /** The name of the failed verb, 'completion' or 'kill'. */
  what: string;
  /** Number of the call, completion or request, from 1. */
  number: number;
}

/** Called for each injected fault, as it happens. */
export type InjectionListener = (injection: Injection) => void;
