/**
 * What flows get if each is served the same number of payload bytes per round, as under Palos, or one packet per round,
 * as on a bare device, while the link is the only limit.
 */

/** The packets of a device. The defaults of the simulated ones are in src/sim/profile/profiles.ts. */
export interface Packets {
  readonly mtuBytes: number;
  /** Headers and gaps of every packet. */
  readonly headerBytes: number;
  /** Further headers of the first packet of a message. */
  readonly rethBytes: number;
}

/** Equal flows, each of which always has messages of this size to send. */
export interface Flows {
  readonly count: number;
  readonly bytes: number;
}

/** Small and large flows alongside each other. */
export interface SmallAndLarge {
  readonly small: Flows;
  readonly large: Flows;
}

const packetsOf = (bytes: number, { mtuBytes }: Packets) => Math.ceil(bytes / mtuBytes);

/** Bytes on the wire for each byte of payload in messages of this size. */
export function wirePerByte(bytes: number, packets: Packets): number {
  return (bytes + packetsOf(bytes, packets) * packets.headerBytes + packets.rethBytes) / bytes;
}

/** The share of each kind in the payload if every flow is served the same number of bytes per round. */
export function byteShares({ small, large }: SmallAndLarge): SmallAndLargeValues {
  const flows = small.count + large.count;
  return { small: small.count / flows, large: large.count / flows };
}

/** A value for each kind of flow. */
export interface SmallAndLargeValues {
  readonly small: number;
  readonly large: number;
}

/** The share of each kind in the payload if every flow is served one packet per round: section II-B of the paper. */
export function packetShares({ small, large }: SmallAndLarge, packets: Packets): SmallAndLargeValues {
  const [smallBytes, largeBytes] = [small, large].map(
    ({ count, bytes }) => (count * bytes) / packetsOf(bytes, packets),
  );
  return { small: smallBytes / (smallBytes + largeBytes), large: largeBytes / (smallBytes + largeBytes) };
}

/**
 * The rate of each kind relative to its rate alone, if every flow is served the same number of bytes per round in whole
 * packets. Both rates are those of a full link, so the values are parts of its time, which add up to 1.
 */
export function timeShares({ small, large }: SmallAndLarge, packets: Packets): SmallAndLargeValues {
  const [smallWire, largeWire] = [small, large].map(
    ({ count, bytes }) => count * wirePerByte(bytes, packets),
  );
  return { small: smallWire / (smallWire + largeWire), large: largeWire / (smallWire + largeWire) };
}

/**
 * The same if chunks end at the byte: a chunk cuts the message in which it ends, and each slice is a message of its own,
 * as in the paper. The further headers take time of the link, so the values add up to less than 1.
 */
export function cutTimeShares(
  { small, large }: SmallAndLarge,
  chunkBytes: number,
  packets: Packets,
): SmallAndLargeValues {
  const cutWire = ({ count, bytes }: Flows) => count * cutWirePerByte(bytes, chunkBytes, packets);
  const roundWire = cutWire(small) + cutWire(large);
  const relative = ({ count, bytes }: Flows) => (count * wirePerByte(bytes, packets)) / roundWire;
  return { small: relative(small), large: relative(large) };
}

/** Bytes on the wire for each byte of payload, averaged over the chunks until one ends with a message. */
function cutWirePerByte(bytes: number, chunkBytes: number, packets: Packets): number {
  let payload = 0;
  let wire = 0;
  let leftOfMessage = 0;
  let leftOfChunk = 0;
  do {
    if (leftOfMessage === 0) leftOfMessage = bytes;
    if (leftOfChunk === 0) leftOfChunk = chunkBytes;
    const slice = Math.min(leftOfMessage, leftOfChunk);
    payload += slice;
    wire += slice + packetsOf(slice, packets) * packets.headerBytes + packets.rethBytes;
    leftOfMessage -= slice;
    leftOfChunk -= slice;
  } while (leftOfMessage > 0 || leftOfChunk > 0);
  return wire / payload;
}

/**
 * Message rate of the small flows and payload of the large ones alongside `large.count` large flows, relative to
 * alongside one, if every flow is served one packet per round.
 */
export function packetRoundGrowth({ small, large }: SmallAndLarge, packets: Packets): SmallAndLargeValues {
  const roundWire = (count: number) => packetWire({ ...large, count }, packets) + packetWire(small, packets);
  const slower = roundWire(1) / roundWire(large.count);
  return { small: slower, large: large.count * slower };
}

/** Bytes on the wire of one packet of each flow. */
function packetWire({ count, bytes }: Flows, packets: Packets): number {
  return (count * bytes * wirePerByte(bytes, packets)) / packetsOf(bytes, packets);
}
