// Newer verbs of the null device: those that libibverbs calls through verbs_context, and ibv_wr_*(3).
#include <cerrno>
#include <cstring>

#include "null_device.h"

namespace null_device {

namespace {

// ibv_wr_*(3): requests are collected until wr_complete, which posts them as a list.

ibv_send_wr& beginRequest(ibv_qp_ex* ex, ibv_wr_opcode opcode, bool wantsData) {
  Building& building = static_cast<Qp*>(ex)->building;
  require(building.open, "a request was built outside of wr_start and wr_complete");
  require(!building.wantsData && !building.wantsAddress, "a request lacks its data or its address");
  building.wantsData = wantsData;
  building.wantsAddress = wantsData && (ex->qp_base.qp_type == IBV_QPT_UD || ex->qp_base.qp_type == IBV_QPT_XRC_SEND);
  building.sges.emplace_back();
  ibv_send_wr wr = {};
  wr.wr_id = ex->wr_id;
  wr.send_flags = ex->wr_flags;
  wr.opcode = opcode;
  building.wrs.push_back(wr);
  return building.wrs.back();
}

ibv_send_wr& lastRequest(ibv_qp_ex* ex) {
  Building& building = static_cast<Qp*>(ex)->building;
  require(building.open && !building.wrs.empty(), "a setter was called without a request");
  return building.wrs.back();
}

template <ibv_wr_opcode kOpcode>
void beginRdma(ibv_qp_ex* ex, uint32_t rkey, uint64_t addr) {
  beginRequest(ex, kOpcode, true).wr.rdma = {addr, rkey};
}

void beginWriteImm(ibv_qp_ex* ex, uint32_t rkey, uint64_t addr, __be32 imm) {
  ibv_send_wr& wr = beginRequest(ex, IBV_WR_RDMA_WRITE_WITH_IMM, true);
  wr.wr.rdma = {addr, rkey};
  wr.imm_data = imm;
}

void beginSend(ibv_qp_ex* ex) { beginRequest(ex, IBV_WR_SEND, true); }
void beginSendImm(ibv_qp_ex* ex, __be32 imm) { beginRequest(ex, IBV_WR_SEND_WITH_IMM, true).imm_data = imm; }
void beginSendInv(ibv_qp_ex* ex, uint32_t rkey) { beginRequest(ex, IBV_WR_SEND_WITH_INV, true).invalidate_rkey = rkey; }

void beginSwap(ibv_qp_ex* ex, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap) {
  beginRequest(ex, IBV_WR_ATOMIC_CMP_AND_SWP, true).wr.atomic = {addr, compare, swap, rkey};
}
void beginAdd(ibv_qp_ex* ex, uint32_t rkey, uint64_t addr, uint64_t add) {
  beginRequest(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, true).wr.atomic = {addr, add, 0, rkey};
}

void beginLocalInv(ibv_qp_ex* ex, uint32_t rkey) { beginRequest(ex, IBV_WR_LOCAL_INV, false).invalidate_rkey = rkey; }

void beginBind(ibv_qp_ex* ex, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info* info) {
  beginRequest(ex, IBV_WR_BIND_MW, false).bind_mw = {mw, rkey, *info};
}

void setElements(ibv_qp_ex* ex, size_t count, const ibv_sge* list) {
  Building& building = static_cast<Qp*>(ex)->building;
  ibv_send_wr& wr = lastRequest(ex);
  require(building.wantsData, "data was set twice, or for a request without data");
  building.wantsData = false;
  building.sges.back().assign(list, list + count);
  wr.num_sge = static_cast<int>(count);
}

void setElement(ibv_qp_ex* ex, uint32_t lkey, uint64_t addr, uint32_t length) {
  const ibv_sge sge = {addr, length, lkey};
  setElements(ex, 1, &sge);
}

void setInline(ibv_qp_ex* ex, void* addr, size_t length) {
  require((lastRequest(ex).send_flags & IBV_SEND_INLINE) != 0, "inline data was set without IBV_SEND_INLINE, which rdma-core 44 requires");
  const ibv_sge sge = {reinterpret_cast<uintptr_t>(addr), static_cast<uint32_t>(length), 0};
  setElements(ex, length == 0 ? 0 : 1, &sge);
}

void setUdAddress(ibv_qp_ex* ex, ibv_ah* ah, uint32_t qpn, uint32_t qkey) {
  require(ex->qp_base.qp_type == IBV_QPT_UD, "a datagram address was set on another type of queue pair");
  lastRequest(ex).wr.ud = {ah, qpn, qkey};
  static_cast<Qp*>(ex)->building.wantsAddress = false;
}

void setXrcSrqn(ibv_qp_ex* ex, uint32_t srqn) {
  require(ex->qp_base.qp_type == IBV_QPT_XRC_SEND, "an XRC address was set on another type of queue pair");
  lastRequest(ex).qp_type.xrc.remote_srqn = srqn;
  static_cast<Qp*>(ex)->building.wantsAddress = false;
}

void start(ibv_qp_ex* ex) {
  Building& building = static_cast<Qp*>(ex)->building;
  require(!building.open, "wr_start was called twice");
  building.open = true;
}

void stop(Building& building) {
  require(building.open, "wr_complete or wr_abort was called without wr_start");
  building.open = building.wantsData = building.wantsAddress = false;
}

void abortAll(ibv_qp_ex* ex) {
  Building& building = static_cast<Qp*>(ex)->building;
  stop(building);
  building.wrs.clear();
  building.sges.clear();
}

int completeAll(ibv_qp_ex* ex) {
  auto* qp = static_cast<Qp*>(ex);
  Building& building = qp->building;
  require(!building.wantsData && !building.wantsAddress, "a request lacks its data or its address");
  for (size_t i = 0; i < building.wrs.size(); i++) {
    building.wrs[i].sg_list = building.sges[i].data();
    building.wrs[i].next = i + 1 < building.wrs.size() ? &building.wrs[i + 1] : nullptr;
  }
  const int rc = building.wrs.empty() ? 0 : takeWhole(*qp, building.wrs.data());
  abortAll(ex);
  return rc;
}

// Extended completion queues.

bool next(Cq& cq) {
  if (cq.head == cq.tail) return false;
  const ibv_wc& wc = cq.ring[cq.head++ & cq.mask()];
  cq.wr_id = wc.wr_id;
  cq.status = wc.status;
  return true;
}

/** The most recently polled completion. */
const ibv_wc& current(ibv_cq_ex* base) {
  const Cq& cq = *static_cast<Cq*>(base);
  require(cq.polling, "a completion was read outside of start_poll and end_poll");
  return cq.ring[(cq.head - 1) & cq.mask()];
}

int startPoll(ibv_cq_ex* base, ibv_poll_cq_attr*) {
  if (const int errnum = fault(); errnum != 0) return errnum;
  Cq& cq = *static_cast<Cq*>(base);
  cq.lock.lock();
  require(!cq.polling, "start_poll was called twice");
  if (!next(cq)) {
    cq.lock.unlock();
    return ENOENT;
  }
  cq.polling = true;
  return 0;
}

int nextPoll(ibv_cq_ex* base) {
  require(static_cast<Cq*>(base)->polling, "next_poll was called without start_poll");
  return next(*static_cast<Cq*>(base)) ? 0 : ENOENT;
}

void endPoll(ibv_cq_ex* base) {
  Cq& cq = *static_cast<Cq*>(base);
  require(cq.polling, "end_poll was called without start_poll");
  cq.polling = false;
  cq.lock.unlock();
}

constexpr uint64_t kSupported = uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                                IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

ibv_cq_ex* createCqEx(ibv_context* context, ibv_cq_init_attr_ex* attr) {
  if (faultErrno()) return nullptr;
  if ((attr->wc_flags & ~kSupported) != 0) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  Cq* cq = makeCq(context, attr->cqe, attr->channel);
  cq->cq_context = attr->cq_context;
  fillPollOps(*cq);
  return cq;
}

int modifyCq(ibv_cq*, ibv_modify_cq_attr*) { return fault(); }

// Extended reliable connections.

ibv_xrcd* openXrcd(ibv_context* context, ibv_xrcd_init_attr*) {
  if (faultErrno()) return nullptr;
  auto* xrcd = new Xrcd{};
  xrcd->context = context;
  of(context)->users++;
  return xrcd;
}

int closeXrcd(ibv_xrcd* base) {
  auto* xrcd = static_cast<Xrcd*>(base);
  require(xrcd->users == 0, "an XRC domain with objects was closed");
  if (const int errnum = fault(); errnum != 0) return errnum;
  of(xrcd->context)->users--;
  delete xrcd;
  return 0;
}

ibv_srq* createSrqEx(ibv_context*, ibv_srq_init_attr_ex* init) {
  if (faultErrno()) return nullptr;
  // Reports more elements than any device supports, so that tests reach the addon's own limits.
  if (init->attr.max_wr > kMaxWr || init->attr.max_sge > 8192) {
    errno = EINVAL;
    return nullptr;
  }
  Srq* srq = makeSrq(init->pd, init->attr);
  srq->xrcd = static_cast<Xrcd*>(init->xrcd);
  srq->xrcd->users++;
  srq->cq = of(init->cq);
  srq->cq->users++;
  return srq;
}

int getSrqNum(ibv_srq* srq, uint32_t* number) {
  *number = static_cast<Srq*>(srq)->number;
  return 0;
}

ibv_qp* createQpEx(ibv_context* context, ibv_qp_init_attr_ex* init) {
  if (faultErrno()) return nullptr;
  ibv_qp_init_attr plain = {};
  std::memcpy(&plain, init, offsetof(ibv_qp_init_attr, sq_sig_all));
  if (isTooMuch(plain.cap)) {
    errno = EINVAL;
    return nullptr;
  }
  Qp* qp = makeQp(context, init->pd, plain);
  if ((init->comp_mask & IBV_QP_INIT_ATTR_XRCD) != 0) {
    qp->xrcd = static_cast<Xrcd*>(init->xrcd);
    qp->xrcd->users++;
  }
  if ((init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0) fillSendOps(*qp);
  return &qp->qp_base;
}

// Memory windows.

ibv_mw* allocMw(ibv_pd* pd, ibv_mw_type type) {
  if (faultErrno()) return nullptr;
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
    errno = EINVAL;
    return nullptr;
  }
  auto* mw = new Mw{};
  // The driver of soft-RoCE does not set the other fields either.
  mw->pd = pd;
  mw->rkey = nextNumber();
  of(pd)->users++;
  return mw;
}

int deallocMw(ibv_mw* base) {
  auto* mw = static_cast<Mw*>(base);
  if (mw->bound != nullptr) mw->bound->windows--;
  of(mw->pd)->users--;
  delete mw;
  return fault();
}

// Other device properties.

int queryDeviceEx(ibv_context*, const ibv_query_device_ex_input*, ibv_device_attr_ex* attr, size_t bytes) {
  if (const int errnum = fault(); errnum != 0) return errnum;
  std::memset(attr, 0, bytes);
  attr->completion_timestamp_mask = ~0ull;
  return 0;
}

int queryRtValues(ibv_context*, ibv_values_ex* values) {
  if (const int errnum = fault(); errnum != 0) return errnum;
  values->raw_clock = {1, 2};
  return 0;
}

int modifyRateLimit(ibv_qp*, ibv_qp_rate_limit_attr*) { return fault(); }

}  // namespace

void fillOps(Context& context) {
  ibv_context_ops& ops = context.context.ops;
  ops.post_send = postSend;
  ops.post_recv = postRecv;
  ops.post_srq_recv = postSrqRecv;
  ops.poll_cq = pollCq;
  ops.req_notify_cq = reqNotify;
  ops.alloc_mw = allocMw;
  ops.bind_mw = bindMw;
  ops.dealloc_mw = deallocMw;
  context.create_cq_ex = createCqEx;
  context.modify_cq = modifyCq;
  context.open_xrcd = openXrcd;
  context.close_xrcd = closeXrcd;
  context.create_srq_ex = createSrqEx;
  context.get_srq_num = getSrqNum;
  context.create_qp_ex = createQpEx;
  context.query_device_ex = queryDeviceEx;
  context.query_rt_values = queryRtValues;
  context.modify_qp_rate_limit = modifyRateLimit;
}

void fillSendOps(Qp& qp) {
  qp.wr_start = start;
  qp.wr_complete = completeAll;
  qp.wr_abort = abortAll;
  qp.wr_send = beginSend;
  qp.wr_send_imm = beginSendImm;
  qp.wr_send_inv = beginSendInv;
  qp.wr_rdma_write = beginRdma<IBV_WR_RDMA_WRITE>;
  qp.wr_rdma_write_imm = beginWriteImm;
  qp.wr_rdma_read = beginRdma<IBV_WR_RDMA_READ>;
  qp.wr_atomic_cmp_swp = beginSwap;
  qp.wr_atomic_fetch_add = beginAdd;
  qp.wr_local_inv = beginLocalInv;
  qp.wr_bind_mw = beginBind;
  qp.wr_set_sge = setElement;
  qp.wr_set_sge_list = setElements;
  qp.wr_set_inline_data = setInline;
  qp.wr_set_ud_addr = setUdAddress;
  qp.wr_set_xrc_srqn = setXrcSrqn;
}

void fillPollOps(Cq& cq) {
  cq.start_poll = startPoll;
  cq.next_poll = nextPoll;
  cq.end_poll = endPoll;
  cq.read_opcode = [](ibv_cq_ex* c) { return current(c).opcode; };
  cq.read_vendor_err = [](ibv_cq_ex* c) { return current(c).vendor_err; };
  cq.read_byte_len = [](ibv_cq_ex* c) { return current(c).byte_len; };
  cq.read_imm_data = [](ibv_cq_ex* c) { return current(c).imm_data; };
  cq.read_qp_num = [](ibv_cq_ex* c) { return current(c).qp_num; };
  cq.read_src_qp = [](ibv_cq_ex* c) { return current(c).src_qp; };
  cq.read_wc_flags = [](ibv_cq_ex* c) { return current(c).wc_flags; };
  cq.read_slid = [](ibv_cq_ex* c) { return uint32_t{current(c).slid}; };
  cq.read_sl = [](ibv_cq_ex* c) { return current(c).sl; };
  cq.read_dlid_path_bits = [](ibv_cq_ex* c) { return current(c).dlid_path_bits; };
  cq.read_completion_ts = [](ibv_cq_ex* c) { return current(c).wr_id; };
  cq.read_completion_wallclock_ns = [](ibv_cq_ex* c) { return current(c).wr_id; };
}

}  // namespace null_device

using namespace null_device;

extern "C" {

ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) { return of(qp); }
int ibv_query_ece(ibv_qp*, ibv_ece* ece) {
  *ece = {};
  return fault();
}
int ibv_set_ece(ibv_qp*, ibv_ece*) { return fault(); }
int ibv_query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, uint32_t) { return 1; }
}
