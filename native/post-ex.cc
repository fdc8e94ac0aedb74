#include "post-ex.h"

#include <cerrno>

namespace isoverbs {

namespace {

constexpr uint64_t kUdOps = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
constexpr uint64_t kUcOps = kUdOps | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
constexpr uint64_t kRcOps =
    kUcOps | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
/** Memory windows, which only some devices support. */
constexpr uint64_t kUcWindowOps = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV;
constexpr uint64_t kRcWindowOps = kUcWindowOps | IBV_QP_EX_WITH_LOCAL_INV;

uint64_t plainOps(ibv_qp_type type) {
  if (type == IBV_QPT_UD) return kUdOps;
  return type == IBV_QPT_UC ? kUcOps : kRcOps;
}

uint64_t windowOps(ibv_qp_type type) {
  if (type == IBV_QPT_UD) return 0;
  return type == IBV_QPT_UC ? kUcWindowOps : kRcWindowOps;
}

/** Begins one request. Returns false for an opcode for which the queue pair was not created. */
bool begin(ibv_qp_ex* ex, const ibv_send_wr& wr) {
  ex->wr_id = wr.wr_id;
  // soft-RoCE's driver requires IBV_SEND_INLINE here; others set it in wr_set_inline_data.
  ex->wr_flags = wr.send_flags;
  switch (wr.opcode) {
    case IBV_WR_RDMA_WRITE:
      if (ex->wr_rdma_write == nullptr) return false;
      ex->wr_rdma_write(ex, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr);
      return true;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      if (ex->wr_rdma_write_imm == nullptr) return false;
      ex->wr_rdma_write_imm(ex, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr, wr.imm_data);
      return true;
    case IBV_WR_SEND:
      if (ex->wr_send == nullptr) return false;
      ex->wr_send(ex);
      return true;
    case IBV_WR_SEND_WITH_IMM:
      if (ex->wr_send_imm == nullptr) return false;
      ex->wr_send_imm(ex, wr.imm_data);
      return true;
    case IBV_WR_RDMA_READ:
      if (ex->wr_rdma_read == nullptr) return false;
      ex->wr_rdma_read(ex, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr);
      return true;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      if (ex->wr_atomic_cmp_swp == nullptr) return false;
      ex->wr_atomic_cmp_swp(ex, wr.wr.atomic.rkey, wr.wr.atomic.remote_addr, wr.wr.atomic.compare_add,
                            wr.wr.atomic.swap);
      return true;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      if (ex->wr_atomic_fetch_add == nullptr) return false;
      ex->wr_atomic_fetch_add(ex, wr.wr.atomic.rkey, wr.wr.atomic.remote_addr, wr.wr.atomic.compare_add);
      return true;
    case IBV_WR_SEND_WITH_INV:
      if (ex->wr_send_inv == nullptr) return false;
      ex->wr_send_inv(ex, wr.invalidate_rkey);
      return true;
    case IBV_WR_LOCAL_INV:
      if (ex->wr_local_inv == nullptr) return false;
      ex->wr_local_inv(ex, wr.invalidate_rkey);
      return true;
    case IBV_WR_BIND_MW:
      if (ex->wr_bind_mw == nullptr) return false;
      ex->wr_bind_mw(ex, wr.bind_mw.mw, wr.bind_mw.rkey, &wr.bind_mw.bind_info);
      return true;
    default:
      return false;
  }
}

/** Sets the data of the request that was begun, and the fields that its type of queue pair requires. */
void fill(ibv_qp_ex* ex, const ibv_send_wr& wr) {
  if (wr.opcode == IBV_WR_LOCAL_INV || wr.opcode == IBV_WR_BIND_MW) return;
  const ibv_qp_type type = ex->qp_base.qp_type;
  if (type == IBV_QPT_UD) ex->wr_set_ud_addr(ex, wr.wr.ud.ah, wr.wr.ud.remote_qpn, wr.wr.ud.remote_qkey);
  if (type == IBV_QPT_XRC_SEND) ex->wr_set_xrc_srqn(ex, wr.qp_type.xrc.remote_srqn);
  if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
    void* data = wr.num_sge == 0 ? nullptr : reinterpret_cast<void*>(wr.sg_list[0].addr);
    ex->wr_set_inline_data(ex, data, wr.num_sge == 0 ? 0 : wr.sg_list[0].length);
  } else if (wr.num_sge == 1) {
    ex->wr_set_sge(ex, wr.sg_list[0].lkey, wr.sg_list[0].addr, wr.sg_list[0].length);
  } else {
    ex->wr_set_sge_list(ex, static_cast<size_t>(wr.num_sge), wr.sg_list);
  }
}

/** Posts the list in one critical region, all of it or nothing. */
int postWhole(ibv_qp_ex* ex, const ibv_send_wr* list) {
  ex->wr_start(ex);
  for (const ibv_send_wr* wr = list; wr != nullptr; wr = wr->next) {
    if (!begin(ex, *wr)) {
      ex->wr_abort(ex);
      return EOPNOTSUPP;
    }
    fill(ex, *wr);
  }
  const int rc = ex->wr_complete(ex);
  // Drivers return either errno if the queue has no room; lengths and counts were checked before.
  return rc == ENOSPC ? ENOMEM : rc;
}

/** Whether a request has elements whose lengths soft-RoCE would sum up wrongly. */
bool hasUnequalElements(const ibv_send_wr* list) {
  for (const ibv_send_wr* wr = list; wr != nullptr; wr = wr->next) {
    for (int i = 1; i < wr->num_sge; i++) {
      if (wr->sg_list[i].length != wr->sg_list[0].length) return true;
    }
  }
  return false;
}

}  // namespace

ibv_qp* createExtendedQp(ibv_pd* pd, ibv_qp_init_attr* attr, ibv_qp_ex** ex) {
  verbs_context* vctx = verbs_get_ctx_op(pd->context, create_qp_ex);
  if (vctx == nullptr || verbs()->qpToQpEx == nullptr) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  ibv_qp* qp = nullptr;
  for (const uint64_t more : {windowOps(attr->qp_type), uint64_t{0}}) {
    ibv_qp_init_attr_ex want = {};
    want.send_cq = attr->send_cq;
    want.recv_cq = attr->recv_cq;
    want.srq = attr->srq;
    want.cap = attr->cap;
    want.qp_type = attr->qp_type;
    want.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    want.pd = pd;
    want.send_ops_flags = plainOps(attr->qp_type) | more;
    qp = vctx->create_qp_ex(pd->context, &want);
    if (qp != nullptr) {
      attr->cap = want.cap;
      *ex = verbs()->qpToQpEx(qp);
      break;
    }
    if (errno != EOPNOTSUPP && errno != ENOSYS) break;
  }
  return qp;
}

int postSendEx(Qp& qp, ibv_send_wr* list, ibv_send_wr** bad) {
  // Before rdma-core 64, soft-RoCE's driver counts the first element's length for each element
  // (wr_set_sge_list); such lists go through ibv_post_send(3), to the same queue.
  if (isSoftRoce(*qp.pd->context) && hasUnequalElements(list)) {
    return ibv_post_send(qp.qp, list, bad);
  }
  *bad = list;
  int rc = postWhole(qp.ex, list);
  if (rc == 0 || list->next == nullptr) return rc;
  // Nothing was posted, so the requests are posted one by one up to the refused one.
  for (ibv_send_wr* wr = list; wr != nullptr;) {
    ibv_send_wr* const next = wr->next;
    wr->next = nullptr;
    rc = postWhole(qp.ex, wr);
    wr->next = next;
    if (rc != 0) {
      *bad = wr;
      return rc;
    }
    wr = next;
  }
  return 0;
}

}  // namespace isoverbs
