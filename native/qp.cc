// Queue pairs: create, modify, query, destroy. Attributes cross as words (qp-words.ts says the same).
#include "qp.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "args.h"
#include "objects.h"
#include "verbs.h"

namespace isoverbs {

namespace {

/** Smallest power of two that is at least n. */
uint32_t powerOfTwo(uint32_t n) {
  uint32_t size = 1;
  while (size < n) size <<= 1;
  return size;
}

bool initQueue(Queue& queue, uint32_t granted, uint32_t maxSge) {
  // At least four times what was granted, and 64: soft-RoCE really takes 31 where it grants 16.
  const uint32_t size = powerOfTwo(granted < 16 ? 64 : granted > (1u << 28) ? 1u << 30 : granted * 4);
  queue.ids = static_cast<uint64_t*>(std::calloc(size, sizeof(uint64_t)));
  queue.mask = size - 1;
  // post.cc builds lists in a scratch of a thousand elements; no device grants anywhere near that.
  queue.maxSge = maxSge < 1000 ? maxSge : 1000;
  return queue.ids != nullptr;
}

napi_value failCreate(Args& args, int errnum, const ibv_qp_init_attr& want, const ibv_device_attr& dev) {
  if (errnum == EINVAL || errnum == ENOMEM) {
    return fail(args.env(), Err::NoResources, args.verb(), errnum,
                "the device refused the capabilities: max_send_wr %u, max_recv_wr %u (its max_qp_wr is %d), "
                "max_send_sge %u, max_recv_sge %u (its max_sge is %d), max_inline_data %u",
                want.cap.max_send_wr, want.cap.max_recv_wr, dev.max_qp_wr, want.cap.max_send_sge,
                want.cap.max_recv_sge, dev.max_sge, want.cap.max_inline_data);
  }
  return failErrno(args.env(), args.verb(), errnum);
}

}  // namespace

bool adoptQp(Qp* qp, const ibv_qp_cap& cap) {
  qp->maxInlineBytes = cap.max_inline_data;
  if (!initQueue(qp->send, cap.max_send_wr, cap.max_send_sge) ||
      !initQueue(qp->recv, cap.max_recv_wr, cap.max_recv_sge) || !publish(Kind::Qp, qp)) {
    std::free(qp->send.ids);
    std::free(qp->recv.ids);
    return false;
  }
  constexpr auto kind = static_cast<uint32_t>(Kind::Qp);
  qp->pd->children[kind]++;
  qp->sendCq->children[kind]++;
  if (qp->recvCq != qp->sendCq) qp->recvCq->children[kind]++;
  return true;
}

/** createQp(pd, words, sendCq, recvCq, sqSigAll): words[QPW_CAP ..] and words[QPW_TYPE]. */
napi_value createQp(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "createQp");
  const uint32_t* words = args.words(1, QPW_COUNT);
  const bool sigAll = args.boolean(4);
  const std::lock_guard lock(controlMutex());
  auto* pd = args.object<Pd>(0);
  auto* sendCq = args.object<Cq>(2);
  auto* recvCq = args.object<Cq>(3);
  if (!args.ok()) return nullptr;
  if (sendCq->context != pd->context || recvCq->context != pd->context) {
    return fail(args.env(), Err::Handle, args.verb(), EINVAL, "a completion queue is of another context than the pd");
  }
  ibv_qp_init_attr want = {};
  want.send_cq = sendCq->cq;
  want.recv_cq = recvCq->cq;
  want.qp_type = static_cast<ibv_qp_type>(words[QPW_TYPE]);
  want.cap = {words[QPW_CAP], words[QPW_CAP + 1], words[QPW_CAP + 2], words[QPW_CAP + 3], words[QPW_CAP + 4]};
  // Never sq_sig_all: a shim's internal requests must be able to stay silent. post.cc signals instead.
  ibv_qp_init_attr got = want;
  auto qp = std::make_unique<Qp>();
  qp->qp = verbs()->createQp(pd->pd, &got);
  if (qp->qp == nullptr) return failCreate(args, errno, want, pd->context->attr);
  qp->owner = &args.env();
  qp->pd = pd;
  qp->sendCq = sendCq;
  qp->recvCq = recvCq;
  qp->sigAll = sigAll;
  qp->maxMessageBytes.store(pd->context->maxMessageBytes[1], std::memory_order_relaxed);
  if (!adoptQp(qp.get(), got.cap)) {
    verbs()->destroyQp(qp->qp);
    return failErrno(args.env(), args.verb(), ENOMEM);
  }
  const uint32_t qpNum = qp->qp->qp_num;
  return Result(napi)
      .number("handle", qp.release()->handle)
      .number("qpNum", qpNum)
      .number("maxSendWr", got.cap.max_send_wr)
      .number("maxRecvWr", got.cap.max_recv_wr)
      .number("maxSendSge", got.cap.max_send_sge)
      .number("maxRecvSge", got.cap.max_recv_sge)
      .number("maxInlineData", got.cap.max_inline_data);
}

namespace {

void readAddress(const uint32_t* words, ibv_ah_attr* ah) {
  ah->is_global = words[QPW_IS_GLOBAL] != 0;
  std::memcpy(ah->grh.dgid.raw, words + QPW_DGID, sizeof ah->grh.dgid.raw);
  ah->grh.sgid_index = static_cast<uint8_t>(words[QPW_SGID_INDEX]);
  ah->grh.hop_limit = static_cast<uint8_t>(words[QPW_HOP_LIMIT]);
  ah->grh.traffic_class = static_cast<uint8_t>(words[QPW_TRAFFIC_CLASS]);
  ah->grh.flow_label = words[QPW_FLOW_LABEL];
  ah->dlid = static_cast<uint16_t>(words[QPW_DLID]);
  ah->sl = static_cast<uint8_t>(words[QPW_SL]);
  ah->src_path_bits = static_cast<uint8_t>(words[QPW_SRC_PATH_BITS]);
  ah->static_rate = static_cast<uint8_t>(words[QPW_STATIC_RATE]);
  ah->port_num = static_cast<uint8_t>(words[QPW_AH_PORT]);
}

}  // namespace

void writeAddress(const ibv_ah_attr& ah, uint32_t* words) {
  words[QPW_IS_GLOBAL] = ah.is_global;
  std::memcpy(words + QPW_DGID, ah.grh.dgid.raw, sizeof ah.grh.dgid.raw);
  words[QPW_SGID_INDEX] = ah.grh.sgid_index;
  words[QPW_HOP_LIMIT] = ah.grh.hop_limit;
  words[QPW_TRAFFIC_CLASS] = ah.grh.traffic_class;
  words[QPW_FLOW_LABEL] = ah.grh.flow_label;
  words[QPW_DLID] = ah.dlid;
  words[QPW_SL] = ah.sl;
  words[QPW_SRC_PATH_BITS] = ah.src_path_bits;
  words[QPW_STATIC_RATE] = ah.static_rate;
  words[QPW_AH_PORT] = ah.port_num;
}

namespace {

void readAttr(const uint32_t* words, ibv_qp_attr* attr) {
  attr->qp_state = static_cast<ibv_qp_state>(words[QPW_STATE]);
  attr->cur_qp_state = static_cast<ibv_qp_state>(words[QPW_CUR_STATE]);
  attr->path_mtu = static_cast<ibv_mtu>(words[QPW_PATH_MTU]);
  attr->path_mig_state = static_cast<ibv_mig_state>(words[QPW_PATH_MIG_STATE]);
  attr->qkey = words[QPW_QKEY];
  attr->rq_psn = words[QPW_RQ_PSN];
  attr->sq_psn = words[QPW_SQ_PSN];
  attr->dest_qp_num = words[QPW_DEST_QP_NUM];
  attr->qp_access_flags = words[QPW_ACCESS_FLAGS];
  attr->cap = {words[QPW_CAP], words[QPW_CAP + 1], words[QPW_CAP + 2], words[QPW_CAP + 3], words[QPW_CAP + 4]};
  attr->pkey_index = static_cast<uint16_t>(words[QPW_PKEY_INDEX]);
  attr->en_sqd_async_notify = static_cast<uint8_t>(words[QPW_EN_SQD]);
  attr->max_rd_atomic = static_cast<uint8_t>(words[QPW_MAX_RD_ATOMIC]);
  attr->max_dest_rd_atomic = static_cast<uint8_t>(words[QPW_MAX_DEST_RD_ATOMIC]);
  attr->min_rnr_timer = static_cast<uint8_t>(words[QPW_MIN_RNR_TIMER]);
  attr->port_num = static_cast<uint8_t>(words[QPW_PORT_NUM]);
  attr->timeout = static_cast<uint8_t>(words[QPW_TIMEOUT]);
  attr->retry_cnt = static_cast<uint8_t>(words[QPW_RETRY_CNT]);
  attr->rnr_retry = static_cast<uint8_t>(words[QPW_RNR_RETRY]);
  readAddress(words, &attr->ah_attr);
}

}  // namespace

void writeAttr(const ibv_qp_attr& attr, uint32_t* words) {
  words[QPW_STATE] = attr.qp_state;
  words[QPW_CUR_STATE] = attr.cur_qp_state;
  words[QPW_PATH_MTU] = attr.path_mtu;
  words[QPW_PATH_MIG_STATE] = attr.path_mig_state;
  words[QPW_QKEY] = attr.qkey;
  words[QPW_RQ_PSN] = attr.rq_psn;
  words[QPW_SQ_PSN] = attr.sq_psn;
  words[QPW_DEST_QP_NUM] = attr.dest_qp_num;
  words[QPW_ACCESS_FLAGS] = attr.qp_access_flags;
  const uint32_t cap[] = {attr.cap.max_send_wr, attr.cap.max_recv_wr, attr.cap.max_send_sge, attr.cap.max_recv_sge,
                          attr.cap.max_inline_data};
  std::memcpy(words + QPW_CAP, cap, sizeof cap);
  words[QPW_PKEY_INDEX] = attr.pkey_index;
  words[QPW_EN_SQD] = attr.en_sqd_async_notify;
  words[QPW_MAX_RD_ATOMIC] = attr.max_rd_atomic;
  words[QPW_MAX_DEST_RD_ATOMIC] = attr.max_dest_rd_atomic;
  words[QPW_MIN_RNR_TIMER] = attr.min_rnr_timer;
  words[QPW_PORT_NUM] = attr.port_num;
  words[QPW_TIMEOUT] = attr.timeout;
  words[QPW_RETRY_CNT] = attr.retry_cnt;
  words[QPW_RNR_RETRY] = attr.rnr_retry;
  writeAddress(attr.ah_attr, words);
}

namespace {

/** RESET drops what was posted: completions of before, where a device leaves them, no longer count. */
void resetQueue(Queue& queue) {
  queue.lock.lock();
  queue.base.store(queue.next, std::memory_order_relaxed);
  queue.done.store(queue.next, std::memory_order_relaxed);
  queue.anySignaled = false;
  queue.lock.unlock();
}

}  // namespace

/** modifyQp(qp, words, mask). */
napi_value modifyQp(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "modifyQp");
  const uint32_t* words = args.words(1, QPW_COUNT);
  const int mask = args.int32(2);
  const std::lock_guard lock(controlMutex());
  auto* qp = args.object<Qp>(0);
  if (!args.ok()) return nullptr;
  ibv_qp_attr attr = {};
  readAttr(words, &attr);
  if (const int rc = verbs()->modifyQp(qp->qp, &attr, mask); rc != 0) {
    const int errnum = rc < 0 ? errno : rc;
    if (errnum != EINVAL) return failErrno(args.env(), args.verb(), errnum);
    return fail(args.env(), Err::Argument, args.verb(), errnum, "the device refused the attributes (EINVAL)");
  }
  const auto& maxBytes = qp->pd->context->maxMessageBytes;
  if ((mask & IBV_QP_PORT) != 0 && attr.port_num < maxBytes.size()) {
    qp->maxMessageBytes.store(maxBytes[attr.port_num], std::memory_order_relaxed);
  }
  if ((mask & IBV_QP_STATE) != 0) {
    if (attr.qp_state == IBV_QPS_RESET) {
      resetQueue(qp->send);
      resetQueue(qp->recv);
    }
    qp->state.store(attr.qp_state, std::memory_order_release);
  }
  return undefined(napi);
}

/** knownState(qp): type << 8 | the state that was last set, without asking the device. */
napi_value knownState(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "modifyQp");
  const std::lock_guard lock(controlMutex());
  auto* qp = args.object<Qp>(0);
  if (qp == nullptr) return nullptr;
  return number(napi, static_cast<double>(qp->qp->qp_type << 8 | qp->state.load(std::memory_order_acquire)));
}

/** queryQp(qp, words): fills the words. */
napi_value queryQp(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "queryQp");
  uint32_t* words = args.words(1, QPW_COUNT);
  const std::lock_guard lock(controlMutex());
  auto* qp = args.object<Qp>(0);
  if (!args.ok()) return nullptr;
  ibv_qp_attr attr = {};
  ibv_qp_init_attr init = {};
  constexpr int kAll = (1 << 21) - 1;
  if (const int rc = verbs()->queryQp(qp->qp, &attr, kAll, &init); rc != 0) {
    return failErrno(args.env(), args.verb(), rc < 0 ? errno : rc);
  }
  writeAttr(attr, words);
  words[QPW_TYPE] = init.qp_type;
  words[QPW_SIG_ALL] = qp->sigAll ? 1 : 0;
  words[QPW_SEND_CQ] = qp->sendCq->handle;
  words[QPW_RECV_CQ] = qp->recvCq->handle;
  return undefined(napi);
}

napi_value destroyQp(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "destroyQp");
  const std::lock_guard lock(controlMutex());
  auto* qp = args.object<Qp>(0);
  if (qp == nullptr) return nullptr;
  Object* parents[] = {qp->pd, qp->sendCq, qp->recvCq == qp->sendCq ? nullptr : qp->recvCq};
  const int rc = closeQp(qp);
  for (Object* parent : parents) {
    if (parent != nullptr) reap(parent, &args.env());
  }
  if (rc != 0) return failErrno(args.env(), args.verb(), rc);
  return undefined(napi);
}

}  // namespace isoverbs
