/** Completion queues and channels, and the rings. */
import { UnsupportedError } from '../../verbs/errors.ts';
import type { CqOptions, RingInfo, Verbs } from '../../verbs/provider.ts';
import type { NativeVerbs } from './addon.ts';
import { handleOf, object, whole } from './check.ts';
import { hotPath } from './hot-path.ts';

const MAX_COUNT = 0x7fffffff;

/** Rings begin at their buffer's first byte, but where the fallback of native/memory.cc had to align them. */
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
      object('createCq', 'options', options);
      const { compVector = 0, wcFlags = 0 } = options;
      whole('createCq', 'cqe', cqe, 1, 0x7fffffff);
      whole('createCq', 'compVector', compVector, 0, 0x7fffffff);
      whole('createCq', 'wcFlags', wcFlags, 0, 0x7fffffff);
      // 0 is no channel.
      return native.createCq(context, cqe, handleOf(channel), compVector, wcFlags);
    },
    resizeCq(cq: number, cqe: number) {
      whole('resizeCq', 'cqe', cqe, 1, 0x7fffffff);
      return native.resizeCq(cq, cqe);
    },
    modifyCq(cq: number, maxCount: number, periodUs: number) {
      whole('modifyCq', 'maxCount', maxCount, 0, 0xffff);
      whole('modifyCq', 'periodUs', periodUs, 0, 0xffff);
      native.modifyCq(cq, maxCount, periodUs);
    },
    destroyCq: native.destroyCq,
    reqNotifyCq: native.reqNotifyCq,
    createWrRing(capacity: number, sges: number, inlineBytes: number) {
      whole('createWrRing', 'capacity', capacity, 1, MAX_COUNT);
      whole('createWrRing', 'sges', sges, 0, MAX_COUNT);
      whole('createWrRing', 'inlineBytes', inlineBytes, 0, MAX_COUNT);
      return ring(native.createWrRing(capacity, sges, inlineBytes));
    },
    createWcRing(capacity: number) {
      whole('createWcRing', 'capacity', capacity, 1, MAX_COUNT);
      return ring(native.createWcRing(capacity));
    },
    destroyRing: native.destroyRing,
    validateSend: native.validateSend,
    ...hotPath(native),
  } satisfies Partial<Verbs>;
}
