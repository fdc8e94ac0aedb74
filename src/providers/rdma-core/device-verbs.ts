/** Devices, ports, GIDs. */
import { InvalidArgumentError, shown } from '../../verbs/errors.ts';
import { gidToString } from '../../verbs/gid.ts';
import type { Verbs } from '../../verbs/verbs.ts';
import type { NativeVerbs } from './addon.ts';
import { requireWhole } from './check.ts';

export const PROVIDER_NAME = 'rdma-core';

export function deviceVerbs(native: NativeVerbs) {
  return {
    getDeviceList: () => native.getDeviceList().map((device) => ({ ...device, provider: PROVIDER_NAME })),
    openDevice(name: string) {
      if (typeof name !== 'string') {
        throw new InvalidArgumentError(`openDevice: the name must be a string, got ${shown(name)}`, {
          verb: 'openDevice',
        });
      }
      return native.openDevice(name);
    },
    closeDevice: native.closeDevice,
    queryDevice: native.queryDevice,
    queryPort(context: number, portNum: number) {
      requireWhole('queryPort', 'portNum', portNum, 0, 255);
      return native.queryPort(context, portNum);
    },
    queryGid(context: number, portNum: number, index: number) {
      requireWhole('queryGid', 'portNum', portNum, 0, 255);
      requireWhole('queryGid', 'index', index, 0, 0xffff);
      const { bytes, type, ndevIfindex } = native.queryGid(context, portNum, index);
      return { index, gid: gidToString(bytes), type, ndevIfindex };
    },
    queryDeviceEx: native.queryDeviceEx,
    queryRtValues: native.queryRtValues,
    queryPkey(context: number, portNum: number, index: number) {
      requireWhole('queryPkey', 'portNum', portNum, 0, 255);
      requireWhole('queryPkey', 'index', index, 0, 0xffff);
      return native.queryPkey(context, portNum, index);
    },
    watchAsyncEvents: native.watchAsyncEvents,
    refAsyncEvents: native.refAsyncEvents,
  } satisfies Partial<Verbs>;
}
