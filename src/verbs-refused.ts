/**
 * Verbs that isoverbs does not support, under their C names. Each throws an UnsupportedError that says what is
 * unsupported and what to use instead.
 */
import { EOPNOTSUPP, UnsupportedError } from './verbs/index.ts';

function refused(verb: string, what: string, instead: string): () => never {
  return () => {
    throw new UnsupportedError(`${verb}: isoverbs does not support ${what}; ${instead}`, {
      verb,
      errno: EOPNOTSUPP,
    });
  };
}

const RAW = 'to send raw packets, use a raw or AF_XDP socket';
const DOMAINS = 'use an ordinary protection domain (ibv_alloc_pd)';
const RSS = 'to share receives between queue pairs, use ibv_create_srq';
const DEVICE_MEMORY =
  'use host memory (iso_alloc_mr), or import the memory of another device (ibv_reg_dmabuf_mr)';
const COUNTERS = 'count completions, or read /sys/class/infiniband/*/ports/*/hw_counters';
const BUFFERS = 'use iso_alloc_mr, which allocates and registers memory';
const DMA_HANDLES = 'register the memory without a DMA handle';
const FORK = 'Node.js always starts a child as a new program, which inherits no objects of verbs';
const TAGS = 'create a queue of type IBV_SRQT_BASIC with ibv_create_srq, and match tags in the program';

/** ibv_create_flow(3): packets steered to raw queue pairs. Refused. */
export const ibv_create_flow = refused('ibv_create_flow', 'flow steering', RAW);
/** ibv_destroy_flow(3). Refused. */
export const ibv_destroy_flow = refused('ibv_destroy_flow', 'flow steering', RAW);
/** ibv_alloc_td(3): thread domains. Refused. */
export const ibv_alloc_td = refused('ibv_alloc_td', 'thread domains', DOMAINS);
/** ibv_dealloc_td(3). Refused. */
export const ibv_dealloc_td = refused('ibv_dealloc_td', 'thread domains', DOMAINS);
/** ibv_alloc_parent_domain(3). Refused. */
export const ibv_alloc_parent_domain = refused('ibv_alloc_parent_domain', 'parent domains', DOMAINS);
/** ibv_create_wq(3): separate receive work queues, for RSS. Refused. */
export const ibv_create_wq = refused('ibv_create_wq', 'work queues that are separate from queue pairs', RSS);
/** ibv_modify_wq(3). Refused. */
export const ibv_modify_wq = refused('ibv_modify_wq', 'work queues that are separate from queue pairs', RSS);
/** ibv_destroy_wq(3). Refused. */
export const ibv_destroy_wq = refused(
  'ibv_destroy_wq',
  'work queues that are separate from queue pairs',
  RSS,
);
/** ibv_create_rwq_ind_table(3). Refused. */
export const ibv_create_rwq_ind_table = refused('ibv_create_rwq_ind_table', 'RSS indirection tables', RSS);
/** ibv_destroy_rwq_ind_table(3). Refused. */
export const ibv_destroy_rwq_ind_table = refused('ibv_destroy_rwq_ind_table', 'RSS indirection tables', RSS);
/** ibv_alloc_dm(3): memory on the NIC. Refused. */
export const ibv_alloc_dm = refused('ibv_alloc_dm', 'device memory', DEVICE_MEMORY);
/** ibv_free_dm(3). Refused. */
export const ibv_free_dm = refused('ibv_free_dm', 'device memory', DEVICE_MEMORY);
/** ibv_reg_dm_mr(3). Refused. */
export const ibv_reg_dm_mr = refused('ibv_reg_dm_mr', 'device memory', DEVICE_MEMORY);
/** ibv_create_counters(3). Refused. */
export const ibv_create_counters = refused('ibv_create_counters', 'counters', COUNTERS);
/** ibv_destroy_counters(3). Refused. */
export const ibv_destroy_counters = refused('ibv_destroy_counters', 'counters', COUNTERS);
/** ibv_read_counters(3). Refused. */
export const ibv_read_counters = refused('ibv_read_counters', 'counters', COUNTERS);
/** ibv_post_srq_ops(3): tag matching. Refused. */
export const ibv_post_srq_ops = refused('ibv_post_srq_ops', 'tag matching', TAGS);
/** ibv_import_device(3): objects shared between processes. Refused. */
export const ibv_import_device = refused(
  'ibv_import_device',
  'objects that are shared between processes',
  'open the device in each process',
);
/** ibv_import_pd(3). Refused. */
export const ibv_import_pd = refused(
  'ibv_import_pd',
  'objects that are shared between processes',
  'allocate a domain in each process',
);
/** ibv_import_mr(3). Refused. */
export const ibv_import_mr = refused(
  'ibv_import_mr',
  'objects that are shared between processes',
  'register the shared memory in each process',
);
/** ibv_alloc_buf(3): memory that the provider chooses, for confidential guests. Refused. */
export const ibv_alloc_buf = refused('ibv_alloc_buf', 'buffers that the driver allocates', BUFFERS);
/** ibv_free_buf(3). Refused. */
export const ibv_free_buf = refused('ibv_free_buf', 'buffers that the driver allocates', BUFFERS);
/** ibv_reg_buf_mr(3). Refused. */
export const ibv_reg_buf_mr = refused('ibv_reg_buf_mr', 'buffers that the driver allocates', BUFFERS);
/** ibv_alloc_dmah(3): hints about the destination of DMA (TPH). Refused. */
export const ibv_alloc_dmah = refused('ibv_alloc_dmah', 'DMA handles', DMA_HANDLES);
/** ibv_dealloc_dmah(3). Refused. */
export const ibv_dealloc_dmah = refused('ibv_dealloc_dmah', 'DMA handles', DMA_HANDLES);
/** ibv_fork_init(3). Refused. */
export const ibv_fork_init = refused('ibv_fork_init', 'fork', FORK);
/** ibv_is_fork_initialized(3). Refused. */
export const ibv_is_fork_initialized = refused('ibv_is_fork_initialized', 'fork', FORK);
