/** Completion queues, completion channels, and rings. */
import { UnsupportedError } from '../../verbs/errors.ts';
import type { CqOptions, RingInfo } from '../../verbs/types.ts';
import type { Verbs } from '../../verbs/verbs.ts';
import type { NativeVerbs } from './addon.ts';
import { handleOf, requireObject, requireWhole } from './check.ts';
import { hotPath } from './hot-path.ts';

const MAX_COUNT = 0x7fffffff;

/** A ring starts at its buffer's first byte unless the fallback of native/memory.cc had to align it. */
function ring(info: RingInfo & { byteOffset: number }): RingInfo {
  if (info.byteOffset !== 0) {
    throw new UnsupportedError(
      'this runtime allows no external ArrayBuffers: rings cannot be shared with the addon',
    );
  }
  return info;
}

export function cqVerbs(native: NativeVerbs) {
  return {
    createCompChannel: native.createCompChannel,
    destroyCompChannel: native.destroyCompChannel,
    watchCompChannel: native.watchCompChannel,
    refCompChannel: native.refCompChannel,
    createCq(context: number, cqe: number, channel: number, options: CqOptions = {}) {
      requireObject('createCq', 'options', options);
      const { compVector = 0, wcFlags = 0 } = options;
      requireWhole('createCq', 'cqe', cqe, 1, 0x7fffffff);
      requireWhole('createCq', 'compVector', compVector, 0, 0x7fffffff);
      requireWhole('createCq', 'wcFlags', wcFlags, 0, 0x7fffffff);
      // 0 means no channel.
      return native.createCq(context, cqe, handleOf(channel), compVector, wcFlags);
    },
    resizeCq(cq: number, cqe: number) {
      requireWhole('resizeCq', 'cqe', cqe, 1, 0x7fffffff);
      return native.resizeCq(cq, cqe);
    },
    modifyCq(cq: number, maxCount: number, periodUs: number) {
      requireWhole('modifyCq', 'maxCount', maxCount, 0, 0xffff);
      requireWhole('modifyCq', 'periodUs', periodUs, 0, 0xffff);
      native.modifyCq(cq, maxCount, periodUs);
    },
    destroyCq: native.destroyCq,
    reqNotifyCq: native.reqNotifyCq,
    createWrRing(capacity: number, sges: number, inlineBytes: number) {
      requireWhole('createWrRing', 'capacity', capacity, 1, MAX_COUNT);
      requireWhole('createWrRing', 'sges', sges, 0, MAX_COUNT);
      requireWhole('createWrRing', 'inlineBytes', inlineBytes, 0, MAX_COUNT);
      return ring(native.createWrRing(capacity, sges, inlineBytes));
    },
    createWcRing(capacity: number) {
      requireWhole('createWcRing', 'capacity', capacity, 1, MAX_COUNT);
      return ring(native.createWcRing(capacity));
    },
    destroyRing: native.destroyRing,
    validateSend: native.validateSend,
    ...hotPath(native),
  } satisfies Partial<Verbs>;
}
