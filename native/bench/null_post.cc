// Queues of the null device: posting and polling.
#include <cerrno>
#include <cstring>

#include "null_device.h"

namespace null_device {

namespace {

// A sink for values read from requests, so that the compiler cannot remove the reads.
volatile uint64_t bytesPosted = 0;

ibv_wc_opcode completionOpcode(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
      return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return IBV_WC_FETCH_ADD;
    case IBV_WR_BIND_MW:
      return IBV_WC_BIND_MW;
    case IBV_WR_LOCAL_INV:
      return IBV_WC_LOCAL_INV;
    default:
      return IBV_WC_SEND;
  }
}

constexpr uint32_t kSends = 1u << IBV_WR_SEND | 1u << IBV_WR_SEND_WITH_IMM | 1u << IBV_WR_SEND_WITH_INV;

/**
 * Adds a completion; the caller holds the lock of the CQ. If the queue is full, the completion is lost, and the queue
 * raises its error event once.
 */
void complete(Cq& cq, const ibv_wc& wc) {
  if (cq.tail - cq.head > cq.mask()) [[unlikely]] {
    if (cq.overflown) return;
    cq.overflown = true;
    ibv_async_event event = {};
    event.event_type = IBV_EVENT_CQ_ERR;
    event.element.cq = cq.base();
    raise(cq.context, event);
    return;
  }
  cq.ring[cq.tail++ & cq.mask()] = wc;
}

void completeReceive(Qp& qp, uint64_t id, ibv_wc_status status, const ibv_send_wr* from) {
  auto* srq = static_cast<Srq*>(qp.qp_base.srq);
  Cq* cq = srq != nullptr && srq->cq != nullptr ? srq->cq : qp.qp_base.recv_cq == nullptr ? nullptr : of(qp.qp_base.recv_cq);
  if (cq == nullptr) return;
  ibv_wc wc = {};
  wc.wr_id = id;
  wc.status = status;
  wc.opcode = IBV_WC_RECV;
  wc.qp_num = wc.src_qp = qp.qp_base.qp_num;
  if (from != nullptr && from->opcode == IBV_WR_SEND_WITH_IMM) {
    wc.wc_flags = IBV_WC_WITH_IMM;
    wc.imm_data = from->imm_data;
  } else if (from != nullptr && from->opcode == IBV_WR_SEND_WITH_INV) {
    wc.wc_flags = IBV_WC_WITH_INV;
    wc.invalidated_rkey = from->invalidate_rkey;
  }
  cq->lock.lock();
  complete(*cq, wc);
  cq->lock.unlock();
  notify(*cq);
}

bool takeReceive(Qp& qp, uint64_t* id) {
  Receives& queue = qp.queue();
  queue.lock.lock();
  const bool found = !queue.ids.empty();
  if (found) {
    *id = queue.ids.front();
    queue.ids.pop_front();
  }
  const size_t left = queue.ids.size();
  queue.lock.unlock();
  auto* srq = static_cast<Srq*>(qp.qp_base.srq);
  if (found && srq != nullptr && left < srq->limit) {
    srq->limit = 0;
    ibv_async_event event = {};
    event.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
    event.element.srq = srq;
    raise(srq->context, event);
  }
  return found;
}

void bindTo(Mw& mw, const ibv_mw_bind_info& info, uint32_t rkey) {
  if (mw.bound != nullptr) mw.bound->windows--;
  mw.bound = static_cast<Mr*>(info.mr);
  if (mw.bound != nullptr) {
    require(mw.bound->pd == mw.pd, "a window was bound to a region of another protection domain");
    mw.bound->windows++;
  }
  mw.rkey = rkey;
}

/** Reads the fields that a driver reads from requests other than plain transfers. */
uint64_t readSpecial(const Qp& qp, const ibv_send_wr& wr) {
  uint64_t sum = 0;
  if (qp.qp_base.qp_type == IBV_QPT_UD) {
    const auto* ah = static_cast<const Ah*>(wr.wr.ud.ah);
    require(ah->magic == Ah::kMagic, "a datagram has no address handle");
    sum += wr.wr.ud.remote_qpn ^ wr.wr.ud.remote_qkey;
  }
  if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
    for (int i = 0; i < wr.num_sge; i++) {
      const auto* bytes = reinterpret_cast<const uint8_t*>(wr.sg_list[i].addr);
      for (uint32_t at = 0; at < wr.sg_list[i].length; at++) sum += bytes[at];
    }
  }
  if (wr.opcode == IBV_WR_BIND_MW) bindTo(*static_cast<Mw*>(wr.bind_mw.mw), wr.bind_mw.bind_info, wr.bind_mw.rkey);
  return sum;
}

bool isSpecial(const Qp& qp, const ibv_send_wr& wr) {
  return qp.qp_base.qp_type == IBV_QPT_UD || wr.opcode == IBV_WR_BIND_MW || (wr.send_flags & IBV_SEND_INLINE) != 0;
}

/** Accepts the requests from `wr` up to `end`. */
void take(Qp& qp, const ibv_send_wr* wr, const ibv_send_wr* end) {
  Cq& cq = *of(qp.qp_base.send_cq);
  const auto maxSge = static_cast<int>(qp.init.cap.max_send_sge);
  uint64_t bytes = 0;
  cq.lock.lock();
  for (; wr != end; wr = wr->next) {
    require(wr->num_sge <= maxSge || (wr->send_flags & IBV_SEND_INLINE) != 0, "a request has more elements than its queue allows");
    for (int i = 0; i < wr->num_sge; i++) bytes += wr->sg_list[i].length ^ wr->sg_list[i].lkey;
    bytes += wr->wr.rdma.remote_addr + wr->wr.rdma.rkey;
    if (isSpecial(qp, *wr)) [[unlikely]] bytes += readSpecial(qp, *wr);
    if ((wr->send_flags & IBV_SEND_SIGNALED) == 0) continue;
    ibv_wc wc;
    wc.wr_id = wr->wr_id;
    wc.status = qp.qp_base.state == IBV_QPS_ERR ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS;
    wc.opcode = completionOpcode(wr->opcode);
    wc.vendor_err = 0;
    wc.byte_len = 0;
    wc.imm_data = 0;
    wc.qp_num = qp.qp_base.qp_num;
    wc.src_qp = 0;
    wc.wc_flags = 0;
    wc.pkey_index = 0;
    wc.slid = 0;
    wc.sl = wc.dlid_path_bits = 0;
    complete(cq, wc);
  }
  cq.lock.unlock();
  bytesPosted = bytesPosted + bytes;
  notify(cq);
}

/** Every queue pair is its own peer: its sends consume its own receives. */
void deliver(Qp& qp, const ibv_send_wr* wr, const ibv_send_wr* end) {
  for (; wr != end; wr = wr->next) {
    uint64_t id = 0;
    if ((kSends >> wr->opcode & 1) == 0 || !takeReceive(qp, &id)) continue;
    completeReceive(qp, id, qp.qp_base.state == IBV_QPS_ERR ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS, wr);
  }
}

int postTo(Receives& queue, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  int rc = fault();
  queue.lock.lock();
  for (; wr != nullptr && rc == 0; wr = wr->next) {
    require(static_cast<uint32_t>(wr->num_sge) <= queue.maxSge, "a request has more elements than its queue allows");
    if (queue.ids.size() >= queue.maxWr) {
      rc = ENOMEM;
      break;
    }
    for (int i = 0; i < wr->num_sge; i++) bytesPosted = bytesPosted + wr->sg_list[i].length;
    queue.ids.push_back(wr->wr_id);
  }
  queue.lock.unlock();
  if (rc != 0) *bad = wr;
  return rc;
}

}  // namespace

int takeWhole(Qp& qp, ibv_send_wr* list) {
  if (const int errnum = fault(); errnum != 0) return errnum;
  take(qp, list, nullptr);
  deliver(qp, list, nullptr);
  return 0;
}

int postSend(ibv_qp* base, ibv_send_wr* list, ibv_send_wr** bad) {
  Qp& qp = *of(base);
  const int errnum = fault();
  ibv_send_wr* end = nullptr;
  if (errnum != 0) [[unlikely]] {
    end = list;
    for (uint32_t n = draw(4); n > 0 && end->next != nullptr; n--) end = end->next;
    *bad = end;
  }
  if (list == end) return errnum;
  take(qp, list, end);
  if (!qp.queue().ids.empty()) deliver(qp, list, end);
  return errnum;
}

int postRecv(ibv_qp* base, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  require(base->srq == nullptr, "a receive was posted to a queue pair that has a shared receive queue");
  return postTo(of(base)->receives, wr, bad);
}

int postSrqRecv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  return postTo(static_cast<Srq*>(srq)->receives, wr, bad);
}

int bindMw(ibv_qp* base, ibv_mw* mw, ibv_mw_bind* bind) {
  if (const int errnum = fault(); errnum != 0) return errnum;
  Qp& qp = *of(base);
  ibv_mw_bind_info info = bind->bind_info;
  // On soft-RoCE, unbinding uses a region with key 0, which this library did not create.
  if (info.mr != nullptr && info.mr->lkey == 0) info.mr = nullptr;
  bindTo(*static_cast<Mw*>(mw), info, nextNumber());
  ibv_send_wr wr = {};
  wr.wr_id = bind->wr_id;
  wr.opcode = IBV_WR_LOCAL_INV;
  wr.send_flags = bind->send_flags;
  take(qp, &wr, nullptr);
  return 0;
}

void flushReceives(Qp& qp) {
  if (qp.qp_base.srq != nullptr) return;
  uint64_t id = 0;
  while (takeReceive(qp, &id)) completeReceive(qp, id, IBV_WC_WR_FLUSH_ERR, nullptr);
}

int pollCq(ibv_cq* base, int count, ibv_wc* wc) {
  if (fault() != 0) [[unlikely]] return -1;
  Cq& cq = *of(base);
  int n = 0;
  cq.lock.lock();
  while (n < count && cq.head != cq.tail) wc[n++] = cq.ring[cq.head++ & cq.mask()];
  cq.lock.unlock();
  return n;
}

}  // namespace null_device
