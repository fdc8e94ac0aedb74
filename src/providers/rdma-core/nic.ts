/** The facts that rdma-core reports about a NIC: its link rate. Others are in data sheets or must be measured. */
import { type NicFacts, UNMEASURED } from '../../verbs/nic.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { PortAttr } from '../../verbs/types.ts';

/** Lanes by active_width (ibv_query_port(3)). */
const LANES = new Map([
  [1, 1],
  [2, 4],
  [4, 8],
  [8, 12],
  [16, 2],
]);
/** Gbit/s per lane by active_speed, for links named SDR, DDR, QDR, FDR10, FDR, EDR, HDR and NDR. */
const LANE_GBPS = new Map([
  [1, 2.5],
  [2, 5],
  [4, 10],
  [8, 10],
  [16, 14],
  [32, 25],
  [64, 50],
  [128, 100],
]);
const MTU_BASE_BYTES = 128;

/** Vendor ids of rdma_rxe and siw in ibv_query_device(3): drivers that execute requests on a CPU. */
const SOFTWARE_VENDORS: ReadonlySet<number> = new Set([0xffffff, 0x626d74]);

/** The rate of a port in Gbit/s; null for unknown codes. */
export function linkGbpsOf({ activeWidth, activeSpeed }: Pick<PortAttr, 'activeWidth' | 'activeSpeed'>) {
  const lanes = LANES.get(activeWidth);
  const laneGbps = LANE_GBPS.get(activeSpeed);
  return lanes === undefined || laneGbps === undefined ? null : lanes * laneGbps;
}

/** Describes the first port, the only one that isoverbs' policies consider. */
export function describeNic(native: Pick<Provider, 'queryPort' | 'queryDevice'>, context: number): NicFacts {
  const port = native.queryPort(context, 1);
  return {
    linkGbps: linkGbpsOf(port),
    mtuBytes: MTU_BASE_BYTES * 2 ** port.activeMtu,
    headerBytes: null,
    wqeGapNs: null,
    waitStepNs: null,
    atomicGapNs: null,
    processingUnits: null,
    arbitrates: SOFTWARE_VENDORS.has(native.queryDevice(context).vendorId) ? false : null,
    egressFifoBytes: null,
    latencyNs: null,
    cachedQps: null,
    handoverNs: null,
    pipeline: null,
    ...UNMEASURED,
  };
}
