/** Mutants that were looked at and do what the original does, or cost time only. */
export interface Equivalent {
  readonly file: string;
  /** The line as it is. */
  readonly source: string;
  readonly from: string;
  readonly to: string;
  readonly reason: string;
}

export const equivalents: readonly Equivalent[] = [];
