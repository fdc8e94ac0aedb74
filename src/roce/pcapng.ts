/** Blocks of pcapng files with nanosecond timestamps (draft-ietf-opsawg-pcapng). All are little-endian. */

const SECTION_HEADER = 0x0a0d0d0a;
const INTERFACE_DESCRIPTION = 1;
const ENHANCED_PACKET = 6;
const BYTE_ORDER_MAGIC = 0x1a2b3c4d;
const LINKTYPE_ETHERNET = 1;

// Options of blocks.
const END_OF_OPTIONS = 0;
const SHB_USERAPPL = 4;
const IF_NAME = 2;
const IF_DESCRIPTION = 3;
const IF_TSRESOL = 9;
const EPB_FLAGS = 2;

// Directions of packets: the flags of their blocks.
export const INBOUND = 1;
export const OUTBOUND = 2;

const TWO32 = 4294967296;

/** The start of a file. @param application what wrote it */
export function sectionBlock(application: string): Buffer {
  const body = Buffer.alloc(16);
  body.writeUInt32LE(BYTE_ORDER_MAGIC, 0);
  body.writeUInt16LE(1, 4);
  // The section's length is unknown.
  body.fill(0xff, 8);
  return block(SECTION_HEADER, body, [[SHB_USERAPPL, Buffer.from(application)]]);
}

/** Describes an Ethernet interface. The first one has number 0. */
export function interfaceBlock(name: string, description: string): Buffer {
  const body = Buffer.alloc(8);
  body.writeUInt16LE(LINKTYPE_ETHERNET, 0);
  return block(INTERFACE_DESCRIPTION, body, [
    [IF_NAME, Buffer.from(name)],
    [IF_DESCRIPTION, Buffer.from(description)],
    [IF_TSRESOL, Buffer.of(9)],
  ]);
}

function block(type: number, body: Buffer, options: readonly (readonly [number, Buffer])[]): Buffer {
  const encoded = options.map(([code, value]) => {
    const option = Buffer.alloc(4 + padded(value.length));
    option.writeUInt16LE(code, 0);
    option.writeUInt16LE(value.length, 2);
    value.copy(option, 4);
    return option;
  });
  const total = 12 + body.length + encoded.reduce((sum, { length }) => sum + length, 0) + 4;
  const head = Buffer.alloc(8);
  head.writeUInt32LE(type, 0);
  head.writeUInt32LE(total, 4);
  const tail = Buffer.alloc(8);
  tail.writeUInt16LE(END_OF_OPTIONS, 0);
  tail.writeUInt32LE(total, 4);
  return Buffer.concat([head, body, ...encoded, tail]);
}

const padded = (bytes: number): number => (bytes + 3) & ~3;

/** Bytes in front of the frame in the block of a packet. */
export const FRAME_OFFSET = 28;
const OPTIONS_BYTES = 12;

/** Bytes of the block of a frame. */
export const packetBlockBytes = (frameBytes: number): number =>
  FRAME_OFFSET + padded(frameBytes) + OPTIONS_BYTES + 4;

/**
 * Writes the block of a packet around its frame, which is in `out` at `offset` + FRAME_OFFSET already.
 * @param atNs whole nanoseconds
 * @param direction INBOUND or OUTBOUND
 * @returns its bytes
 */
export function writePacketBlock(
  out: Buffer,
  offset: number,
  frameBytes: number,
  interfaceNumber: number,
  atNs: number,
  direction: number,
): number {
  const total = packetBlockBytes(frameBytes);
  out.writeUInt32LE(ENHANCED_PACKET, offset);
  out.writeUInt32LE(total, offset + 4);
  out.writeUInt32LE(interfaceNumber, offset + 8);
  out.writeUInt32LE(Math.floor(atNs / TWO32), offset + 12);
  out.writeUInt32LE(atNs % TWO32, offset + 16);
  out.writeUInt32LE(frameBytes, offset + 20);
  out.writeUInt32LE(frameBytes, offset + 24);
  const end = offset + FRAME_OFFSET + padded(frameBytes);
  out.fill(0, offset + FRAME_OFFSET + frameBytes, end);
  out.writeUInt16LE(EPB_FLAGS, end);
  out.writeUInt16LE(4, end + 2);
  out.writeUInt32LE(direction, end + 4);
  out.writeUInt32LE(END_OF_OPTIONS, end + 8);
  out.writeUInt32LE(total, end + 12);
  return total;
}
