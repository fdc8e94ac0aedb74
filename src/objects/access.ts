import * as C from '../verbs/constants.ts';
import { InvalidArgumentError } from '../verbs/errors.ts';

/** Who may do what with memory: IBV_ACCESS_* bits, or their names. */
export type Access =
  | number
  | {
      /** The device may write (receives, READ results). Default true. */
      localWrite?: boolean;
      remoteWrite?: boolean;
      remoteRead?: boolean;
      remoteAtomic?: boolean;
      /** Memory windows may be bound to it. */
      mwBind?: boolean;
      /** Remote addresses count from 0 at the first byte. */
      zeroBased?: boolean;
      /** Pages are not pinned but fetched as needed, where the device can (queryDeviceEx().odp). */
      onDemand?: boolean;
      /** The memory is of huge pages throughout. */
      hugetlb?: boolean;
      /** Writes may pass each other on PCIe; a device without it ignores it. */
      relaxedOrdering?: boolean;
    };

const BITS: Record<string, number> = {
  localWrite: C.IBV_ACCESS_LOCAL_WRITE,
  remoteWrite: C.IBV_ACCESS_REMOTE_WRITE,
  remoteRead: C.IBV_ACCESS_REMOTE_READ,
  remoteAtomic: C.IBV_ACCESS_REMOTE_ATOMIC,
  mwBind: C.IBV_ACCESS_MW_BIND,
  zeroBased: C.IBV_ACCESS_ZERO_BASED,
  onDemand: C.IBV_ACCESS_ON_DEMAND,
  hugetlb: C.IBV_ACCESS_HUGETLB,
  relaxedOrdering: C.IBV_ACCESS_RELAXED_ORDERING,
};

/** The bits of an Access. @throws InvalidArgumentError naming an unknown key */
export function accessBits(access: Access = {}, localWrite = true): number {
  if (typeof access === 'number') return access;
  const wanted: Record<string, boolean | undefined> = { localWrite, ...access };
  let bits = 0;
  for (const [name, on] of Object.entries(wanted)) {
    if (BITS[name] === undefined) {
      throw new InvalidArgumentError(`access has no '${name}'; it takes ${Object.keys(BITS).join(', ')}`);
    }
    if (on) bits |= BITS[name];
  }
  return bits;
}
