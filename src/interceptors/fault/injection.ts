/** A fault that happened. */
export interface Injection {
  /** The verb that failed, 'completion' or 'kill'. */
  what: string;
  /** Which call, completion or request it was, from 1. */
  number: number;
}

/** Called for each fault as it happens. */
export type InjectionListener = (injection: Injection) => void;
