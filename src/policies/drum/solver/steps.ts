/** The scalar steps of the variables of one host. Reused for all hosts. */
export class Steps {
  /** Number of variables. */
  length = 0;
  readonly w: Float64Array;
  readonly a: Float64Array;
  readonly b: Float64Array;
  /** In: guesses, above 0 unless they are logarithms. Out: the solution. */
  readonly x: Float64Array;
  /** Set by a pass: what the variables take of the capacity, and how fast that falls with the price. */
  used = 0;
  slope = 0;
  /** Of Newton's method for all variables: the next relative change of x, and how fast it falls with the price. */
  readonly drift: Float64Array;
  readonly fall: Float64Array;

  /** @param most the largest number of variables of a host */
  constructor(most: number) {
    this.w = new Float64Array(most);
    this.a = new Float64Array(most);
    this.b = new Float64Array(most);
    this.x = new Float64Array(most);
    this.drift = new Float64Array(most);
    this.fall = new Float64Array(most);
  }
}
