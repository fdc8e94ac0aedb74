// isoverbs/verbs: a whole program written with the C names, on this test's provider.
import { afterAll, expect, test } from 'vitest';
import { createFabric } from '../../src/providers/sim/index.ts';
import * as v from '../../src/verbs-c.ts';
import * as refused from '../../src/verbs-refused.ts';

v.iso_use_provider(createFabric({ hosts: 1 }).provider);
afterAll(() => v.iso_use_provider(null));

test('a program with the C names opens, registers, connects to itself, writes, polls and closes', () => {
  const [device] = v.ibv_get_device_list();
  expect(v.ibv_get_device_name(device)).toBe('sim0');
  const context = v.ibv_open_device(device);
  expect(v.ibv_query_device(context).physPortCnt).toBe(1);
  const port = v.ibv_query_port(context, 1);
  const { gid } = v.ibv_query_gid(context, 1, 1);
  const pd = v.ibv_alloc_pd(context);
  const memory = new SharedArrayBuffer(64);
  const bytes = new Uint8Array(memory);
  const mr = v.ibv_reg_mr(pd, memory, 0, 64, v.IBV_ACCESS_LOCAL_WRITE | v.IBV_ACCESS_REMOTE_WRITE);
  const cq = v.ibv_create_cq(context, 16, 0);
  const cap = { maxSendWr: 4, maxRecvWr: 4, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
  const init = { qpType: v.IBV_QPT_RC, sendCq: cq.handle, recvCq: cq.handle, cap, sqSigAll: false };
  const qp = v.ibv_create_qp(pd, init);
  for (const attr of [
    { qpState: v.IBV_QPS_INIT, pkeyIndex: 0, portNum: 1, qpAccessFlags: v.IBV_ACCESS_REMOTE_WRITE },
    {
      qpState: v.IBV_QPS_RTR,
      pathMtu: port.activeMtu,
      destQpNum: qp.qpNum,
      rqPsn: 0,
      maxDestRdAtomic: 1,
      minRnrTimer: 12,
      ah: { dgid: gid, sgidIndex: 1, hopLimit: 1, portNum: 1 },
    },
    { qpState: v.IBV_QPS_RTS, sqPsn: 0, timeout: 14, retryCnt: 6, rnrRetry: 6, maxRdAtomic: 1 },
  ]) {
    v.ibv_modify_qp(qp.handle, attr, v.maskOf(attr));
  }
  expect(v.ibv_query_qp(qp.handle).attr.qpState).toBe(v.IBV_QPS_RTS);

  bytes[0] = 42;
  const batch = new v.SendBatch(v.iso_provider(), { capacity: 1 });
  batch.write(7, v.IBV_SEND_SIGNALED, mr.addr, 1, mr.lkey, mr.addr + 32, mr.rkey);
  expect(v.ibv_post_send(qp.handle, batch.ring, 0, 1)).toBe(1);
  const wc = new v.WcBatch(v.iso_provider(), { capacity: 4 });
  let n = 0;
  while (n === 0) n = v.ibv_poll_cq(cq.handle, wc.ring, 0, 4);
  expect([n, wc.wrId(0), v.ibv_wc_status_str(wc.status(0)), bytes[32]]).toEqual([1, 7, 'SUCCESS', 42]);

  v.ibv_destroy_qp(qp.handle);
  v.ibv_destroy_cq(cq.handle);
  v.ibv_dereg_mr(mr.handle);
  v.ibv_dealloc_pd(pd);
  for (const ring of [batch, wc]) ring.close();
  v.ibv_close_device(context);
});

test('every verb has an ibv_ or iso_ name', () => {
  const named = Object.keys(v).filter((name) => /^(ibv|iso)_/.test(name) && !(name in refused));
  // Two more names wrap no verb (ibv_get_device_name, ibv_wc_status_str), and two select the provider.
  expect(named.length).toBe(v.VERB_NAMES.length + 4);
});

test('unsupported verbs throw, and name an alternative', () => {
  const verbs = v as unknown as Record<string, () => void>;
  for (const name of Object.keys(refused)) {
    expect(verbs[name]).toThrow(
      expect.objectContaining({
        code: 'ISO_ERR_UNSUPPORTED',
        verb: name,
        message: expect.stringMatching(/; \w/),
      }),
    );
  }
  expect(Object.keys(refused)).toContain('ibv_create_flow');
});

test('a device that is neither a name nor an entry of the list is refused', () => {
  for (const device of [undefined, null, {}, 5] as never[]) {
    expect(() => v.ibv_open_device(device)).toThrow(v.InvalidArgumentError);
    expect(() => v.ibv_open_device(device)).toThrow('ibv_open_device: the device must be a name or an entry');
    expect(() => v.ibv_get_device_name(device)).toThrow('ibv_get_device_name: the device must be');
  }
});
