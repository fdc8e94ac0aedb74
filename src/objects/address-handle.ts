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

/** Where a datagram goes (ibv_create_ah(3)): a port, not a queue pair. Made by pd.createAh() and its kin. */
export class AddressHandle extends Resource {
  /** @internal */
  readonly kind = 'AddressHandle';
  readonly context: Context;
  readonly pd: ProtectionDomain;
  /** What it was made from, defaults included. */
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

/** What of a completion says where it came from. */
export type Sender = Pick<Completion, 'flags' | 'slid' | 'sl' | 'dlidPathBits'>;

/**
 * The way back to who sent a datagram (ibv_init_ah_from_wc(3)). `grh`: the first 40 bytes of the receive
 * buffer. What came by multicast is answered from the preferred GID.
 * @throws InvalidArgumentError
 */
export function replyAttr(context: Context, completion: Sender, grh: Uint8Array, portNum = 1): AhAttr {
  const { slid, sl, dlidPathBits, flags } = completion;
  const attr: AhAttr = { portNum, dlid: slid, sl, srcPathBits: dlidPathBits };
  if ((flags & IBV_WC_GRH) === 0) return attr;
  if (!(grh instanceof Uint8Array) || grh.length < GRH_BYTES) {
    throw new InvalidArgumentError('the first 40 bytes of the receive buffer are needed to answer');
  }
  const { sgid, dgid, type, trafficClass, flowLabel, hopLimit } = parseGrh(grh);
  const own = ownGid(context.gids(portNum), dgid, type) ?? context.chooseGid(portNum);
  return { ...attr, dgid: sgid, sgidIndex: own.index, trafficClass, flowLabel, hopLimit };
}

/** The entry that a datagram was sent to; undefined for a group. */
function ownGid(entries: readonly GidEntry[], dgid: string, type: string): GidEntry | undefined {
  if (isMulticastGid(dgid)) return undefined;
  const same = entries.filter((entry) => entry.gid === dgid);
  const typed = same.find((entry) => (type === 'RoCE v2') === (entry.type === 'RoCE v2'));
  if (typed !== undefined) return typed;
  throw new InvalidArgumentError(
    `the datagram was sent to ${dgid}, which is none of this port's ${type} GIDs`,
  );
}
