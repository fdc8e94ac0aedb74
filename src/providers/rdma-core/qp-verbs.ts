/** Queue pairs. */
import { UnsupportedError } from '../../verbs/errors.ts';
import type { QpAttr, QpInfo, QpInitAttr, Verbs } from '../../verbs/provider.ts';
import { checkModify } from '../../verbs/qp-state.ts';
import type { NativeVerbs } from './addon.ts';
import { whole } from './check.ts';
import { attrOf, QPW_COUNT, QPW_STATE, QPW_TYPE, wordsOf, writeCap } from './qp-words.ts';

export function qpVerbs(native: NativeVerbs) {
  return {
    createQp(pd: number, attr: QpInitAttr): QpInfo {
      const verb = 'createQp';
      if (attr.managed === true) {
        throw new UnsupportedError('createQp: this device has no managed queue pairs (WAIT and ENABLE)', {
          verb,
        });
      }
      whole(verb, 'qpType', attr.qpType, 2, 4);
      const words = new Uint32Array(QPW_COUNT);
      writeCap(verb, attr.cap, words);
      words[QPW_TYPE] = attr.qpType;
      const { handle, qpNum, ...cap } = native.createQp(
        pd,
        words,
        attr.sendCq,
        attr.recvCq,
        attr.sqSigAll === true,
      );
      return { handle, qpNum, cap };
    },
    modifyQp(qp: number, attr: QpAttr, mask: number): void {
      whole('modifyQp', 'mask', mask, 0, 0x7fffffff);
      const known = native.knownState(qp);
      try {
        checkModify(known >>> 8, known & 0xff, attr, mask);
        native.modifyQp(qp, wordsOf(attr), mask);
      } catch (error) {
        // Only the device knows that it went to SQE or ERR by itself: judge by the state that it is really in.
        const now = new Uint32Array(QPW_COUNT);
        native.queryQp(qp, now);
        if (now[QPW_STATE] === (known & 0xff)) throw error;
        checkModify(now[QPW_TYPE], now[QPW_STATE], attr, mask);
        native.modifyQp(qp, wordsOf(attr), mask);
      }
    },
    queryQp(qp: number) {
      const words = new Uint32Array(QPW_COUNT);
      native.queryQp(qp, words);
      return attrOf(words);
    },
    destroyQp: native.destroyQp,
  } satisfies Partial<Verbs>;
}
