/** Sizes of networks in section III-E of DRUM. */

/** Hosts, and applications on each of them. */
export type Size = readonly [hosts: number, apps: number];

/** As in `100 x 50`. */
export const nameOf = ([hosts, apps]: Size): string => `${hosts} x ${apps}`;
