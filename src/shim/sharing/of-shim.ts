import { IBV_EVENT_SQ_DRAINED, IBV_QPS_ERR } from '../../verbs/constants.ts';
import type { PeerVerbs, Provider } from '../../verbs/provider.ts';
import type { ShimContext } from '../context.ts';
import { ARM_NONE } from '../cq-ledger.ts';
import type { DeviceEvents } from '../device-events.ts';
import type { Events } from '../events.ts';
import { type Feeder, WATCH_TOKENS } from '../feeder.ts';
import type { Regions } from '../peer/regions.ts';
import type { Policy } from '../policy.ts';
import type { Polling } from '../polling.ts';
import type { Tables } from '../tables.ts';
import { Sharing } from './sharing.ts';

/** Time after which a peer is probed that a connection waits for. */
const WATCH_NS = 100e6;

/** The parts of a shim that sharing uses; some are made after it. */
export interface ShimParts {
  readonly policy: Policy;
  readonly next: Provider;
  readonly tables: Tables;
  readonly events: Events;
  readonly deviceEvents: DeviceEvents;
  readonly feeder: Feeder;
  readonly polling: Polling;
  readonly peerVerbs: PeerVerbs;
  readonly regions: Regions;
  ownChannel(context: ShimContext): number;
}

/** The sharing of a shim; null if its policy does not use it. */
export function sharingOf(shim: ShimParts): Sharing | null {
  const { policy, next, tables } = shim;
  if (policy.mostShared === undefined) return null;
  return new Sharing({
    policyName: policy.name,
    most: policy.mostShared,
    always: policy.sharesAlways === true,
    next,
    tables,
    below: {
      describePeer: (qp) => shim.peerVerbs.describePeer?.(qp) ?? null,
      setPeer: (qp, description) => shim.peerVerbs.setPeer?.(qp, description),
    },
    channel: (context) => shim.ownChannel(context),
    listen: (context) => shim.deviceEvents.ensureListening(context.handle),
    toRts: (carrier, path, access) => shim.feeder.resources.toRts(carrier, path, access),
    toErr: (carrier) => shim.feeder.resources.modify(carrier, { qpState: IBV_QPS_ERR }),
    regionOf: (pd, lkey) => shim.regions.find(pd, lkey),
    poll: (cq) => void shim.polling.pollForShim(cq),
    settle: (cq, words, index) => {
      shim.polling.settleCarried(cq, words, index);
      if (cq.appArmed !== ARM_NONE && !cq.isPolledByShim) cq.isEventDue = true;
    },
    settled: (cq) => {
      shim.feeder.feedAll(cq);
      shim.events.synthesised(cq, false);
      if (cq.fifoCount > 0) next.completionsKept?.(cq.handle);
    },
    drain: () => shim.feeder.drain(),
    drained: ({ context, handle }) => shim.deviceEvents.raise(context.handle, IBV_EVENT_SQ_DRAINED, handle),
    fail: (qp) => shim.feeder.fail(qp),
    resume: (qp) => shim.feeder.heldAgain(qp),
    watch: (context) => {
      const atNs = next.nowNs(context.handle) + WATCH_NS;
      shim.feeder.timers.set(context, atNs, WATCH_TOKENS + context.index, true);
    },
  });
}
