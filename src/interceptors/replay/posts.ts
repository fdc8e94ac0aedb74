/** Compares posted requests with the recording. */
import * as L from '../../verbs/layout.ts';
import * as F from '../record/format.ts';
import type { KnownRing } from '../rings.ts';

const WORD_NAMES: Record<number, string> = {
  [L.WR_ID_LO]: 'wr_id',
  [L.WR_ID_HI]: 'wr_id',
  [L.WR_OP]: 'opcode, flags or number of elements',
  [L.WR_IMM]: 'immediate',
  [L.WR_REMOTE_LO]: 'remote address or address handle',
  [L.WR_REMOTE_HI]: 'remote address or queue pair',
  [L.WR_RKEY]: 'rkey or Q_Key',
};

/** A recorded post as text: `postSend(qp, ring, start, count)`. */
export function describePost(words: Uint32Array): string {
  return `${F.POST_VERBS[words[F.POST_VERB]]}(${words.subarray(F.POST_QUEUE, F.POST_RESULT).join(',')})`;
}

/** Describes the difference: '' if only the arguments differ, null if there is none. */
export function postDifference(
  words: Uint32Array,
  made: readonly number[],
  ring: KnownRing | undefined,
): string | null {
  if (made.some((value, i) => words[i] !== value >>> 0)) return '';
  const slots = words[F.POST_SLOTS];
  const extWords = words[F.POST_EXT_WORDS];
  if (ring === undefined || slots === 0) return null;
  const start = words[F.POST_START];
  for (let i = 0; i < slots; i++) {
    const recorded = F.POST_WORDS + i * L.SLOT_WORDS;
    const at = L.slotAt(start + i);
    const word = firstDifference(words, recorded, ring.words, at, L.SLOT_WORDS);
    if (word >= 0) return ` with another ${WORD_NAMES[word] ?? 'element'} in request ${start + i}`;
    const recordedExt = F.POST_WORDS + slots * L.SLOT_WORDS + i * extWords;
    const ext = L.extAt(start + i, ring.info.capacity, ring.info.extBytes);
    if (firstDifference(words, recordedExt, ring.words, ext, extWords) >= 0) {
      return ` with other elements or inline bytes in request ${start + i}`;
    }
  }
  return null;
}

function firstDifference(a: Uint32Array, aAt: number, b: Uint32Array, bAt: number, count: number): number {
  for (let i = 0; i < count; i++) if (a[aAt + i] !== b[bAt + i]) return i;
  return -1;
}
