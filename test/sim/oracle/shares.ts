/** Closed forms of a NIC whose turn is one packet and that has no other limit (PeRF section 2, Palos section II.B). */

/** Share of the payload for `large` queue pairs of long messages next to `small` ones of messages up to the MTU. */
export function largeShare(large: number, mtuBytes: number, small: number, sizeBytes: number): number {
  return (large * mtuBytes) / (large * mtuBytes + small * sizeBytes);
}

/** Share of one queue pair next to `others` identical ones. */
export function equalShare(others: number): number {
  return 1 / (1 + others);
}
