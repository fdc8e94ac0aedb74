// Completion queues, except polling (poll.cc).
#include <cerrno>
#include <memory>

#include "args.h"
#include "objects.h"
#include "verbs.h"

namespace isoverbs {

namespace {

/** Fields that an extended queue must report in order to replace a plain one. */
constexpr uint64_t kPlainFlags = IBV_WC_STANDARD_FLAGS;

struct Wanted {
  int cqe;
  uint32_t vector;
  uint64_t wcFlags;
};

bool createPlain(Cq* cq, const Wanted& want) {
  ibv_comp_channel* channel = cq->channel == nullptr ? nullptr : cq->channel->channel;
  const auto vector = static_cast<int>(want.vector);
  cq->cq = verbs()->createCq(cq->context->ctx, want.cqe, nullptr, channel, vector);
  return cq->cq != nullptr;
}

bool createExtended(Cq* cq, const Wanted& want) {
  ibv_context* ctx = cq->context->ctx;
  verbs_context* vctx = verbs_get_ctx_op(ctx, create_cq_ex);
  if (vctx == nullptr) {
    errno = EOPNOTSUPP;
    return false;
  }
  ibv_cq_init_attr_ex attr = {};
  attr.cqe = static_cast<uint32_t>(want.cqe);
  attr.channel = cq->channel == nullptr ? nullptr : cq->channel->channel;
  attr.comp_vector = want.vector;
  attr.wc_flags = kPlainFlags | want.wcFlags;
  cq->ex = vctx->create_cq_ex(ctx, &attr);
  if (cq->ex == nullptr) return false;
  cq->wcFlags = attr.wc_flags;
  cq->cq = ibv_cq_ex_to_cq(cq->ex);
  return true;
}

napi_value failCreate(Args& args, const Wanted& want, int errnum) {
  if (want.wcFlags != 0 && (errnum == EOPNOTSUPP || errnum == ENOSYS || errnum == EINVAL)) {
    return fail(args.env(), Err::Unsupported, args.verb(), errnum,
                "this device has no extended completion queue that reports all of wcFlags 0x%llx",
                static_cast<unsigned long long>(want.wcFlags));
  }
  return failErrno(args.env(), args.verb(), errnum);
}

/** Checks that require no device; returns false with an exception pending. */
bool check(Args& args, const Context* context, const Wanted& want) {
  if (want.cqe < 1) {
    fail(args.env(), Err::Argument, args.verb(), EINVAL, "cqe must be at least 1, got %d", want.cqe);
    return false;
  }
  if (want.cqe > context->attr.max_cqe) {
    fail(args.env(), Err::NoResources, args.verb(), EINVAL, "cqe %d is more than the device's max_cqe %d", want.cqe,
         context->attr.max_cqe);
    return false;
  }
  const auto vectors = static_cast<uint32_t>(context->ctx->num_comp_vectors > 0 ? context->ctx->num_comp_vectors : 1);
  if (want.vector >= vectors) {
    fail(args.env(), Err::Argument, args.verb(), EINVAL, "compVector must be a whole number from 0 to %u, got %u",
         vectors - 1, want.vector);
    return false;
  }
  return true;
}

}  // namespace

/** createCq(context, cqe, channel, compVector, wcFlags). */
napi_value createCq(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "createCq");
  const uint32_t channelHandle = args.handle(2);
  const Wanted want = {args.int32(1), args.uint32(3), args.uint32(4)};
  const std::lock_guard lock(controlMutex());
  auto* context = args.object<Context>(0);
  if (context == nullptr) return nullptr;
  Channel* channel = channelHandle == 0 ? nullptr : args.object<Channel>(2);
  if (!args.ok()) return nullptr;
  if (channel != nullptr && channel->context != context) {
    return fail(args.env(), Err::Handle, args.verb(), EINVAL, "the completion channel is of another context");
  }
  if (!check(args, context, want)) return nullptr;
  auto cq = std::make_unique<Cq>();
  cq->owner = &args.env();
  cq->context = context;
  cq->channel = channel;
  // Some drivers fail without setting errno.
  errno = EINVAL;
  if (!(want.wcFlags == 0 ? createPlain(cq.get(), want) : createExtended(cq.get(), want))) {
    return failCreate(args, want, errno);
  }
  if (!publish(Kind::Cq, cq.get())) {
    verbs()->destroyCq(cq->cq);
    return failErrno(args.env(), args.verb(), ENOMEM);
  }
  // ibv_get_cq_event(3) returns this pointer. The CQ is not armed yet, so no event was missed.
  cq->cq->cq_context = reinterpret_cast<void*>(static_cast<uintptr_t>(cq->handle));
  context->children[static_cast<uint32_t>(Kind::Cq)]++;
  if (channel != nullptr) channel->children[static_cast<uint32_t>(Kind::Cq)]++;
  const int granted = cq->cq->cqe;
  return Result(napi).number("handle", cq.release()->handle).number("cqe", granted);
}

/** resizeCq(cq, cqe): returns the number of entries granted. */
napi_value resizeCq(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "resizeCq");
  const int cqe = args.int32(1);
  const std::lock_guard lock(controlMutex());
  auto* cq = args.object<Cq>(0);
  if (cq == nullptr || !check(args, cq->context, {cqe, 0, 0})) return nullptr;
  // The driver moves the ring, so no thread may poll in the meantime.
  cq->lock.lock();
  const int rc = verbs()->resizeCq(cq->cq, cqe);
  cq->lock.unlock();
  if (rc == 0) return number(napi, cq->cq->cqe);
  const int errnum = rc > 0 ? rc : errno;
  if (errnum == EINVAL || errnum == EBUSY) {
    return fail(args.env(), Err::Busy, args.verb(), errnum, "more completions wait than %d entries hold; poll them first",
                cqe);
  }
  return failErrno(args.env(), args.verb(), errnum);
}

/** modifyCq(cq, maxCount, periodUs). */
napi_value modifyCq(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "modifyCq");
  ibv_modify_cq_attr attr = {};
  attr.attr_mask = IBV_CQ_ATTR_MODERATE;
  attr.moderate.cq_count = static_cast<uint16_t>(args.uint32(1));
  attr.moderate.cq_period = static_cast<uint16_t>(args.uint32(2));
  const std::lock_guard lock(controlMutex());
  auto* cq = args.object<Cq>(0);
  if (cq == nullptr) return nullptr;
  verbs_context* vctx = verbs_get_ctx_op(cq->context->ctx, modify_cq);
  const int rc = vctx == nullptr ? EOPNOTSUPP : vctx->modify_cq(cq->cq, &attr);
  const int errnum = rc < 0 ? errno : rc;
  if (errnum == 0) return undefined(napi);
  if (errnum == EOPNOTSUPP || errnum == ENOSYS) {
    return fail(args.env(), Err::Unsupported, args.verb(), errnum, "this device does not moderate completion events");
  }
  if (errnum == EINVAL) {
    return fail(args.env(), Err::Argument, args.verb(), errnum, "the device refused the moderation (EINVAL)");
  }
  return failErrno(args.env(), args.verb(), errnum);
}

napi_value destroyCq(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "destroyCq");
  const std::lock_guard lock(controlMutex());
  auto* cq = args.object<Cq>(0);
  if (cq == nullptr) return nullptr;
  if (!cq->childless()) return failBusy(args.env(), args.verb(), *cq);
  Context* context = cq->context;
  Channel* channel = cq->channel;
  const int rc = closeCq(cq);
  if (channel != nullptr) reap(channel, &args.env());
  reap(context, &args.env());
  if (rc != 0) return failErrno(args.env(), args.verb(), rc);
  return undefined(napi);
}

napi_value reqNotifyCq(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "reqNotifyCq");
  const uint32_t handle = args.handle(0);
  const bool solicitedOnly = args.boolean(1);
  if (!args.ok()) return nullptr;
  int rc = -1;
  bool channel = false;
  {
    const HotSection hot(args.env());
    if (Cq* cq = lookup<Cq>(handle)) {
      channel = cq->channel != nullptr;
      rc = channel ? ibv_req_notify_cq(cq->cq, solicitedOnly ? 1 : 0) : EINVAL;
    }
  }
  if (rc == 0) return undefined(napi);
  if (rc < 0) return failHandle(args.env(), args.verb(), Kind::Cq, handle);
  if (!channel) return fail(args.env(), Err::Argument, args.verb(), EINVAL, "this completion queue has no channel");
  return failErrno(args.env(), args.verb(), rc);
}

}  // namespace isoverbs
