/**
 * Creates, connects and destroys pairs of RC queue pairs on a real device: through the object layer, through the verbs
 * below it, and in a C++ program, in alternation. Prints JSON.
 */
import { execFileSync } from 'node:child_process';
import { performance } from 'node:perf_hooks';
import { type CompletionQueue, Context, type ProtectionDomain } from '#src/objects/index.ts';
import { createRdmaCoreProvider } from '#src/providers/rdma-core/index.ts';
import * as V from '#src/verbs/index.ts';
import { p50 } from '../timing.ts';
import { BUILD } from './null-device.ts';

const DEVICE = process.env.RXE_DEV ?? 'rxe0';
const ROUNDS = Number(process.env.ISOVERBS_ROUNDS ?? 7);
const PAIRS = 100;
const BASELINE = `${BUILD}qp_connect`;

function timed(pairs: number, one: () => void): number {
  const startMs = performance.now();
  for (let i = 0; i < pairs; i++) one();
  return ((performance.now() - startMs) * 1000) / pairs;
}

function objectsOnce(pd: ProtectionDomain, cq: CompletionQueue): void {
  const a = pd.createQp({ sendCq: cq });
  const b = pd.createQp({ sendCq: cq });
  const [ofA, ofB] = [a.endpoint(), b.endpoint()];
  a.connectTo(ofB);
  b.connectTo(ofA);
  a.close();
  b.close();
}

const CAP = { maxSendWr: 128, maxRecvWr: 128, maxSendSge: 2, maxRecvSge: 2, maxInlineData: 0 };
const ACCESS = V.IBV_ACCESS_REMOTE_READ | V.IBV_ACCESS_REMOTE_WRITE | V.IBV_ACCESS_REMOTE_ATOMIC;

function connect(p: V.Provider, qp: number, destQpNum: number, gid: V.GidEntry): void {
  const modify = (attr: V.QpAttr) => p.modifyQp(qp, attr, V.maskOf(attr));
  modify({ qpState: V.IBV_QPS_INIT, pkeyIndex: 0, portNum: 1, qpAccessFlags: ACCESS });
  modify({
    qpState: V.IBV_QPS_RTR,
    pathMtu: V.IBV_MTU_4096,
    destQpNum,
    rqPsn: 7,
    maxDestRdAtomic: 16,
    minRnrTimer: 12,
    ah: { dgid: gid.gid, sgidIndex: gid.index, hopLimit: 64, portNum: 1 },
  });
  modify({ qpState: V.IBV_QPS_RTS, sqPsn: 7, timeout: 14, retryCnt: 6, rnrRetry: 7, maxRdAtomic: 16 });
}

function verbsOnce(p: V.Provider, pd: number, cq: number, gid: V.GidEntry): void {
  const attr = { qpType: V.IBV_QPT_RC, sendCq: cq, recvCq: cq, cap: CAP, sqSigAll: false };
  const a = p.createQp(pd, attr);
  const b = p.createQp(pd, attr);
  connect(p, a.handle, b.qpNum, gid);
  connect(p, b.handle, a.qpNum, gid);
  p.destroyQp(a.handle);
  p.destroyQp(b.handle);
}

function main(): void {
  const context = new Context(createRdmaCoreProvider(), DEVICE);
  const pd = context.allocPd();
  const cq = context.createCq({ channel: null });
  const gid = context.chooseGid();
  const times: Record<'cpp' | 'verbs' | 'objects', number[]> = { cpp: [], verbs: [], objects: [] };
  for (let round = 0; round < ROUNDS; round++) {
    times.cpp.push(Number(execFileSync(BASELINE, [DEVICE, `${gid.index}`, `${PAIRS}`])));
    times.verbs.push(timed(PAIRS, () => verbsOnce(context.provider, pd.handle, cq.handle, gid)));
    times.objects.push(timed(PAIRS, () => objectsOnce(pd, cq)));
  }
  context.close();
  const [cppUs, verbsUs, objectsUs] = [p50(times.cpp), p50(times.verbs), p50(times.objects)];
  const result = {
    benchmark: 'qp-connect',
    device: DEVICE,
    rounds: ROUNDS,
    pairs: PAIRS,
    usPerPair: { cpp: cppUs, verbs: verbsUs, objects: objectsUs },
    ratio: { verbs: verbsUs / cppUs, objects: objectsUs / cppUs },
  };
  console.log(JSON.stringify(result, null, 2));
}

main();
