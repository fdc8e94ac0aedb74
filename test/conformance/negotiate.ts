/** Lets the shims of both ends agree, in programs that exchange queue pair numbers themselves. */
import type { Interceptor } from '../../src/shim/compose.ts';
import * as V from '../../src/verbs/index.ts';

/** The outermost interceptor of a chain. */
export function negotiate(): Interceptor {
  return {
    name: 'negotiate',
    wrap(next) {
      const handles = new Map<number, number>();
      const partners = new Map<number, number>();
      const tell = (qp: number, peer: number) => {
        next.setPeer?.(qp, next.describePeer?.(peer) ?? null);
      };
      return {
        createQp(pd, attr) {
          const info = next.createQp(pd, attr);
          handles.set(info.qpNum, info.handle);
          return info;
        },
        modifyQp(qp, attr, mask) {
          next.modifyQp(qp, attr, mask);
          if (attr.qpState === V.IBV_QPS_RESET) partners.delete(qp);
          const peer = handles.get(attr.destQpNum ?? 0);
          if (peer === undefined) return;
          partners.set(qp, peer);
          if (partners.get(peer) !== qp) return;
          tell(qp, peer);
          tell(peer, qp);
        },
      };
    },
  };
}
