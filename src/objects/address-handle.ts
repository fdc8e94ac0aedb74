import {
  type AhAttr,
  type GidEntry,
  GRH_BYTES,
  IBV_WC_GRH,
  InvalidArgumentError,
  isMulticastGid,
  parseGrh,
} from '../verbs/index.ts';
import type { Completion } from './completion.ts';
import type { Context } from './context.ts';
import type { ProtectionDomain } from './protection-domain.ts';
import { Resource } from './resource.ts';

/** The port that datagrams are sent to (ibv_create_ah(3)). Created by pd.createAh(), createAhTo() or createAhFrom(). */
export class AddressHandle extends Resource {
  /** @internal */
  readonly kind = 'AddressHandle';
  readonly context: Context;
  readonly pd: ProtectionDomain;
  /** The address attributes, defaults included. */
  readonly attr: Readonly<AhAttr>;

  /** @internal Use pd.createAh(). */
  constructor(pd: ProtectionDomain, attr: AhAttr) {
    const whole = withDefaults(pd.context, attr);
    super({
      provider: pd.provider,
      handle: pd.provider.createAh(pd.handle, whole),
      label: pd.context.labelFor('address handle'),
      parents: [pd],
    });
    this.context = pd.context;
    this.pd = pd;
    this.attr = whole;
  }

  protected override release(handle: number): void {
    this.provider.destroyAh(handle);
  }
}

function withDefaults(context: Context, attr: AhAttr): AhAttr {
  const whole: AhAttr = { portNum: 1, ...attr };
  if (whole.dgid === undefined) return whole;
  whole.sgidIndex ??= context.chooseGid(whole.portNum).index;
  whole.hopLimit ??= 64;
  return whole;
}

/** The fields of a receive completion that identify the sender's port. */
export type Sender = Pick<Completion, 'flags' | 'slid' | 'sl' | 'dlidPathBits'>;

/**
 * Address of the sender of a datagram (ibv_init_ah_from_wc(3)). `grh` is the first 40 bytes of the receive
 * buffer. A reply to a multicast datagram leaves from the preferred GID.
 * @throws InvalidArgumentError when `grh` is too short, or its destination is not a GID of this port
 */
export function replyAttr(context: Context, completion: Sender, grh: Uint8Array, portNum = 1): AhAttr {
  const { slid, sl, dlidPathBits, flags } = completion;
  const attr: AhAttr = { portNum, dlid: slid, sl, srcPathBits: dlidPathBits };
  if ((flags & IBV_WC_GRH) === 0) return attr;
  if (!(grh instanceof Uint8Array) || grh.length < GRH_BYTES) {
    throw new InvalidArgumentError('the reply needs the GRH: pass the first 40 bytes of the receive buffer');
  }
  const { sgid, dgid, type, trafficClass, flowLabel, hopLimit } = parseGrh(grh);
  const own = ownGid(context.gids(portNum), dgid, type) ?? context.chooseGid(portNum);
  return { ...attr, dgid: sgid, sgidIndex: own.index, trafficClass, flowLabel, hopLimit };
}

/** The local GID that a datagram was sent to; undefined for a multicast group. */
function ownGid(entries: readonly GidEntry[], dgid: string, type: string): GidEntry | undefined {
  if (isMulticastGid(dgid)) return undefined;
  const same = entries.filter((entry) => entry.gid === dgid);
  const typed = same.find((entry) => (type === 'RoCE v2') === (entry.type === 'RoCE v2'));
  if (typed !== undefined) return typed;
  throw new InvalidArgumentError(`the datagram was sent to ${dgid}, which is not a ${type} GID of this port`);
}
