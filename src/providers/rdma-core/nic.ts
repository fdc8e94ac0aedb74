/** What rdma-core says of a NIC's pipeline: its link. The rest is in data sheets, or to be measured. */
import type { NicFacts } from '../../verbs/nic.ts';
import type { PortAttr } from '../../verbs/types.ts';
import type { NativeVerbs } from './addon.ts';

/** active_width (ibv_query_port(3)): lanes. */
const LANES = new Map([
  [1, 1],
  [2, 4],
  [4, 8],
  [8, 12],
  [16, 2],
]);
/** active_speed: Gbit/s of a lane, as links are named by them: SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR. */
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

/** The rate of a port in Gbit/s; null for codes that nobody knows. */
export function linkGbpsOf({ activeWidth, activeSpeed }: Pick<PortAttr, 'activeWidth' | 'activeSpeed'>) {
  const lanes = LANES.get(activeWidth);
  const laneGbps = LANE_GBPS.get(activeSpeed);
  return lanes === undefined || laneGbps === undefined ? null : lanes * laneGbps;
}

/** Of the first port: isoverbs' policies know one. */
export function describeNic(native: Pick<NativeVerbs, 'queryPort'>, context: number): NicFacts {
  const port = native.queryPort(context, 1);
  return {
    linkGbps: linkGbpsOf(port),
    mtuBytes: MTU_BASE_BYTES * 2 ** port.activeMtu,
    headerBytes: null,
    wqeGapNs: null,
    waitStepNs: null,
    processingUnits: null,
    egressFifoBytes: null,
    latencyNs: null,
    handoverNs: null,
  };
}
