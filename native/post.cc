// The hot path: packed work requests to one ibv_post_send(3) per batch. Plain Node-API, nothing allocated.
#include "post.h"

#include <algorithm>

#include "args.h"
#include "post-ex.h"
#include "prepare.h"
#include "scratch.h"
#include "verbs.h"

namespace isoverbs {

void freeScratch(Scratch* scratch) { delete scratch; }

napi_value failHotHandles(Env& env, const char* verb, Kind kind, uint32_t object, Kind ringKind, uint32_t ring) {
  const bool objectLives = kind == Kind::Qp    ? lookup<Qp>(object) != nullptr
                           : kind == Kind::Srq ? lookup<Srq>(object) != nullptr
                                               : lookup<Cq>(object) != nullptr;
  return objectLives ? failHandle(env, verb, ringKind, ring) : failHandle(env, verb, kind, object);
}

namespace {

/** The differences between the directions. */
struct Send {
  using Wr = ibv_send_wr;
  static constexpr bool kRecv = false;
  static Wr* wrs(Scratch& scratch) { return scratch.sends; }
  static Queue& queue(Qp& qp) { return qp.send; }
  static bool stateTakes(uint32_t state) { return state >= IBV_QPS_RTS && state <= IBV_QPS_ERR; }
  ISOVERBS_HOT static Refusal prepare(const Rules& rules, const Entry& entry, Wr& wr, ibv_sge* sge) {
    return prepareSend(rules, entry, wr, sge);
  }
  static int post(Qp& qp, Wr* wr, Wr** bad) {
    return qp.ex == nullptr ? ibv_post_send(qp.qp, wr, bad) : postSendEx(qp, wr, bad);
  }
  static bool signaled(const Wr& wr) { return (wr.send_flags & IBV_SEND_SIGNALED) != 0; }
};

struct Recv {
  using Wr = ibv_recv_wr;
  static constexpr bool kRecv = true;
  static Wr* wrs(Scratch& scratch) { return scratch.recvs; }
  static Queue& queue(Qp& qp) { return qp.recv; }
  static bool stateTakes(uint32_t state) { return state >= IBV_QPS_INIT && state <= IBV_QPS_ERR; }
  ISOVERBS_HOT static Refusal prepare(const Rules& rules, const Entry& entry, Wr& wr, ibv_sge* sge) {
    return prepareRecv(rules, entry, wr, sge);
  }
  static int post(Qp& qp, Wr* wr, Wr** bad) { return ibv_post_recv(qp.qp, wr, bad); }
  static bool signaled(const Wr&) { return true; }
};

bool isDetached(Env& env, const ForeignBuffer& foreign) {
  napi_value buffer = nullptr;
  bool detached = false;
  if (!foreign.live.load(std::memory_order_acquire)) return false;
  if (napi_get_reference_value(env.env, foreign.buffer, &buffer) != napi_ok || buffer == nullptr) return false;
  return napi_is_detached_arraybuffer(env.env, buffer, &detached) == napi_ok && detached;
}

}  // namespace

[[gnu::noinline]] bool namesDetached(Env& env, const Context& owner, const ibv_sge* sges, int count) {
  const uint64_t context = static_cast<uint64_t>(owner.handle) << 32;
  for (int i = 0; i < count; i++) {
    if (i > 0 && sges[i].lkey == sges[i - 1].lkey) continue;
    const auto found = env.foreign.find(context | sges[i].lkey);
    if (found != env.foreign.end() && isDetached(env, *found->second)) return true;
  }
  return false;
}

namespace {

/** The buffer was detached while in use, so none of the queue pair's results can be trusted. */
void moveToError(Qp& qp) {
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_ERR;
  if (verbs()->modifyQp(qp.qp, &attr, IBV_QP_STATE) == 0) qp.state.store(IBV_QPS_ERR, std::memory_order_release);
}

/**
 * Called when the id table is full. If no request in it was signaled, and the queue pair has not failed, the older half
 * has completed silently: the device, which has at most half as many slots, has accepted the newer half.
 */
bool reclaim(Qp& qp, Queue& queue) {
  const uint32_t done = queue.done.load(std::memory_order_acquire);
  if (queue.anySignaled && static_cast<int32_t>(queue.lastSignaled - done) >= 0) return false;
  ibv_qp_attr attr = {};
  ibv_qp_init_attr init = {};
  if (verbs()->queryQp(qp.qp, &attr, IBV_QP_STATE, &init) != 0) return false;
  if (attr.qp_state != IBV_QPS_RTS && attr.qp_state != IBV_QPS_SQD) return false;
  queue.done.store(queue.next - (queue.mask + 1) / 2, std::memory_order_release);
  queue.anySignaled = false;
  return true;
}

/** rxe reads the region of every bind; this placeholder has key 0. */
ibv_mr* noRegion(const Qp& qp) {
  if (!qp.context->isSoftRoce()) return nullptr;
  // Larger than any driver's own struct.
  static thread_local union {
    ibv_mr mr;
    char room[1024];
  } none;
  none.mr = {};
  none.mr.context = qp.context->ctx;
  none.mr.pd = qp.pd->pd;
  return &none.mr;
}

/** The driver chooses the new key and keeps it in the window. */
int bindType1(const Qp& qp, const ibv_send_wr& wr) {
  ibv_mw_bind bind = {.wr_id = wr.wr_id, .send_flags = wr.send_flags, .bind_info = wr.bind_mw.bind_info};
  if (bind.bind_info.mr == nullptr) bind.bind_info.mr = noRegion(qp);
  return ibv_bind_mw(qp.qp, wr.bind_mw.mw, &bind);
}

/** The application chooses the new key of a type 2 window; keeping it in the window is left to us. */
int postBind(Qp& qp, ibv_send_wr& wr) {
  ibv_send_wr* bad = nullptr;
  const int rc = Send::post(qp, &wr, &bad);
  if (rc == 0) wr.bind_mw.mw->rkey = wr.bind_mw.rkey;
  return rc;
}

template <class D>
struct Poster {
  Env& env;
  Qp& qp;
  const WrRing& ring;
  Queue& queue;
  Scratch& scratch;

  uint32_t room() const { return queue.mask + 1 - (queue.next - queue.done.load(std::memory_order_acquire)); }

  /** How many of `count` requests may be built at once, given the size of the scratch and the free places for ids. */
  uint32_t limit(uint32_t count) const {
    if (queue.batchLimit == 0) [[unlikely]] queue.batchLimit = batchLimit(queue.maxSge);
    return std::min({count, queue.batchLimit, room()});
  }

  /** Builds `count` requests from `start`; returns how many were built, and in `refusal` why not all. */
  uint32_t build(uint32_t start, uint32_t count, Refusal* refusal) {
    const Rules rules = rulesOf(qp, queue, ring);
    const uint64_t qpId = deviceId(qp, D::kRecv, 0);
    const uint32_t mask = queue.mask;
    const size_t extWords = ring.extBytes / 4;
    uint64_t* const ids = queue.ids;
    typename D::Wr* wr = D::wrs(scratch);
    ibv_sge* sge = scratch.sges;
    Entry entry = entryAt(ring, start);
    uint32_t seq = queue.next;
    for (uint32_t i = 0; i < count; i++) {
      const Refusal why = D::prepare(rules, entry, *wr, sge);
      if (why.errnum != 0) [[unlikely]] {
        *refusal = why;
        return i;
      }
      ids[seq & mask] = u64(entry.slot + WR_ID_LO);
      wr->wr_id = qpId | seq;
      wr->next = wr + 1;
      sge += wr->num_sge;
      seq++;
      wr++;
      entry.slot += SLOT_WORDS;
      entry.ext += extWords;
    }
    return count;
  }

  /** How many of the built requests come before the first one that names a detached buffer. */
  uint32_t cutDetached(uint32_t built, Refusal* refusal) {
    const typename D::Wr* wrs = D::wrs(scratch);
    for (uint32_t i = 0; i < built; i++) {
      if (!namesDetached(env, *qp.context, wrs[i].sg_list, wrs[i].num_sge)) continue;
      *refusal = {EINVAL, REASON_DETACHED};
      return i;
    }
    return built;
  }

  /** Posts the first `count` built requests; returns how many were accepted, and in `refusal` why not all. */
  uint32_t flush(uint32_t count, Refusal* refusal) {
    typename D::Wr* wrs = D::wrs(scratch);
    typename D::Wr* bad = wrs;
    wrs[count - 1].next = nullptr;
    const int rc = D::post(qp, wrs, &bad);
    uint32_t taken = count;
    if (rc != 0) {
      const auto at = static_cast<size_t>(bad - wrs);
      taken = bad >= wrs && at < count ? static_cast<uint32_t>(at) : 0;
      const int errnum = rc > 0 ? rc : errno;
      *refusal = {errnum, errnum == ENOMEM ? REASON_QUEUE_FULL : REASON_PROVIDER};
    }
    for (uint32_t i = taken; i-- > 0;) {
      if (!D::signaled(wrs[i])) continue;
      queue.lastSignaled = queue.next + i;
      queue.anySignaled = true;
      break;
    }
    queue.next += taken;
    return taken;
  }

  /**
   * Posts a BIND_MW that was built at index `at` of the scratch, after everything before it was posted. It is posted
   * alone, because drivers read the window's previous key, which each bind changes.
   */
  bool bind(uint32_t at, const Entry& entry, Refusal* refusal) {
    ibv_send_wr& wr = scratch.sends[at];
    ibv_mw* const mw = wr.bind_mw.mw;
    wr.next = nullptr;
    wr.wr_id = deviceId(qp, false, queue.next);
    queue.ids[queue.next & queue.mask] = u64(entry.slot + WR_ID_LO);
    const int rc = mw->type == IBV_MW_TYPE_1 ? bindType1(qp, wr) : postBind(qp, wr);
    if (rc != 0) {
      const int errnum = rc > 0 ? rc : errno;
      *refusal = {errnum, errnum == ENOMEM ? REASON_QUEUE_FULL : REASON_PROVIDER};
      return false;
    }
    if (D::signaled(wr)) {
      queue.lastSignaled = queue.next;
      queue.anySignaled = true;
    }
    queue.next++;
    return true;
  }

  uint32_t run(uint32_t start, uint32_t count, Refusal* refusal) {
    uint32_t taken = 0;
    while (taken < count) {
      const uint32_t n = limit(count - taken);
      if (n == 0) {
        if (reclaim(qp, queue)) continue;
        *refusal = {ENOMEM, REASON_QUEUE_FULL};
        break;
      }
      Refusal why;
      uint32_t built = build(start + taken, n, &why);
      if (!env.foreign.empty()) [[unlikely]] built = cutDetached(built, &why);
      if (built > 0) {
        const uint32_t posted = flush(built, refusal);
        taken += posted;
        if (posted < built) break;
      }
      if constexpr (!D::kRecv) {
        if (why.errnum == kAlone) [[unlikely]] {
          if (!bind(built, entryAt(ring, start + taken), refusal)) break;
          taken++;
          continue;
        }
      }
      if (why.errnum != 0) {
        *refusal = why;
        break;
      }
    }
    return taken;
  }
};

/** The queue pair uses a shared receive queue, or has no receives. */
bool takesNoRecv(const Qp& qp) {
  return qp.srq != nullptr || qp.qp->qp_type == IBV_QPT_XRC_SEND || qp.qp->qp_type == IBV_QPT_XRC_RECV;
}

template <class D>
uint32_t post(Env& env, Qp& qp, const WrRing& ring, uint32_t start, uint32_t count) {
  Refusal refusal;
  uint32_t taken = 0;
  if (!inRing(ring, start, count)) {
    refusal = {EINVAL, REASON_RANGE};
  } else if (D::kRecv && takesNoRecv(qp)) {
    refusal = {EINVAL, REASON_SRQ};
  } else if (count > 0 && !D::stateTakes(qp.state.load(std::memory_order_acquire))) {
    refusal = {EINVAL, REASON_STATE};
  } else {
    Queue& queue = D::queue(qp);
    queue.lock.lock();
    taken = Poster<D>{env, qp, ring, queue, scratchOf(env)}.run(start, count, &refusal);
    queue.lock.unlock();
    if (refusal.reason == REASON_DETACHED) moveToError(qp);
  }
  answer(ring, refusal);
  return taken;
}

template <class D>
napi_value postVerb(napi_env napi, const char* verb) {
  Env* const env = hotEnv(napi);
  if (env == nullptr) return nullptr;
  uint32_t* const call = env->call;
  const uint32_t object = call[CALL_OBJECT];
  const uint32_t ringHandle = call[CALL_RING];
  {
    const HotSection hot(*env);
    Qp* qp = lookup<Qp>(object);
    WrRing* ring = lookup<WrRing>(ringHandle);
    if (qp != nullptr && ring != nullptr) [[likely]] {
      call[CALL_ANSWER] = post<D>(*env, *qp, *ring, call[CALL_START], call[CALL_COUNT]);
      return nullptr;
    }
  }
  return failHotHandles(*env, verb, Kind::Qp, object, Kind::WrRing, ringHandle);
}

Refusal validate(Env& env, Qp& qp, const WrRing& ring, uint32_t index) {
  if (!inRing(ring, index, 1)) return {EINVAL, REASON_RANGE};
  if (!Send::stateTakes(qp.state.load(std::memory_order_acquire))) return {EINVAL, REASON_STATE};
  Scratch& scratch = scratchOf(env);
  ibv_send_wr& wr = scratch.sends[0];
  const Refusal refusal = prepareSend(rulesOf(qp, qp.send, ring), entryAt(ring, index), wr, scratch.sges);
  if (refusal.errnum == kAlone) return {};
  if (refusal.errnum == 0 && namesDetached(env, *qp.context, scratch.sges, wr.num_sge)) {
    return {EINVAL, REASON_DETACHED};
  }
  return refusal;
}

}  // namespace

napi_value callBlock(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "callBlock");
  Env& env = args.env();
  Exposed exposed;
  if (env.call != nullptr) return fail(env, Err::State, args.verb(), EBUSY, "the call block was handed out before");
  if (!allocExposed(env, args.verb(), kCallWords * sizeof(uint32_t), &exposed)) return nullptr;
  env.callMemory = exposed.memory;
  env.call = reinterpret_cast<uint32_t*>(exposed.memory->data);
  return Result(napi)
      .value("memory", exposed.buffer)
      .number("byteOffset", static_cast<double>(exposed.byteOffset))
      .number("words", kCallWords);
}

napi_value postSend(napi_env env, napi_callback_info) { return postVerb<Send>(env, "postSend"); }

napi_value postRecv(napi_env env, napi_callback_info) { return postVerb<Recv>(env, "postRecv"); }

napi_value validateSend(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "validateSend");
  const uint32_t qpHandle = args.handle(0);
  const uint32_t ringHandle = args.handle(1);
  const uint32_t index = args.uint32(2);
  if (!args.ok()) return nullptr;
  Refusal refusal;
  bool live = false;
  {
    const HotSection hot(args.env());
    Qp* qp = lookup<Qp>(qpHandle);
    WrRing* ring = lookup<WrRing>(ringHandle);
    live = qp != nullptr && ring != nullptr;
    if (live) {
      refusal = validate(args.env(), *qp, *ring, index);
      answer(*ring, refusal);
    }
  }
  if (!live) return failHotHandles(args.env(), args.verb(), Kind::Qp, qpHandle, Kind::WrRing, ringHandle);
  return number(napi, refusal.errnum);
}

}  // namespace isoverbs
