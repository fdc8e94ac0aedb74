/**
 * The numbers of libibverbs, under their C names (`infiniband/verbs.h`), so that one value means the same
 * in TypeScript, in the packed rings and in the addon.
 */

/** ibv_wr_opcode */
export const IBV_WR_RDMA_WRITE = 0;
export const IBV_WR_RDMA_WRITE_WITH_IMM = 1;
export const IBV_WR_SEND = 2;
export const IBV_WR_SEND_WITH_IMM = 3;
export const IBV_WR_RDMA_READ = 4;
export const IBV_WR_ATOMIC_CMP_AND_SWP = 5;
export const IBV_WR_ATOMIC_FETCH_AND_ADD = 6;
export const IBV_WR_LOCAL_INV = 7;
export const IBV_WR_BIND_MW = 8;
export const IBV_WR_SEND_WITH_INV = 9;
/** Stalls its send queue until a CQ has `count` more completions; with count 0 it only gives up the queue pair's turn. */
export const ISO_WR_WAIT = 64;
/** Allows `count` more work requests of a managed QP (0: all that are posted). */
export const ISO_WR_ENABLE = 65;

/** ibv_send_flags */
export const IBV_SEND_FENCE = 1;
export const IBV_SEND_SIGNALED = 2;
export const IBV_SEND_SOLICITED = 4;
export const IBV_SEND_INLINE = 8;
/** Internal work request of a shim: `sqSigAll` does not signal it; only IBV_SEND_SIGNALED does. */
export const ISO_SEND_INTERNAL = 128;

/** ibv_wc_status */
export const IBV_WC_SUCCESS = 0;
export const IBV_WC_LOC_LEN_ERR = 1;
export const IBV_WC_LOC_QP_OP_ERR = 2;
export const IBV_WC_LOC_PROT_ERR = 4;
export const IBV_WC_WR_FLUSH_ERR = 5;
export const IBV_WC_MW_BIND_ERR = 6;
export const IBV_WC_BAD_RESP_ERR = 7;
export const IBV_WC_LOC_ACCESS_ERR = 8;
export const IBV_WC_REM_INV_REQ_ERR = 9;
export const IBV_WC_REM_ACCESS_ERR = 10;
export const IBV_WC_REM_OP_ERR = 11;
export const IBV_WC_RETRY_EXC_ERR = 12;
export const IBV_WC_RNR_RETRY_EXC_ERR = 13;
export const IBV_WC_REM_ABORT_ERR = 16;
export const IBV_WC_FATAL_ERR = 20;
export const IBV_WC_RESP_TIMEOUT_ERR = 21;
export const IBV_WC_GENERAL_ERR = 22;

/** ibv_wc_opcode */
export const IBV_WC_SEND = 0;
export const IBV_WC_RDMA_WRITE = 1;
export const IBV_WC_RDMA_READ = 2;
export const IBV_WC_COMP_SWAP = 3;
export const IBV_WC_FETCH_ADD = 4;
export const IBV_WC_BIND_MW = 5;
export const IBV_WC_LOCAL_INV = 6;
/** Opcode of a signaled WAIT or ENABLE (mlx5 uses IBV_WC_DRIVER2 too). */
export const IBV_WC_DRIVER2 = 136;
export const IBV_WC_RECV = 128;
export const IBV_WC_RECV_RDMA_WITH_IMM = 129;

/** ibv_wc_flags */
export const IBV_WC_GRH = 1;
export const IBV_WC_WITH_IMM = 2;
export const IBV_WC_WITH_INV = 8;

// ibv_create_cq_wc_flags: what an extended completion queue reports in addition to the plain completion
/** The fields of a plain completion, which an extended queue always reports. */
export const IBV_WC_STANDARD_FLAGS = 0x7f;
export const IBV_WC_EX_WITH_COMPLETION_TIMESTAMP = 1 << 7;
export const IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK = 1 << 11;

/** ibv_access_flags */
export const IBV_ACCESS_LOCAL_WRITE = 1;
export const IBV_ACCESS_REMOTE_WRITE = 2;
export const IBV_ACCESS_REMOTE_READ = 4;
export const IBV_ACCESS_REMOTE_ATOMIC = 8;
export const IBV_ACCESS_MW_BIND = 16;
/** Remote addresses count from 0 at the first byte of the region or window. */
export const IBV_ACCESS_ZERO_BASED = 32;
export const IBV_ACCESS_ON_DEMAND = 64;
export const IBV_ACCESS_HUGETLB = 128;
/** Optional: a device that does not support this flag ignores it. */
export const IBV_ACCESS_RELAXED_ORDERING = 1 << 20;

/** Flags that a device may ignore: bits 20 to 29. */
export const IBV_ACCESS_OPTIONAL_RANGE = 0x3ff00000;

/** ibv_rereg_mr_flags */
export const IBV_REREG_MR_CHANGE_TRANSLATION = 1;
export const IBV_REREG_MR_CHANGE_PD = 2;
export const IBV_REREG_MR_CHANGE_ACCESS = 4;

/** ibv_mw_type */
export const IBV_MW_TYPE_1 = 1;
export const IBV_MW_TYPE_2 = 2;

/** ibv_qp_type */
export const IBV_QPT_RC = 2;
export const IBV_QPT_UC = 3;
export const IBV_QPT_UD = 4;
/** Sending half of an extended reliable connection. */
export const IBV_QPT_XRC_SEND = 9;
/** Receiving half: its messages land in the shared receive queues that they name. */
export const IBV_QPT_XRC_RECV = 10;

/** ibv_srq_type, ibv_srq_attr_mask */
export const IBV_SRQT_BASIC = 0;
export const IBV_SRQT_XRC = 1;
export const IBV_SRQT_TM = 2;
export const IBV_SRQ_MAX_WR = 1;
export const IBV_SRQ_LIMIT = 2;

/** ibv_qp_state */
export const IBV_QPS_RESET = 0;
export const IBV_QPS_INIT = 1;
export const IBV_QPS_RTR = 2;
export const IBV_QPS_RTS = 3;
export const IBV_QPS_SQD = 4;
export const IBV_QPS_SQE = 5;
export const IBV_QPS_ERR = 6;

/** ibv_qp_attr_mask */
export const IBV_QP_STATE = 1 << 0;
export const IBV_QP_CUR_STATE = 1 << 1;
export const IBV_QP_EN_SQD_ASYNC_NOTIFY = 1 << 2;
export const IBV_QP_ACCESS_FLAGS = 1 << 3;
export const IBV_QP_PKEY_INDEX = 1 << 4;
export const IBV_QP_PORT = 1 << 5;
export const IBV_QP_QKEY = 1 << 6;
export const IBV_QP_AV = 1 << 7;
export const IBV_QP_PATH_MTU = 1 << 8;
export const IBV_QP_TIMEOUT = 1 << 9;
export const IBV_QP_RETRY_CNT = 1 << 10;
export const IBV_QP_RNR_RETRY = 1 << 11;
export const IBV_QP_RQ_PSN = 1 << 12;
export const IBV_QP_MAX_QP_RD_ATOMIC = 1 << 13;
export const IBV_QP_ALT_PATH = 1 << 14;
export const IBV_QP_MIN_RNR_TIMER = 1 << 15;
export const IBV_QP_SQ_PSN = 1 << 16;
export const IBV_QP_MAX_DEST_RD_ATOMIC = 1 << 17;
export const IBV_QP_PATH_MIG_STATE = 1 << 18;
export const IBV_QP_CAP = 1 << 19;
export const IBV_QP_DEST_QPN = 1 << 20;
export const IBV_QP_RATE_LIMIT = 1 << 25;
/** Labels of a queue pair (labels.ts), which the device never sees: qpWeight, group, traffic. */
export const ISO_QP_WEIGHT = 1 << 28;
export const ISO_QP_GROUP = 1 << 29;
export const ISO_QP_TRAFFIC = 1 << 30;

/** Kinds of traffic that a program may declare. PeRF calls the last three D, M and B. */
export const ISO_TRAFFIC_UNDECLARED = 0;
/** Few requests at a time, each of which is waited for. */
export const ISO_TRAFFIC_LATENCY = 1;
/** Many small requests at a time. */
export const ISO_TRAFFIC_THROUGHPUT = 2;
/** Large messages. */
export const ISO_TRAFFIC_BANDWIDTH = 3;

/** ibv_event_type */
export const IBV_EVENT_CQ_ERR = 0;
export const IBV_EVENT_QP_FATAL = 1;
export const IBV_EVENT_QP_REQ_ERR = 2;
export const IBV_EVENT_QP_ACCESS_ERR = 3;
export const IBV_EVENT_COMM_EST = 4;
export const IBV_EVENT_SQ_DRAINED = 5;
export const IBV_EVENT_PATH_MIG = 6;
export const IBV_EVENT_PATH_MIG_ERR = 7;
export const IBV_EVENT_DEVICE_FATAL = 8;
export const IBV_EVENT_PORT_ACTIVE = 9;
export const IBV_EVENT_PORT_ERR = 10;
export const IBV_EVENT_LID_CHANGE = 11;
export const IBV_EVENT_PKEY_CHANGE = 12;
export const IBV_EVENT_SM_CHANGE = 13;
export const IBV_EVENT_SRQ_ERR = 14;
export const IBV_EVENT_SRQ_LIMIT_REACHED = 15;
export const IBV_EVENT_QP_LAST_WQE_REACHED = 16;
export const IBV_EVENT_CLIENT_REREGISTER = 17;
export const IBV_EVENT_GID_CHANGE = 18;
export const IBV_EVENT_WQ_FATAL = 19;

/** rdma_port_space */
export const RDMA_PS_TCP = 0x0106;
export const RDMA_PS_UDP = 0x0111;
/**
 * For responderResources and initiatorDepth: as many as the device supports; in accept, no more than the peer requests.
 */
export const RDMA_MAX_RESP_RES = 0xff;
export const RDMA_MAX_INIT_DEPTH = 0xff;

/** Q_Key of all datagrams of RDMA_PS_UDP. */
export const RDMA_UDP_QKEY = 0x01234567;

/** rdma_cm_event_type */
export const RDMA_CM_EVENT_ADDR_RESOLVED = 0;
export const RDMA_CM_EVENT_ADDR_ERROR = 1;
export const RDMA_CM_EVENT_ROUTE_RESOLVED = 2;
export const RDMA_CM_EVENT_ROUTE_ERROR = 3;
export const RDMA_CM_EVENT_CONNECT_REQUEST = 4;
export const RDMA_CM_EVENT_CONNECT_RESPONSE = 5;
export const RDMA_CM_EVENT_CONNECT_ERROR = 6;
export const RDMA_CM_EVENT_UNREACHABLE = 7;
export const RDMA_CM_EVENT_REJECTED = 8;
export const RDMA_CM_EVENT_ESTABLISHED = 9;
export const RDMA_CM_EVENT_DISCONNECTED = 10;
export const RDMA_CM_EVENT_DEVICE_REMOVAL = 11;
export const RDMA_CM_EVENT_MULTICAST_JOIN = 12;
export const RDMA_CM_EVENT_MULTICAST_ERROR = 13;
export const RDMA_CM_EVENT_ADDR_CHANGE = 14;
export const RDMA_CM_EVENT_TIMEWAIT_EXIT = 15;

/** ibv_device_cap_flags */
export const IBV_DEVICE_RESIZE_MAX_WR = 1 << 0;
export const IBV_DEVICE_UD_AV_PORT_ENFORCE = 1 << 6;
export const IBV_DEVICE_CURR_QP_STATE_MOD = 1 << 7;
export const IBV_DEVICE_PORT_ACTIVE_EVENT = 1 << 10;
export const IBV_DEVICE_SYS_IMAGE_GUID = 1 << 11;
export const IBV_DEVICE_RC_RNR_NAK_GEN = 1 << 12;
export const IBV_DEVICE_SRQ_RESIZE = 1 << 13;
/** Memory windows of type 1. */
export const IBV_DEVICE_MEM_WINDOW = 1 << 17;
export const IBV_DEVICE_XRC = 1 << 20;
/** SEND_WITH_INV and LOCAL_INV (and, in the kernel, fast registration). */
export const IBV_DEVICE_MEM_MGT_EXTENSIONS = 1 << 21;
export const IBV_DEVICE_MEM_WINDOW_TYPE_2A = 1 << 23;
/** Memory windows of type 2 that belong to the queue pair that bound them. */
export const IBV_DEVICE_MEM_WINDOW_TYPE_2B = 1 << 24;

/** ibv_mtu */
export const IBV_MTU_256 = 1;
export const IBV_MTU_512 = 2;
export const IBV_MTU_1024 = 3;
export const IBV_MTU_2048 = 4;
export const IBV_MTU_4096 = 5;

/** ibv_port_state */
export const IBV_PORT_NOP = 0;
export const IBV_PORT_DOWN = 1;
export const IBV_PORT_INIT = 2;
export const IBV_PORT_ARMED = 3;
export const IBV_PORT_ACTIVE = 4;

/** errno values that verbs return (Linux) */
export const EPERM = 1;
export const ENOENT = 2;
export const EIO = 5;
export const ENOMEM = 12;
export const EACCES = 13;
export const EFAULT = 14;
export const EBUSY = 16;
export const ENODEV = 19;
export const EINVAL = 22;
export const ENOSYS = 38;
export const EOPNOTSUPP = 95;
export const EADDRINUSE = 98;
export const EADDRNOTAVAIL = 99;
export const ENETUNREACH = 101;
export const ETIMEDOUT = 110;
