/** Devices, ports and GIDs of simulated hosts, and their capabilities beyond ibv_query_device(3). */

import type { NicParams } from '../../sim/profile/params.ts';
import * as C from '../../verbs/constants.ts';
import { NoDeviceError } from '../../verbs/errors.ts';
import { mtuCode } from '../../verbs/names.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { DeviceAttrEx } from '../../verbs/types.ts';
import { unsupportedVerbs } from '../../verbs/verbs.ts';
import { guidOf, type HostNames } from './addresses.ts';
import { requireInteger } from './arguments.ts';
import { deviceAttr, LIMITS, portAttr } from './limits.ts';
import { type Context, type Objects, requireNoChildren } from './objects.ts';
import { maxKbps } from './rate-verbs.ts';
import type { TimePump } from './time-pump.ts';

type DeviceQueries = Pick<
  Provider,
  'queryDeviceEx' | 'queryRtValues' | 'queryPkey' | 'queryQpDataInOrder' | 'queryEce' | 'setEce'
>;

const PACED_TYPES =
  (1 << C.IBV_QPT_RC) | (1 << C.IBV_QPT_UC) | (1 << C.IBV_QPT_UD) | (1 << C.IBV_QPT_XRC_SEND);

/** Full membership of the default partition. */
const DEFAULT_PKEY = 0xffff;

/** IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS: return a set of IBV_QUERY_QP_DATA_IN_ORDER_* bits. */
const RETURN_CAPS = 1;

const WHOLE_MESSAGE = 1;

const ALIGNED_128_BYTES = 2;

export function deviceQueries(pump: TimePump, objects: Objects): DeviceQueries {
  const { contexts, qps } = objects;
  return {
    queryDeviceEx(context) {
      contexts.require(context, 'queryDeviceEx');
      return deviceAttrEx(pump.sim.world.params);
    },
    queryRtValues(context) {
      contexts.require(context, 'queryRtValues');
      return { ticks: BigInt(Math.floor(pump.nowNs)) };
    },
    queryPkey(context, portNum, index) {
      contexts.require(context, 'queryPkey');
      requireInteger('queryPkey', 'portNum', portNum, 1, 1);
      requireInteger('queryPkey', 'index', index, 0, 0);
      return DEFAULT_PKEY;
    },
    queryQpDataInOrder(qp, opcode, flags) {
      qps.require(qp, 'queryQpDataInOrder');
      requireInteger('queryQpDataInOrder', 'opcode', opcode, 0, C.IBV_WR_SEND_WITH_INV);
      requireInteger('queryQpDataInOrder', 'flags', flags, 0, RETURN_CAPS);
      // Packets are executed in the order of their numbers, each once.
      return (flags & RETURN_CAPS) !== 0 ? WHOLE_MESSAGE | ALIGNED_128_BYTES : 1;
    },
    ...unsupportedVerbs({
      queryEce: 'simulated devices do not support enhanced connection establishment',
      setEce: 'simulated devices do not support enhanced connection establishment',
    }),
  };
}

function deviceAttrEx({ linkGbps, rateLimiters }: Readonly<NicParams>): DeviceAttrEx {
  return {
    odp: { general: 0, rc: 0, uc: 0, ud: 0, xrc: 0 },
    // Ticks are nanoseconds of virtual time.
    completionTimestampMask: (1n << 64n) - 1n,
    hcaCoreClockKhz: 1_000_000,
    deviceCapFlagsEx: BigInt(LIMITS.deviceCapFlags),
    tso: { maxTsoBytes: 0, supportedQpTypes: 0 },
    rss: { supportedQpTypes: 0, maxRwqIndirectionTables: 0, maxRwqIndirectionTableSize: 0 },
    maxWqTypeRq: 0,
    rawPacketCaps: 0,
    tagMatching: { maxRndvHdrBytes: 0, maxNumTags: 0, flags: 0, maxOps: 0, maxSge: 0 },
    cqModeration: { maxCount: LIMITS.maxModerationCount, maxPeriodUs: LIMITS.maxModerationPeriodUs },
    packetPacing:
      rateLimiters === 0
        ? { minKbps: 0, maxKbps: 0, supportedQpTypes: 0 }
        : { minKbps: 1, maxKbps: maxKbps(linkGbps), supportedQpTypes: PACED_TYPES },
    maxDeviceMemoryBytes: 0,
    xrc: (LIMITS.deviceCapFlags & C.IBV_DEVICE_XRC) !== 0,
  };
}

type DeviceVerbs = Pick<
  Provider,
  'getDeviceList' | 'openDevice' | 'closeDevice' | 'queryDevice' | 'queryPort' | 'queryGid'
>;

export function deviceVerbs(pump: TimePump, objects: Objects, names: HostNames): DeviceVerbs {
  const { contexts } = objects;
  const { world } = pump.sim;
  const alive = () => world.hosts.filter((host) => !host.dead);
  const onlyPort = (verb: string, portNum: number) => requireInteger(verb, 'portNum', portNum, 1, 1);
  let opened = 0;
  return {
    getDeviceList: () =>
      alive().map(({ index }) => ({
        name: names.deviceName(index),
        provider: names.provider,
        guid: guidOf(index),
        transport: 'InfiniBand',
      })),
    openDevice(name, options) {
      const host = alive().find(({ index }) => name === names.deviceName(index));
      if (host === undefined) {
        const known = alive().map(({ index }) => names.deviceName(index));
        throw new NoDeviceError(
          `openDevice: no device '${name}'; available: ${known.slice(0, 8).join(', ') || 'none'}`,
        );
      }
      opened++;
      const tenant = options?.tenant ?? `context-${opened}`;
      const context: Context = {
        handle: 0,
        host: host.index,
        tenant,
        pds: new Set(),
        cqs: new Set(),
        channels: new Set(),
        xrcds: 0,
        listener: null,
        events: [],
      };
      context.handle = contexts.add(context);
      return context.handle;
    },
    closeDevice(handle) {
      const { pds, cqs, channels, xrcds } = contexts.require(handle, 'closeDevice');
      requireNoChildren('closeDevice', 'context', [
        [pds.size, 'protection domain'],
        [cqs.size, 'completion queue'],
        [channels.size, 'completion channel'],
        [xrcds, 'XRC domain'],
      ]);
      contexts.delete(handle);
    },
    queryDevice: (context) => deviceAttr(contexts.require(context, 'queryDevice').host),
    queryPort(context, portNum) {
      const { host } = contexts.require(context, 'queryPort');
      onlyPort('queryPort', portNum);
      const { linkUp, dead, mtuBytes } = world.hosts[host];
      return portAttr(linkUp && !dead, mtuCode(mtuBytes));
    },
    queryGid(context, portNum, index) {
      const { host } = contexts.require(context, 'queryGid');
      onlyPort('queryGid', portNum);
      requireInteger('queryGid', 'index', index, 0, LIMITS.gidTableLength - 1);
      return names.gidEntry(host, index);
    },
  };
}
