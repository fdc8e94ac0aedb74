/** The 1,000 queue pairs with rates of Tassel's figure 8. */

/** Queue pairs by their rate in Mbit/s. */
export type RateClasses = readonly (readonly [mbps: number, qps: number])[];

/** Figure 8(a): 17 Gbit/s together. */
export const BELOW_LINK: RateClasses = [
  [1, 900],
  [10, 80],
  [100, 15],
  [1000, 4],
  [10_000, 1],
];

/** Figure 8(b): twice the link. */
export const TWICE_LINK: RateClasses = [
  [1, 899],
  [10, 60],
  [100, 15],
  [1000, 7],
  [10_000, 19],
];
