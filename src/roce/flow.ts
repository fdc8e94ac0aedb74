/**
 * UDP source ports of flows. A network chooses one of several equal paths by the ports of a packet, so a sender gives each
 * flow its own source port. The formulas are those of Linux (include/rdma/ib_verbs.h: rdma_calc_flow_label and
 * rdma_flow_label_to_udp_sport).
 */

/** The lowest source port of flows, and how many there are. */
export const FIRST_FLOW_PORT = 0xc000;
export const FLOW_PORTS = 0x4000;

const TWO20 = 2 ** 20;
const TWO40 = 2 ** 40;
const LABEL_MASK = TWO20 - 1;
const LOW_MASK = FLOW_PORTS - 1;

/** The flow label of a connection without one, by the numbers of its queue pairs (24 bits each). */
export function flowLabelOf(localQpn: number, remoteQpn: number): number {
  // The product has 48 bits: v ^= v >> 20; v ^= v >> 40.
  const v = localQpn * remoteQpn;
  return ((v % TWO20) ^ ((v / TWO20) % TWO20) ^ (v / TWO40)) & LABEL_MASK;
}

/** The UDP source port of a flow label of 20 bits. */
export function sourcePortOf(flowLabel: number): number {
  return ((flowLabel & LOW_MASK) ^ ((flowLabel & LABEL_MASK) >>> 14)) | FIRST_FLOW_PORT;
}
