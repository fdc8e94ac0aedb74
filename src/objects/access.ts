import * as C from '../verbs/constants.ts';
import { InvalidArgumentError } from '../verbs/errors.ts';

/** Access rights of a memory region or window: IBV_ACCESS_* bits, or their names. */
export type Access =
  | number
  | {
      /** Whether the device may write receives and READ results into the memory. Default true. */
      localWrite?: boolean;
      remoteWrite?: boolean;
      remoteRead?: boolean;
      remoteAtomic?: boolean;
      /** Whether memory windows may be bound to the region. */
      mwBind?: boolean;
      /** Whether remote addresses are offsets, with 0 for the first byte. */
      zeroBased?: boolean;
      /** Whether pages are fetched on demand instead of pinned, on devices that support it (queryDeviceEx().odp). */
      onDemand?: boolean;
      /** Whether all of the memory is on huge pages. */
      hugetlb?: boolean;
      /** Whether writes may overtake each other on PCIe. Devices without relaxed ordering ignore this. */
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

/** Converts access rights to IBV_ACCESS_* bits. @throws InvalidArgumentError naming an unknown key */
export function accessBits(access: Access = {}, localWrite = true): number {
  if (typeof access === 'number') return access;
  const wanted: Record<string, boolean | undefined> = { localWrite, ...access };
  let bits = 0;
  for (const [name, on] of Object.entries(wanted)) {
    if (BITS[name] === undefined) {
      throw new InvalidArgumentError(`unknown access right '${name}'; use ${Object.keys(BITS).join(', ')}`);
    }
    if (on) bits |= BITS[name];
  }
  return bits;
}
