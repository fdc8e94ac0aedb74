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
    };

const BITS: Record<string, number> = {
  localWrite: C.IBV_ACCESS_LOCAL_WRITE,
  remoteWrite: C.IBV_ACCESS_REMOTE_WRITE,
  remoteRead: C.IBV_ACCESS_REMOTE_READ,
  remoteAtomic: C.IBV_ACCESS_REMOTE_ATOMIC,
};

/** The bits of an Access. @throws InvalidArgumentError naming an unknown key */
export function accessBits(access: Access = {}): number {
  if (typeof access === 'number') return access;
  const wanted: Record<string, boolean | undefined> = { localWrite: true, ...access };
  let bits = 0;
  for (const [name, on] of Object.entries(wanted)) {
    if (BITS[name] === undefined) {
      throw new InvalidArgumentError(`access has no '${name}'; it takes ${Object.keys(BITS).join(', ')}`);
    }
    if (on) bits |= BITS[name];
  }
  return bits;
}
