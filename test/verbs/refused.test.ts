// What is out of scope on every provider (rdma-core's test_flow.py, test_parent_domain.py, test_tag_matching.py ...).
import * as refusedVerbs from '../../src/verbs-refused.ts';
import { feature } from './ground.ts';

const calls: Record<string, () => never> = { ...refusedVerbs };

const GROUPS: readonly [group: string, feature: string, verb: keyof typeof refusedVerbs, others: string][] = [
  ['flow', 'flow steering', 'ibv_create_flow', 'raw packet queue pairs: out of scope'],
  ['parent_domain', 'thread domains', 'ibv_alloc_td', 'out of scope: batches take one lock each'],
  ['parent_domain', 'parent domains', 'ibv_alloc_parent_domain', 'out of scope'],
  ['dm', 'device memory', 'ibv_alloc_dm', 'ConnectX-5 and later: out of scope'],
  ['rss_traffic', 'receive work queues', 'ibv_create_wq', 'raw packet queue pairs: out of scope'],
  ['rss_traffic', 'receive side scaling', 'ibv_create_rwq_ind_table', 'raw packet queue pairs: out of scope'],
  ['flow', 'counters', 'ibv_create_counters', 'out of scope'],
  ['tag_matching', 'tag matching', 'ibv_post_srq_ops', 'ConnectX-5 and later: out of scope'],
];

for (const [group, name, verb, others] of GROUPS) {
  feature(name, { group, refusedBy: ['sim', 'rxe'], others }, (it) => {
    it(`${verb} says that it is not there`, () => calls[verb]());
  });
}
