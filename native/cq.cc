// Completion queues, but for polling (poll.cc).
#include <cerrno>
#include <memory>

#include "args.h"
#include "objects.h"
#include "verbs.h"

namespace isoverbs {

napi_value createCq(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "createCq");
  const int cqe = args.int32(1);
  const uint32_t channelHandle = args.handle(2);
  const std::lock_guard lock(controlMutex());
  auto* context = args.object<Context>(0);
  if (context == nullptr) return nullptr;
  Channel* channel = channelHandle == 0 ? nullptr : args.object<Channel>(2);
  if (!args.ok()) return nullptr;
  if (channel != nullptr && channel->context != context) {
    return fail(args.env(), Err::Handle, args.verb(), EINVAL, "the completion channel is of another context");
  }
  if (cqe < 1) return fail(args.env(), Err::Argument, args.verb(), EINVAL, "cqe must be at least 1, got %d", cqe);
  if (cqe > context->attr.max_cqe) {
    return fail(args.env(), Err::NoResources, args.verb(), EINVAL, "cqe %d is more than the device's max_cqe %d", cqe,
                context->attr.max_cqe);
  }
  auto cq = std::make_unique<Cq>();
  cq->owner = &args.env();
  cq->context = context;
  cq->channel = channel;
  cq->cq = verbs()->createCq(context->ctx, cqe, nullptr, channel == nullptr ? nullptr : channel->channel, 0);
  if (cq->cq == nullptr) return failErrno(args.env(), args.verb(), errno);
  if (!publish(Kind::Cq, cq.get())) {
    verbs()->destroyCq(cq->cq);
    return failErrno(args.env(), args.verb(), ENOMEM);
  }
  // What ibv_get_cq_event(3) gives back. The CQ is not armed yet, so no event was missed.
  cq->cq->cq_context = reinterpret_cast<void*>(static_cast<uintptr_t>(cq->handle));
  context->children[static_cast<uint32_t>(Kind::Cq)]++;
  if (channel != nullptr) channel->children[static_cast<uint32_t>(Kind::Cq)]++;
  const int granted = cq->cq->cqe;
  return Result(napi).number("handle", cq.release()->handle).number("cqe", granted);
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
