// Verbs that are out of scope on every provider (rdma-core's test_flow.py, test_parent_domain.py, test_tag_matching.py
// ...).
import * as refusedVerbs from '../../src/verbs-refused.ts';
import { feature } from './ground.ts';

const calls: Record<string, () => never> = { ...refusedVerbs };

const GROUPS: readonly [group: string, feature: string, verb: keyof typeof refusedVerbs, others: string][] = [
  ['flow', 'flow steering', 'ibv_create_flow', 'raw packet queue pairs: out of scope'],
  ['parent_domain', 'thread domains', 'ibv_alloc_td', 'out of scope: batches take one lock each'],
  ['parent_domain', 'parent domains', 'ibv_alloc_parent_domain', 'out of scope'],
  ['dm', 'device memory', 'ibv_alloc_dm', 'ConnectX-5 and later: out of scope'],
  ['dm', 'device memory', 'ibv_free_dm', 'ConnectX-5 and later: out of scope'],
  ['dm', 'device memory', 'ibv_reg_dm_mr', 'ConnectX-5 and later: out of scope'],
  ['rss_traffic', 'receive work queues', 'ibv_create_wq', 'raw packet queue pairs: out of scope'],
  ['rss_traffic', 'receive side scaling', 'ibv_create_rwq_ind_table', 'raw packet queue pairs: out of scope'],
  ['flow', 'counters', 'ibv_create_counters', 'out of scope'],
  ['buf', 'buffers of the driver', 'ibv_alloc_buf', 'out of scope'],
  ['buf', 'buffers of the driver', 'ibv_free_buf', 'out of scope'],
  ['buf', 'buffers of the driver', 'ibv_reg_buf_mr', 'out of scope'],
  ['dmah', 'DMA handles', 'ibv_alloc_dmah', 'out of scope'],
  ['dmah', 'DMA handles', 'ibv_dealloc_dmah', 'out of scope'],
  ['fork', 'fork support', 'ibv_fork_init', 'out of scope: Node.js does not fork'],
  ['fork', 'fork support', 'ibv_is_fork_initialized', 'out of scope: Node.js does not fork'],
  ['tag_matching', 'tag matching', 'ibv_post_srq_ops', 'ConnectX-5 and later: out of scope'],
];

for (const [group, name, verb, others] of GROUPS) {
  feature(name, { group, refusedBy: ['sim', 'soft', 'rxe'], others }, (it) => {
    it(`${verb} throws UnsupportedError`, () => calls[verb]());
  });
}
