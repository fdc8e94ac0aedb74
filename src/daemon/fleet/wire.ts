/** The messages between daemons: announcements as JSON, and the frames of agents as float64 words. */
import { z } from 'zod';
import { MAX_MESSAGE_WORDS } from '../../coordinator/agent.ts';
import { CONNECTED, type Frame } from '../../coordinator/agent-carrier.ts';
import { gidFromWords, gidToWords } from '../../verbs/gid.ts';

const VERSION = 1;
const MAX_QP_NUM = 2 ** 24 - 1;
/** Longer announcements are ignored without being parsed. */
export const MAX_ANNOUNCEMENT_BYTES = 32 << 10;

/** Whether a text is a GID in canonical form. GIDs are compared as texts, so other forms are rejected. */
function isGid(text: string): boolean {
  try {
    return gidFromWords(gidToWords(text), 0) === text;
  } catch {
    return false;
  }
}

const announcement = z.strictObject({
  version: z.literal(VERSION),
  /** The host's name, for logs. */
  host: z.string().max(255),
  /** The devices with agents. A daemon that ends announces that it has none. */
  devices: z
    .array(
      z.strictObject({
        name: z.string().max(64),
        qpNum: z.number().int().min(0).max(MAX_QP_NUM),
        gids: z.array(z.string().refine(isGid)).max(1024),
        agents: z.array(z.string().max(128)).max(64),
      }),
    )
    .max(64),
});

type Announcement = Omit<z.infer<typeof announcement>, 'version'>;
export type AnnouncedDevice = Announcement['devices'][number];

export function encodeAnnouncement(content: Announcement): Uint8Array {
  return new TextEncoder().encode(JSON.stringify({ version: VERSION, ...content }));
}

/** Returns null if the bytes are not a valid announcement. */
export function decodeAnnouncement(bytes: Uint8Array): Announcement | null {
  if (bytes.length > MAX_ANNOUNCEMENT_BYTES) return null;
  try {
    return announcement.safeParse(JSON.parse(new TextDecoder().decode(bytes))).data ?? null;
  } catch {
    return null;
  }
}

// Words of a frame: magic, kind, hash of the agent's name, the sender's queue pair, GIDs of source and destination (32
// bits each), the message. Both ends are little-endian, as all systems with Node.js and RDMA devices are.
const MAGIC = 0x49534f46;
const FROM_AT = 4;
const TO_AT = 8;
const HEADER_WORDS = 12;
const MAX_FRAME_BYTES = 8 * (HEADER_WORDS + MAX_MESSAGE_WORDS);

export function encodeFrame(
  { from, to, qpNum, kind, agent }: Omit<Frame, 'peer' | 'words'>,
  words: ArrayLike<number>,
) {
  const all = new Float64Array(HEADER_WORDS + words.length);
  all.set([MAGIC, kind, agent, qpNum, ...gidToWords(from), ...gidToWords(to)]);
  all.set(words, HEADER_WORDS);
  return new Uint8Array(all.buffer);
}

/** Returns null if the bytes are not a valid frame. */
export function decodeFrame(bytes: Uint8Array): Frame | null {
  const { length } = bytes;
  if (length < 8 * HEADER_WORDS || length > MAX_FRAME_BYTES || length % 8 !== 0) return null;
  // A copy, because the bytes may begin at any address.
  const all = new Float64Array(Uint8Array.from(bytes).buffer);
  const [magic, kind, agent, qpNum] = all;
  const [from, to] = [gidFromWords(all, FROM_AT), gidFromWords(all, TO_AT)];
  const isKind = Number.isInteger(kind) && kind >= 0 && kind <= CONNECTED;
  if (magic !== MAGIC || !isKind || from === null || to === null) return null;
  return { peer: -1, from, to, qpNum, kind, agent, words: all.slice(HEADER_WORDS) };
}
