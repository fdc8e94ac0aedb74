// The hot path: packed work requests to one ibv_post_send(3) per batch. Plain Node-API, nothing allocated.
#include "post.h"

#include <arpa/inet.h>

#include <cerrno>

#include "args.h"
#include "layout.h"
#include "objects.h"
#include "verbs.h"

namespace isoverbs {

using namespace layout;

static_assert(sizeof(ibv_sge) == 16 && IBV_WR_RDMA_WRITE == 0 && IBV_WR_ATOMIC_FETCH_AND_ADD == 6);
static_assert(IBV_SEND_FENCE == 1 && IBV_SEND_SIGNALED == 2 && IBV_SEND_SOLICITED == 4 && IBV_SEND_INLINE == 8);

namespace {

/** A batch longer than this goes down in several lists. */
constexpr uint32_t kMaxWrs = 256;
constexpr uint32_t kMaxSges = 1024;

}  // namespace

struct Scratch {
  ibv_send_wr sends[kMaxWrs];
  ibv_recv_wr recvs[kMaxWrs];
  ibv_sge sges[kMaxSges];
};

void freeScratch(Scratch* scratch) { delete scratch; }

/** Without the comforts of Args: this is called millions of times a second. */
Env& readHotArgs(napi_env napi, napi_callback_info info, uint32_t (&out)[4]) {
  napi_value argv[4];
  size_t argc = 4;
  void* data = nullptr;
  napi_get_cb_info(napi, info, &argc, argv, nullptr, &data);
  // What is no number leaves these: no handle, and a place outside any ring.
  constexpr uint32_t kNone[4] = {0, 0, ~0u, ~0u};
  for (size_t i = 0; i < 4; i++) {
    out[i] = kNone[i];
    napi_get_value_uint32(napi, argv[i], &out[i]);
  }
  return *static_cast<Env*>(data);
}

napi_value failHotHandles(Env& env, const char* verb, Kind kind, uint32_t object, Kind ringKind, uint32_t ring) {
  const bool objectLives = kind == Kind::Qp ? lookup<Qp>(object) != nullptr : lookup<Cq>(object) != nullptr;
  return objectLives ? failHandle(env, verb, ringKind, ring) : failHandle(env, verb, kind, object);
}

namespace {

/** Why a slot is not posted; errnum 0: it may be. */
struct Refusal {
  int errnum = 0;
  uint32_t reason = REASON_NONE;
};

/** One slot of a ring. */
struct Entry {
  const uint32_t* slot;
  const uint32_t* ext;
};

Entry entryAt(const WrRing& ring, uint32_t index) {
  const uint32_t* slots = ring.words + HEADER_WORDS;
  const uint32_t* exts = slots + size_t{ring.capacity} * SLOT_WORDS;
  return {slots + size_t{index} * SLOT_WORDS, exts + size_t{index} * (ring.extBytes / 4)};
}

uint64_t u64(const uint32_t* words) { return words[0] | static_cast<uint64_t>(words[1]) << 32; }

/** Copies the SGEs of a slot; the total length. The caller has checked the count. */
uint64_t copySges(const Entry& entry, uint32_t count, ibv_sge* out) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t* from = i < SLOT_SGES ? entry.slot + WR_SGE0 + i * SGE_WORDS
                                         : entry.ext + (i - SLOT_SGES) * SGE_WORDS;
    out[i] = {.addr = u64(from), .length = from[SGE_LENGTH], .lkey = from[SGE_LKEY]};
    total += out[i].length;
  }
  return total;
}

/** SGEs that the ring has room for in each slot. */
uint32_t ringSges(const WrRing& ring) { return SLOT_SGES + ring.extBytes / 16; }

bool opcodeAllowed(ibv_qp_type type, uint32_t opcode) {
  if (type == IBV_QPT_RC) return opcode <= IBV_WR_ATOMIC_FETCH_AND_ADD;
  // UD wants an address handle with each send, which this interface does not have yet.
  return type == IBV_QPT_UC && opcode <= IBV_WR_SEND_WITH_IMM;
}

bool hasRemote(uint32_t opcode) { return opcode != IBV_WR_SEND && opcode != IBV_WR_SEND_WITH_IMM; }

Refusal prepareInline(const Qp& qp, const WrRing& ring, const Entry& entry, uint32_t opcode, uint32_t sges,
                      ibv_send_wr& wr, ibv_sge* sge) {
  const uint32_t length = entry.slot[WR_INLINE_LENGTH];
  if (opcode > IBV_WR_SEND_WITH_IMM || length > ring.extBytes || length > qp.maxInlineBytes) {
    return {EINVAL, REASON_INLINE};
  }
  if (sges != 0) return {EINVAL, REASON_SGE_COUNT};
  // libibverbs copies the bytes during the post; lkey does not count.
  sge[0] = {.addr = reinterpret_cast<uintptr_t>(entry.ext), .length = length, .lkey = 0};
  wr.num_sge = length == 0 ? 0 : 1;
  return {};
}

Refusal prepareAtomic(const Entry& entry, uint32_t sges, ibv_send_wr& wr, ibv_sge* sge) {
  const uint64_t remote = u64(entry.slot + WR_REMOTE_LO);
  if (sges != 1 || (remote & 7) != 0 || copySges(entry, 1, sge) != 8) return {EINVAL, REASON_ATOMIC};
  wr.wr.atomic.remote_addr = remote;
  wr.wr.atomic.rkey = entry.slot[WR_RKEY];
  wr.wr.atomic.compare_add = u64(entry.slot + WR_COMPARE_LO);
  wr.wr.atomic.swap = u64(entry.slot + WR_SWAP_LO);
  wr.num_sge = 1;
  return {};
}

/** Fills `wr` from a slot, or says why it cannot be posted. `sge` has room for the queue's max_sge. */
Refusal prepareSend(const Qp& qp, const WrRing& ring, const Entry& entry, ibv_send_wr& wr, ibv_sge* sge) {
  const uint32_t op = entry.slot[WR_OP];
  const uint32_t opcode = op & 0xff;
  const uint32_t flags = op >> 8 & 0xff;
  const uint32_t sges = op >> 16;
  if (opcode == ISO_WR_WAIT || opcode == ISO_WR_ENABLE) return {EOPNOTSUPP, REASON_OPCODE};
  if (!opcodeAllowed(qp.qp->qp_type, opcode)) return {EINVAL, REASON_OPCODE};
  constexpr uint32_t kDevice = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
  if ((flags & ~(kDevice | ISO_SEND_INTERNAL)) != 0) return {EINVAL, REASON_FLAGS};
  const bool signal = qp.sigAll && (flags & ISO_SEND_INTERNAL) == 0;
  wr.opcode = static_cast<ibv_wr_opcode>(opcode);
  wr.send_flags = (flags & kDevice) | (signal ? IBV_SEND_SIGNALED : 0);
  wr.sg_list = sge;
  if ((flags & IBV_SEND_INLINE) == 0) {
    if (sges > qp.send.maxSge || sges > ringSges(ring)) return {EINVAL, REASON_SGE_COUNT};
    if (opcode >= IBV_WR_ATOMIC_CMP_AND_SWP) return prepareAtomic(entry, sges, wr, sge);
    wr.num_sge = static_cast<int>(sges);
    if (copySges(entry, sges, sge) > qp.maxMessageBytes.load(std::memory_order_relaxed)) {
      return {EINVAL, REASON_LENGTH};
    }
  } else if (const Refusal refusal = prepareInline(qp, ring, entry, opcode, sges, wr, sge); refusal.errnum != 0) {
    return refusal;
  }
  wr.imm_data = htonl(entry.slot[WR_IMM]);
  if (hasRemote(opcode)) {
    wr.wr.rdma.remote_addr = u64(entry.slot + WR_REMOTE_LO);
    wr.wr.rdma.rkey = entry.slot[WR_RKEY];
  }
  return {};
}

Refusal prepareRecv(const Qp& qp, const WrRing& ring, const Entry& entry, ibv_recv_wr& wr, ibv_sge* sge) {
  const uint32_t sges = entry.slot[WR_OP] >> 16;
  if (sges > qp.recv.maxSge || sges > ringSges(ring)) return {EINVAL, REASON_SGE_COUNT};
  copySges(entry, sges, sge);
  wr.sg_list = sge;
  wr.num_sge = static_cast<int>(sges);
  return {};
}

/** What differs between the directions. */
struct Send {
  using Wr = ibv_send_wr;
  static constexpr bool kRecv = false;
  static Wr* wrs(Scratch& scratch) { return scratch.sends; }
  static Queue& queue(Qp& qp) { return qp.send; }
  static bool stateTakes(uint32_t state) { return state >= IBV_QPS_RTS && state <= IBV_QPS_ERR; }
  static Refusal prepare(const Qp& qp, const WrRing& ring, const Entry& entry, Wr& wr, ibv_sge* sge) {
    return prepareSend(qp, ring, entry, wr, sge);
  }
  static int post(ibv_qp* qp, Wr* wr, Wr** bad) { return ibv_post_send(qp, wr, bad); }
  static bool signaled(const Wr& wr) { return (wr.send_flags & IBV_SEND_SIGNALED) != 0; }
};

struct Recv {
  using Wr = ibv_recv_wr;
  static constexpr bool kRecv = true;
  static Wr* wrs(Scratch& scratch) { return scratch.recvs; }
  static Queue& queue(Qp& qp) { return qp.recv; }
  static bool stateTakes(uint32_t state) { return state >= IBV_QPS_INIT && state <= IBV_QPS_ERR; }
  static Refusal prepare(const Qp& qp, const WrRing& ring, const Entry& entry, Wr& wr, ibv_sge* sge) {
    return prepareRecv(qp, ring, entry, wr, sge);
  }
  static int post(ibv_qp* qp, Wr* wr, Wr** bad) { return ibv_post_recv(qp, wr, bad); }
  static bool signaled(const Wr&) { return true; }
};

bool isDetached(Env& env, const ForeignBuffer& foreign) {
  napi_value buffer = nullptr;
  bool detached = false;
  if (!foreign.live.load(std::memory_order_acquire)) return false;
  if (napi_get_reference_value(env.env, foreign.buffer, &buffer) != napi_ok || buffer == nullptr) return false;
  return napi_is_detached_arraybuffer(env.env, buffer, &detached) == napi_ok && detached;
}

/** Whether an SGE names an ArrayBuffer of the application's that it has detached. Only with such regions. */
bool namesDetached(Env& env, const Qp& qp, const ibv_sge* sges, int count) {
  const uint64_t context = static_cast<uint64_t>(qp.pd->context->handle) << 32;
  for (int i = 0; i < count; i++) {
    if (i > 0 && sges[i].lkey == sges[i - 1].lkey) continue;
    const auto found = env.foreign.find(context | sges[i].lkey);
    if (found != env.foreign.end() && isDetached(env, *found->second)) return true;
  }
  return false;
}

/** The buffer moved away under the queue pair: nothing that it still does can be trusted. */
void moveToError(Qp& qp) {
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_ERR;
  if (verbs()->modifyQp(qp.qp, &attr, IBV_QP_STATE) == 0) qp.state.store(IBV_QPS_ERR, std::memory_order_release);
}

/**
 * Called when the id table is full. If nothing in it was signaled, and the queue pair is well, the older
 * half has completed in silence: the device, which has at most half as many slots, took the newer half.
 */
bool reclaim(Qp& qp, Queue& queue) {
  const uint32_t done = queue.done.load(std::memory_order_acquire);
  if (queue.anySignaled && static_cast<int32_t>(queue.lastSignaled - done) >= 0) return false;
  ibv_qp_attr attr = {};
  ibv_qp_init_attr init = {};
  if (verbs()->queryQp(qp.qp, &attr, IBV_QP_STATE, &init) != 0) return false;
  if (attr.qp_state != IBV_QPS_RTS && attr.qp_state != IBV_QPS_SQD) return false;
  queue.done.store(queue.next - (queue.mask + 1) / 2, std::memory_order_release);
  return true;
}

template <class D>
struct Poster {
  Env& env;
  Qp& qp;
  const WrRing& ring;
  Queue& queue;
  Scratch& scratch;

  uint32_t room() const { return queue.mask + 1 - (queue.next - queue.done.load(std::memory_order_acquire)); }

  /** Builds up to `count` requests from `start`; how many, and why not more. */
  uint32_t build(uint32_t start, uint32_t count, Refusal* refusal) {
    typename D::Wr* wrs = D::wrs(scratch);
    ibv_sge* sge = scratch.sges;
    const ibv_sge* const end = scratch.sges + kMaxSges;
    const bool foreign = !env.foreign.empty();
    // An inline request takes one SGE even where the queue has none.
    const uint32_t perWr = queue.maxSge + 1;
    uint32_t room = this->room();
    for (uint32_t i = 0; i < count; i++) {
      if (sge + perWr > end) return i;
      if (room == 0 && (!reclaim(qp, queue) || (room = this->room() - i) == 0)) {
        *refusal = {ENOMEM, REASON_QUEUE_FULL};
        return i;
      }
      const Entry entry = entryAt(ring, start + i);
      *refusal = D::prepare(qp, ring, entry, wrs[i], sge);
      if (refusal->errnum == 0 && foreign && namesDetached(env, qp, sge, wrs[i].num_sge)) {
        *refusal = {EINVAL, REASON_DETACHED};
      }
      if (refusal->errnum != 0) return i;
      const uint32_t seq = queue.next + i;
      queue.ids[seq & queue.mask] = u64(entry.slot + WR_ID_LO);
      wrs[i].wr_id = deviceId(qp, D::kRecv, seq);
      wrs[i].next = &wrs[i + 1];
      sge += wrs[i].num_sge;
      room--;
    }
    return count;
  }

  /** Posts the first `count` requests that were built; how many were taken, and why not all. */
  uint32_t flush(uint32_t count, Refusal* refusal) {
    typename D::Wr* wrs = D::wrs(scratch);
    typename D::Wr* bad = wrs;
    wrs[count - 1].next = nullptr;
    const int rc = D::post(qp.qp, wrs, &bad);
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

  uint32_t run(uint32_t start, uint32_t count, Refusal* refusal) {
    uint32_t taken = 0;
    while (taken < count && refusal->errnum == 0) {
      const uint32_t rest = count - taken;
      Refusal why;
      const uint32_t built = build(start + taken, rest < kMaxWrs ? rest : kMaxWrs, &why);
      if (built > 0) {
        const uint32_t posted = flush(built, refusal);
        taken += posted;
        if (posted < built) break;
      }
      if (why.errnum != 0) *refusal = why;
    }
    return taken;
  }
};

bool inRing(const WrRing& ring, uint32_t start, uint32_t count) {
  return start <= ring.capacity && count <= ring.capacity - start;
}

template <class D>
uint32_t post(Env& env, Qp& qp, const WrRing& ring, uint32_t start, uint32_t count) {
  Refusal refusal;
  uint32_t taken = 0;
  if (!inRing(ring, start, count)) {
    refusal = {EINVAL, REASON_RANGE};
  } else if (count > 0 && !D::stateTakes(qp.state.load(std::memory_order_acquire))) {
    refusal = {EINVAL, REASON_STATE};
  } else {
    if (env.scratch == nullptr) env.scratch = new Scratch;
    Queue& queue = D::queue(qp);
    queue.lock.lock();
    taken = Poster<D>{env, qp, ring, queue, *env.scratch}.run(start, count, &refusal);
    queue.lock.unlock();
    if (refusal.reason == REASON_DETACHED) moveToError(qp);
  }
  ring.words[HDR_ERRNO] = static_cast<uint32_t>(refusal.errnum);
  ring.words[HDR_REASON] = refusal.reason;
  return taken;
}

template <class D>
napi_value postVerb(napi_env napi, napi_callback_info info, const char* verb) {
  uint32_t args[4];
  Env& env = readHotArgs(napi, info, args);
  uint32_t taken = 0;
  bool live = false;
  {
    const HotSection hot(env);
    Qp* qp = lookup<Qp>(args[0]);
    WrRing* ring = lookup<WrRing>(args[1]);
    live = qp != nullptr && ring != nullptr;
    if (live) taken = post<D>(env, *qp, *ring, args[2], args[3]);
  }
  if (!live) return failHotHandles(env, verb, Kind::Qp, args[0], Kind::WrRing, args[1]);
  napi_value result = nullptr;
  napi_create_uint32(napi, taken, &result);
  return result;
}

Refusal validate(Env& env, Qp& qp, const WrRing& ring, uint32_t index) {
  if (!inRing(ring, index, 1)) return {EINVAL, REASON_RANGE};
  if (!Send::stateTakes(qp.state.load(std::memory_order_acquire))) return {EINVAL, REASON_STATE};
  if (env.scratch == nullptr) env.scratch = new Scratch;
  ibv_send_wr& wr = env.scratch->sends[0];
  const Refusal refusal = prepareSend(qp, ring, entryAt(ring, index), wr, env.scratch->sges);
  if (refusal.errnum == 0 && namesDetached(env, qp, env.scratch->sges, wr.num_sge)) return {EINVAL, REASON_DETACHED};
  return refusal;
}

}  // namespace

napi_value postSend(napi_env env, napi_callback_info info) { return postVerb<Send>(env, info, "postSend"); }

napi_value postRecv(napi_env env, napi_callback_info info) { return postVerb<Recv>(env, info, "postRecv"); }

napi_value validateSend(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "validateSend");
  const uint32_t qpHandle = args.uint32(0);
  const uint32_t ringHandle = args.uint32(1);
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
      ring->words[HDR_ERRNO] = static_cast<uint32_t>(refusal.errnum);
      ring->words[HDR_REASON] = refusal.reason;
    }
  }
  if (!live) return failHotHandles(args.env(), args.verb(), Kind::Qp, qpHandle, Kind::WrRing, ringHandle);
  return number(napi, refusal.errnum);
}

}  // namespace isoverbs
