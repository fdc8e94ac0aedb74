// Queue pairs: create, modify, query, destroy. Attributes are passed as words (see qp-words.ts).
#include "qp.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "args.h"
#include "objects.h"
#include "post-ex.h"
#include "scratch.h"
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
  // At least four times the granted number, and at least 64: soft-RoCE grants 16 and accepts 31.
  const uint32_t size = powerOfTwo(granted < 16 ? 64 : granted > (1u << 28) ? 1u << 30 : granted * 4);
  queue.ids = static_cast<uint64_t*>(std::calloc(size, sizeof(uint64_t)));
  queue.mask = size - 1;
  queue.maxSge = std::min(maxSge, kMaxQueueSges);
  return queue.ids != nullptr;
}

napi_value failCreate(Args& args, int errnum, const uint32_t* words, const ibv_device_attr& dev) {
  const uint32_t* cap = words + QPW_CAP;
  if (errnum == EINVAL || errnum == ENOMEM) {
    return fail(args.env(), Err::NoResources, args.verb(), errnum,
                "the device refused the capabilities: max_send_wr %u, max_recv_wr %u (its max_qp_wr is %d), "
                "max_send_sge %u, max_recv_sge %u (its max_sge is %d), max_inline_data %u",
                cap[0], cap[1], dev.max_qp_wr, cap[2], cap[3], dev.max_sge, cap[4]);
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
  // Asynchronous events return this pointer.
  qp->qp->qp_context = reinterpret_cast<void*>(static_cast<uintptr_t>(qp->handle));
  enter(qp);
  if (qp->srq != nullptr) qp->srq->qps.insert(qp);
  if (qp->xrcd != nullptr) qp->xrcd->qps.insert(qp);
  return true;
}

namespace {

/** The objects from which a new queue pair is made. */
bool readParents(Args& args, const uint32_t* words, Qp* qp) {
  const bool receiver = words[QPW_TYPE] == IBV_QPT_XRC_RECV;
  if (receiver) {
    qp->xrcd = args.objectOf<Xrcd>(words[QPW_XRCD]);
  } else {
    qp->pd = args.object<Pd>(0);
    qp->sendCq = args.objectOf<Cq>(words[QPW_SEND_CQ]);
    // XRC_SEND has no receives.
    if (words[QPW_TYPE] != IBV_QPT_XRC_SEND) qp->recvCq = args.objectOf<Cq>(words[QPW_RECV_CQ]);
    if (words[QPW_SRQ] != 0) qp->srq = args.objectOf<Srq>(words[QPW_SRQ]);
  }
  if (!args.ok()) return false;
  qp->context = receiver ? qp->xrcd->context : qp->pd->context;
  for (const Cq* cq : {qp->sendCq, qp->recvCq}) {
    if (cq == nullptr || cq->context == qp->context) continue;
    fail(args.env(), Err::Handle, args.verb(), EINVAL, "a completion queue is of another context than the pd");
    return false;
  }
  if (qp->srq != nullptr && qp->srq->pd->context != qp->context) {
    fail(args.env(), Err::Handle, args.verb(), EINVAL, "the shared receive queue is of another context than the pd");
    return false;
  }
  return true;
}

/** ibv_create_qp_ex(3) without the inline function, which names symbols that we do not link. */
ibv_qp* createReceiver(const Qp& qp) {
  verbs_context* vctx = verbs_get_ctx_op(qp.context->ctx, create_qp_ex);
  if (vctx == nullptr) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  ibv_qp_init_attr_ex init = {};
  init.qp_type = IBV_QPT_XRC_RECV;
  init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  init.xrcd = qp.xrcd->xrcd;
  return vctx->create_qp_ex(qp.context->ctx, &init);
}

ibv_qp* createOnDevice(Qp& qp, const uint32_t* words, ibv_qp_init_attr* init) {
  init->qp_type = static_cast<ibv_qp_type>(words[QPW_TYPE]);
  init->cap = {words[QPW_CAP], words[QPW_CAP + 1], words[QPW_CAP + 2], words[QPW_CAP + 3], words[QPW_CAP + 4]};
  if (init->qp_type == IBV_QPT_XRC_RECV) {
    init->cap = {};
    return createReceiver(qp);
  }
  // sq_sig_all is never set, because a shim's internal requests must be able to stay silent. post.cc sets the signals
  // instead.
  init->send_cq = qp.sendCq->cq;
  init->recv_cq = qp.recvCq == nullptr ? nullptr : qp.recvCq->cq;
  init->srq = qp.srq == nullptr ? nullptr : qp.srq->srq;
  if (words[QPW_EXTENDED] != 0) return createExtendedQp(qp.pd->pd, init, &qp.ex);
  return verbs()->createQp(qp.pd->pd, init);
}

bool lacksXrc(const Qp& qp, uint32_t type) {
  const bool xrc = type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
  return xrc && (qp.context->attr.device_cap_flags & IBV_DEVICE_XRC) == 0;
}

}  // namespace

/** createQp(pd, words, sqSigAll): words[QPW_CAP ..], _TYPE, _SEND_CQ, _RECV_CQ, _SRQ and _XRCD. */
napi_value createQp(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "createQp");
  const uint32_t* words = args.words(1, QPW_COUNT);
  const bool sigAll = args.boolean(2);
  const std::lock_guard lock(controlMutex());
  auto qp = std::make_unique<Qp>();
  if (!args.ok() || !args.within("qpType", words[QPW_TYPE], IBV_QPT_RC, IBV_QPT_XRC_RECV) ||
      !readParents(args, words, qp.get())) {
    return nullptr;
  }
  if (lacksXrc(*qp, words[QPW_TYPE])) {
    return fail(args.env(), Err::Unsupported, args.verb(), EOPNOTSUPP,
                "this device has no extended reliable connections (XRC)");
  }
  ibv_qp_init_attr init = {};
  qp->qp = createOnDevice(*qp, words, &init);
  if (qp->qp == nullptr) return failCreate(args, errno, words, qp->context->attr);
  qp->owner = &args.env();
  qp->sigAll = sigAll;
  qp->maxMessageBytes.store(qp->context->maxMessageBytes[1], std::memory_order_relaxed);
  // Drivers write the capabilities they grant; those of a shared receive queue are not the queue pair's.
  if (qp->srq != nullptr) init.cap.max_recv_wr = init.cap.max_recv_sge = 0;
  if (!adoptQp(qp.get(), init.cap)) {
    verbs()->destroyQp(qp->qp);
    return failErrno(args.env(), args.verb(), ENOMEM);
  }
  const uint32_t qpNum = qp->qp->qp_num;
  return Result(napi)
      .number("handle", qp.release()->handle)
      .number("qpNum", qpNum)
      .number("maxSendWr", init.cap.max_send_wr)
      .number("maxRecvWr", init.cap.max_recv_wr)
      .number("maxSendSge", init.cap.max_send_sge)
      .number("maxRecvSge", init.cap.max_recv_sge)
      .number("maxInlineData", init.cap.max_inline_data);
}

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
  attr->rate_limit = words[QPW_RATE_LIMIT];
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
  words[QPW_SQ_DRAINING] = attr.sq_draining;
  writeAddress(attr.ah_attr, words);
}

namespace {
uint32_t handleOf(const Object* object) { return object == nullptr ? 0 : object->handle; }

/** RESET discards posted requests, so earlier completions that a device leaves in the queue no longer count. */
void resetQueue(Queue& queue) {
  queue.lock.lock();
  queue.base.store(queue.next, std::memory_order_relaxed);
  queue.done.store(queue.next, std::memory_order_relaxed);
  queue.anySignaled = false;
  queue.lock.unlock();
}

}  // namespace

namespace {

bool checkAttr(Args& args, const uint32_t* words) {
  return args.within("qpState", words[QPW_STATE], 0, IBV_QPS_ERR) &&
         args.within("curQpState", words[QPW_CUR_STATE], 0, IBV_QPS_ERR) &&
         args.within("pathMtu", words[QPW_PATH_MTU], 0, IBV_MTU_4096) &&
         args.within("pathMigState", words[QPW_PATH_MIG_STATE], 0, IBV_MIG_ARMED);
}

}  // namespace

/** modifyQp(qp, words, mask). */
napi_value modifyQp(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "modifyQp");
  const uint32_t* words = args.words(1, QPW_COUNT);
  const int mask = args.int32(2);
  const std::lock_guard lock(controlMutex());
  auto* qp = args.object<Qp>(0);
  if (!args.ok() || !checkAttr(args, words)) return nullptr;
  ibv_qp_attr attr = {};
  readAttr(words, &attr);
  if (const int rc = verbs()->modifyQp(qp->qp, &attr, mask); rc != 0) {
    const int errnum = rc < 0 ? errno : rc;
    if (errnum != EINVAL) return failErrno(args.env(), args.verb(), errnum);
    return fail(args.env(), Err::Argument, args.verb(), errnum, "the device refused the attributes (EINVAL)");
  }
  const auto& maxBytes = qp->context->maxMessageBytes;
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
  words[QPW_EXTENDED] = qp->ex != nullptr ? 1 : 0;
  words[QPW_SEND_CQ] = handleOf(qp->sendCq);
  words[QPW_RECV_CQ] = handleOf(qp->recvCq);
  words[QPW_SRQ] = handleOf(qp->srq);
  words[QPW_XRCD] = handleOf(qp->xrcd);
  return undefined(napi);
}

napi_value destroyQp(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "destroyQp");
  const std::lock_guard lock(controlMutex());
  auto* qp = args.object<Qp>(0);
  if (qp == nullptr) return nullptr;
  if (!qp->groups.empty()) {
    return fail(args.env(), Err::Busy, args.verb(), EBUSY, "the queue pair is still attached to %zu multicast group%s",
                qp->groups.size(), qp->groups.size() > 1 ? "s" : "");
  }
  Parents parents = parentsOf(qp);
  const int rc = closeQp(qp);
  for (Object* parent : parents) reap(parent, &args.env());
  if (rc != 0) return failErrno(args.env(), args.verb(), rc);
  return undefined(napi);
}

}  // namespace isoverbs
