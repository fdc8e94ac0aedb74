/** Attributes and limits of simulated devices, modelled on those of soft-RoCE. */

import type { NicParams } from '../../sim/profile/params.ts';
import { MAX_MESSAGE_BYTES } from '../../sim/queues/post.ts';
import * as C from '../../verbs/constants.ts';
import { type NicFacts, type PipelineFacts, UNMEASURED } from '../../verbs/nic.ts';
import type { DeviceAttr, PortAttr } from '../../verbs/types.ts';
import { guidOf } from './addresses.ts';

export const LIMITS = {
  maxQp: 1 << 17,
  maxQpWr: 32768,
  maxSge: 32,
  maxCq: 1 << 17,
  maxCqe: 1 << 22,
  maxMr: 1 << 22,
  maxPd: 1 << 17,
  maxQpRdAtom: 16,
  maxInlineData: 512,
  maxMrSizeBytes: 2 ** 40,
  gidTableLength: 4,
  ringCapacity: 1 << 20,
  maxMw: 1 << 20,
  maxSrq: 1 << 17,
  maxAh: 1 << 17,
  /** The same values as in rxe. */
  maxMcastGrp: 8192,
  maxMcastQpAttach: 56,
  /** Completion vectors differ only in their number. */
  compVectors: 8,
  maxModerationCount: 0xffff,
  maxModerationPeriodUs: 0xffff,
  deviceCapFlags:
    C.IBV_DEVICE_CURR_QP_STATE_MOD |
    C.IBV_DEVICE_PORT_ACTIVE_EVENT |
    C.IBV_DEVICE_SRQ_RESIZE |
    C.IBV_DEVICE_XRC |
    C.IBV_DEVICE_SYS_IMAGE_GUID |
    C.IBV_DEVICE_RC_RNR_NAK_GEN |
    C.IBV_DEVICE_MEM_WINDOW |
    C.IBV_DEVICE_MEM_MGT_EXTENSIONS |
    C.IBV_DEVICE_MEM_WINDOW_TYPE_2B,
} as const;

export function deviceAttr(index: number): DeviceAttr {
  return {
    fwVer: '0.1',
    nodeGuid: guidOf(index),
    vendorId: 0,
    vendorPartId: 0,
    hwVer: 0,
    maxMrSizeBytes: LIMITS.maxMrSizeBytes,
    maxQp: LIMITS.maxQp,
    maxQpWr: LIMITS.maxQpWr,
    maxSge: LIMITS.maxSge,
    maxSgeRd: LIMITS.maxSge,
    maxCq: LIMITS.maxCq,
    maxCqe: LIMITS.maxCqe,
    maxMr: LIMITS.maxMr,
    maxPd: LIMITS.maxPd,
    maxQpRdAtom: LIMITS.maxQpRdAtom,
    maxQpInitRdAtom: LIMITS.maxQpRdAtom,
    atomicCap: 1,
    maxSrq: LIMITS.maxSrq,
    maxSrqWr: LIMITS.maxQpWr,
    maxSrqSge: LIMITS.maxSge,
    maxAh: LIMITS.maxAh,
    maxMw: LIMITS.maxMw,
    maxPkeys: 1,
    maxMcastGrp: LIMITS.maxMcastGrp,
    maxMcastQpAttach: LIMITS.maxMcastQpAttach,
    maxTotalMcastQpAttach: LIMITS.maxMcastGrp * LIMITS.maxMcastQpAttach,
    localCaAckDelay: 0,
    sysImageGuid: guidOf(index),
    physPortCnt: 1,
    deviceCapFlags: LIMITS.deviceCapFlags,
  };
}

/** Bytes of an entry of a region or page (nic/context-caches.ts). */
const CACHE_LINE_BYTES = 64;

/** Timing facts of the NIC. Without WAIT support, the facts about WAIT are null. */
export function nicFacts(params: NicParams, waits: boolean): NicFacts {
  const { linkGbps, mtuBytes, headerBytes, wqeGapNs, waitStepNs, processingUnits, egressFifoBytes } = params;
  const { mmioNs, dmaReadNs, enableStepNs } = params;
  const answerNs = 2 * (params.propagationNs + params.rxNs) + params.ackReturnNs;
  const doneNs = wqeGapNs + answerNs + params.cqeWriteNs + params.dmaWriteNs;
  return {
    linkGbps,
    mtuBytes,
    headerBytes,
    wqeGapNs,
    waitStepNs: waits ? waitStepNs : null,
    atomicGapNs: params.atomicGapNs,
    processingUnits,
    arbitrates: processingUnits > 1,
    egressFifoBytes,
    latencyNs: mmioNs + 2 * dmaReadNs + doneNs,
    cachedQps: Number.isFinite(params.qpcEntries) ? params.qpcEntries : null,
    handoverNs: waits ? enableStepNs + dmaReadNs + doneNs : null,
    pipeline: pipelineFacts(params),
    ...UNMEASURED,
  };
}

function pipelineFacts(params: NicParams): PipelineFacts {
  const { pcieGbps, wqeBytes, cqeBytes, readAheadBytes, dmaReadNs, mptEntries, mttEntries, pageBytes } =
    params;
  const limit = (value: number) => (Number.isFinite(value) ? value : null);
  return {
    pcieGbps: limit(pcieGbps),
    wqeBytes,
    cqeBytes,
    // The model fetches receives ahead of their use, without bytes.
    receiveBytes: 0,
    carriesWqe: params.blueFlame === 1,
    readAheadBytes,
    contextBytes: params.qpcBytes,
    entryBytes: CACHE_LINE_BYTES,
    dmaReadNs,
    cachedRegions: limit(mptEntries),
    cachedPages: limit(mttEntries),
    pageBytes,
    receiverGapNs: params.rxGapNs,
    readGapNs: params.readGapNs,
    ackEveryPackets: params.ackBytes > 0 ? params.ackEveryPackets : 0,
    acksEachMessage: params.ackRequests === 'message',
  };
}

export function portAttr(up: boolean, mtu: number): PortAttr {
  return {
    state: up ? C.IBV_PORT_ACTIVE : C.IBV_PORT_DOWN,
    maxMtu: C.IBV_MTU_4096,
    activeMtu: mtu,
    gidTblLen: LIMITS.gidTableLength,
    portCapFlags: 0,
    maxMsgSizeBytes: MAX_MESSAGE_BYTES,
    pkeyTblLen: 1,
    lid: 0,
    smLid: 0,
    lmc: 0,
    // 4 lanes of 25 Gbps (EDR), like a 100 Gbps port.
    activeWidth: 2,
    activeSpeed: 32,
    physState: up ? 5 : 3,
    linkLayer: 'Ethernet',
  };
}
