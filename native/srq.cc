// Shared receive queues: create, modify, query, destroy, post.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>

#include "args.h"
#include "objects.h"
#include "post.h"
#include "prepare.h"
#include "scratch.h"
#include "verbs.h"

namespace isoverbs {

Qp* QpIndex::find(uint32_t qpNum) const {
  Qp* qp = buckets_[qpNum % kBuckets].load(std::memory_order_acquire);
  while (qp != nullptr && qp->qp->qp_num != qpNum) qp = qp->nextInIndex.load(std::memory_order_acquire);
  return qp;
}

void QpIndex::insert(Qp* qp) {
  std::atomic<Qp*>& head = buckets_[qp->qp->qp_num % kBuckets];
  qp->nextInIndex.store(head.load(std::memory_order_relaxed), std::memory_order_relaxed);
  head.store(qp, std::memory_order_release);
}

void QpIndex::remove(Qp* qp) {
  std::atomic<Qp*>* link = &buckets_[qp->qp->qp_num % kBuckets];
  while (Qp* at = link->load(std::memory_order_relaxed)) {
    if (at == qp) {
      link->store(qp->nextInIndex.load(std::memory_order_relaxed), std::memory_order_release);
      return;
    }
    link = &at->nextInIndex;
  }
}

SharedIds::~SharedIds() { std::free(places_); }

bool SharedIds::init(uint32_t capacity) { return grow(capacity); }

bool SharedIds::grow(uint32_t capacity) {
  auto* places = static_cast<Place*>(std::realloc(places_, size_t{capacity} * sizeof(Place)));
  if (places == nullptr) return false;
  for (uint32_t i = capacity_; i < capacity; i++) places[i] = {.id = 0, .next = i + 1, .used = false};
  places_ = places;
  capacity_ = capacity;
  return true;
}

bool SharedIds::put(uint64_t id, uint32_t* number) {
  // The list of free places ends at the capacity, where new places begin.
  if (free_ == capacity_ && (capacity_ > (1u << 30) || !grow(capacity_ * 2))) return false;
  Place& place = places_[free_];
  *number = free_;
  free_ = place.next;
  place.id = id;
  place.used = true;
  return true;
}

bool SharedIds::take(uint32_t number, uint64_t* id) {
  if (number >= capacity_ || !places_[number].used) return false;
  Place& place = places_[number];
  *id = place.id;
  place.used = false;
  place.next = free_;
  free_ = number;
  return true;
}

namespace {

napi_value failCreate(Args& args, int errnum, const ibv_srq_attr& want, const ibv_device_attr& dev) {
  if (dev.max_srq == 0) {
    return fail(args.env(), Err::Unsupported, args.verb(), errnum, "this device has no shared receive queues");
  }
  if (errnum != EINVAL && errnum != ENOMEM) return failErrno(args.env(), args.verb(), errnum);
  return fail(args.env(), Err::NoResources, args.verb(), errnum,
              "the device refused max_wr %u, max_sge %u (its max_srq_wr is %d, its max_srq_sge %d)", want.max_wr,
              want.max_sge, dev.max_srq_wr, dev.max_srq_sge);
}

/** ibv_create_srq_ex(3) without the inline function, which names symbols that we do not link. */
ibv_srq* createXrcSrq(const Srq& srq, ibv_srq_attr* attr) {
  ibv_context* ctx = srq.pd->context->ctx;
  verbs_context* vctx = verbs_get_ctx_op(ctx, create_srq_ex);
  if (vctx == nullptr) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  ibv_srq_init_attr_ex init = {};
  init.attr = *attr;
  init.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  init.srq_type = IBV_SRQT_XRC;
  init.pd = srq.pd->pd;
  init.xrcd = srq.xrcd->xrcd;
  init.cq = srq.cq->cq;
  ibv_srq* created = vctx->create_srq_ex(ctx, &init);
  *attr = init.attr;
  return created;
}

ibv_srq* createBasicSrq(const Srq& srq, ibv_srq_attr* attr) {
  ibv_srq_init_attr init = {};
  init.attr = *attr;
  ibv_srq* created = verbs()->createSrq(srq.pd->pd, &init);
  *attr = init.attr;
  return created;
}

bool publishSrq(Srq* srq, const ibv_srq_attr& granted) {
  // Enough places for what soft-RoCE accepts; more are added as needed.
  if (!srq->ids.init(2 * std::clamp(granted.max_wr, 16u, 1u << 20))) return false;
  srq->maxSge = std::min(granted.max_sge, kMaxQueueSges);
  if (!publish(Kind::Srq, srq)) return false;
  // Asynchronous events return this pointer.
  srq->srq->srq_context = reinterpret_cast<void*>(static_cast<uintptr_t>(srq->handle));
  enter(srq);
  return true;
}

}  // namespace

/** createSrq(pd, maxWr, maxSge, xrcd, cq): the last two are 0 for a basic one. */
napi_value createSrq(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "createSrq");
  ibv_srq_attr attr = {.max_wr = args.uint32(1), .max_sge = args.uint32(2), .srq_limit = 0};
  const bool xrc = args.handle(3) != 0;
  const std::lock_guard lock(controlMutex());
  auto srq = std::make_unique<Srq>();
  srq->pd = args.object<Pd>(0);
  if (xrc) {
    srq->xrcd = args.object<Xrcd>(3);
    srq->cq = args.object<Cq>(4);
  }
  if (!args.ok()) return nullptr;
  if (xrc && (srq->xrcd->context != srq->pd->context || srq->cq->context != srq->pd->context)) {
    return fail(args.env(), Err::Handle, args.verb(), EINVAL, "the XRC domain or the CQ is of another context");
  }
  srq->owner = &args.env();
  const ibv_srq_attr want = attr;
  srq->srq = xrc ? createXrcSrq(*srq, &attr) : createBasicSrq(*srq, &attr);
  if (srq->srq == nullptr) return failCreate(args, errno, want, srq->pd->context->attr);
  uint32_t srqNum = 0;
  if (xrc) ibv_get_srq_num(srq->srq, &srqNum);
  if (!publishSrq(srq.get(), attr)) {
    verbs()->destroySrq(srq->srq);
    return failErrno(args.env(), args.verb(), ENOMEM);
  }
  return Result(napi)
      .number("handle", srq.release()->handle)
      .number("maxWr", attr.max_wr)
      .number("maxSge", attr.max_sge)
      .number("srqNum", srqNum);
}

/** modifySrq(srq, maxWr, srqLimit, mask). */
napi_value modifySrq(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "modifySrq");
  ibv_srq_attr attr = {.max_wr = args.uint32(1), .max_sge = 0, .srq_limit = args.uint32(2)};
  const int mask = args.int32(3);
  const std::lock_guard lock(controlMutex());
  auto* srq = args.object<Srq>(0);
  if (!args.ok()) return nullptr;
  const int rc = verbs()->modifySrq(srq->srq, &attr, mask);
  if (rc == 0) return undefined(napi);
  const int errnum = rc < 0 ? errno : rc;
  if (errnum != EINVAL) return failErrno(args.env(), args.verb(), errnum);
  return fail(args.env(), Err::Argument, args.verb(), errnum,
              "the device refused max_wr %u or srq_limit %u (EINVAL): a limit lies below max_wr, which must hold "
              "the receives that wait",
              attr.max_wr, attr.srq_limit);
}

napi_value querySrq(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "querySrq");
  const std::lock_guard lock(controlMutex());
  auto* srq = args.object<Srq>(0);
  if (srq == nullptr) return nullptr;
  ibv_srq_attr attr = {};
  if (const int rc = verbs()->querySrq(srq->srq, &attr); rc != 0) {
    return failErrno(args.env(), args.verb(), rc < 0 ? errno : rc);
  }
  return Result(napi)
      .number("maxWr", attr.max_wr)
      .number("maxSge", attr.max_sge)
      .number("srqLimit", attr.srq_limit);
}

napi_value destroySrq(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "destroySrq");
  const std::lock_guard lock(controlMutex());
  auto* srq = args.object<Srq>(0);
  if (srq == nullptr) return nullptr;
  if (!srq->childless()) return failBusy(args.env(), args.verb(), *srq);
  Parents parents = parentsOf(srq);
  const int rc = closeSrq(srq);
  for (Object* parent : parents) reap(parent, &args.env());
  if (rc != 0) return failErrno(args.env(), args.verb(), rc);
  return undefined(napi);
}

namespace {

/** Posts to one shared receive queue, with its lock held. */
struct SharedPoster {
  Env& env;
  Srq& srq;
  const WrRing& ring;
  Scratch& scratch;

  uint32_t placeOf(uint32_t i) const { return static_cast<uint32_t>(scratch.recvs[i].wr_id); }

  /** Builds as many of `count` receives from `start` as may be posted at once; reports in `refusal` why not more. */
  uint32_t build(uint32_t start, uint32_t count, Refusal* refusal) {
    const Rules rules = receiveRules(srq.maxSge, ring);
    ibv_sge* sge = scratch.sges;
    for (uint32_t i = 0; i < count; i++) {
      const Entry entry = entryAt(ring, start + i);
      ibv_recv_wr& wr = scratch.recvs[i];
      *refusal = prepareRecv(rules, entry, wr, sge);
      uint32_t place = 0;
      if (refusal->errnum == 0 && !env.foreign.empty() &&
          namesDetached(env, *srq.pd->context, wr.sg_list, wr.num_sge)) {
        *refusal = {EINVAL, REASON_DETACHED};
      }
      if (refusal->errnum == 0 && !srq.ids.put(u64(entry.slot + WR_ID_LO), &place)) {
        *refusal = {ENOMEM, REASON_QUEUE_FULL};
      }
      if (refusal->errnum != 0) return i;
      wr.wr_id = sharedId(srq, place);
      wr.next = &wr + 1;
      sge += wr.num_sge;
    }
    return count;
  }

  /** Posts the first `count` built receives, and frees the places of those that the device refused. */
  uint32_t flush(uint32_t count, Refusal* refusal) {
    ibv_recv_wr* bad = scratch.recvs;
    scratch.recvs[count - 1].next = nullptr;
    const int rc = ibv_post_srq_recv(srq.srq, scratch.recvs, &bad);
    if (rc == 0) return count;
    const auto at = static_cast<size_t>(bad - scratch.recvs);
    const uint32_t taken = bad >= scratch.recvs && at < count ? static_cast<uint32_t>(at) : 0;
    uint64_t id = 0;
    for (uint32_t i = count; i-- > taken;) srq.ids.take(placeOf(i), &id);
    const int errnum = rc > 0 ? rc : errno;
    *refusal = {errnum, errnum == ENOMEM ? REASON_QUEUE_FULL : REASON_PROVIDER};
    return taken;
  }

  uint32_t run(uint32_t start, uint32_t count, Refusal* refusal) {
    const uint32_t most = batchLimit(srq.maxSge);
    uint32_t taken = 0;
    while (taken < count) {
      Refusal why;
      const uint32_t built = build(start + taken, count - taken < most ? count - taken : most, &why);
      const uint32_t posted = built == 0 ? 0 : flush(built, refusal);
      taken += posted;
      if (posted < built) break;
      if (why.errnum != 0) {
        *refusal = why;
        break;
      }
    }
    return taken;
  }
};

}  // namespace

napi_value postSrqRecv(napi_env napi, napi_callback_info) {
  Env* const env = hotEnv(napi);
  if (env == nullptr) return nullptr;
  uint32_t* const call = env->call;
  const uint32_t object = call[CALL_OBJECT];
  const uint32_t ringHandle = call[CALL_RING];
  const uint32_t start = call[CALL_START];
  const uint32_t count = call[CALL_COUNT];
  {
    const HotSection hot(*env);
    Srq* srq = lookup<Srq>(object);
    WrRing* ring = lookup<WrRing>(ringHandle);
    if (srq != nullptr && ring != nullptr) {
      Refusal refusal;
      uint32_t taken = 0;
      if (!inRing(*ring, start, count)) {
        refusal = {EINVAL, REASON_RANGE};
      } else {
        SharedPoster poster{*env, *srq, *ring, scratchOf(*env)};
        srq->ids.lock.lock();
        taken = poster.run(start, count, &refusal);
        srq->ids.lock.unlock();
      }
      answer(*ring, refusal);
      call[CALL_ANSWER] = taken;
      return nullptr;
    }
  }
  return failHotHandles(*env, "postSrqRecv", Kind::Srq, object, Kind::WrRing, ringHandle);
}

}  // namespace isoverbs
