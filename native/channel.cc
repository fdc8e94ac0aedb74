// Completion channels: the events of many CQs, delivered on the env's own loop.
#include <cerrno>
#include <memory>

#include "args.h"
#include "objects.h"
#include "verbs.h"
#include "watch.h"

namespace isoverbs {

namespace {

bool fetchEvent(Watchable* object, Env&, void* event) {
  ibv_cq* cq = nullptr;
  void* handle = nullptr;
  if (verbs()->getCqEvent(static_cast<Channel*>(object)->channel, &cq, &handle) != 0) return false;
  verbs()->ackCqEvents(cq, 1);
  *static_cast<uint32_t*>(event) = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(handle));
  return true;
}

/** Listener arguments: (cq). Late events of a closed CQ are dropped. */
size_t describeEvent(Env& env, const void* event, napi_value* argv) {
  const uint32_t cq = *static_cast<const uint32_t*>(event);
  if (lookup<Cq>(cq) == nullptr) return 0;
  napi_create_uint32(env.env, cq, &argv[0]);
  return 1;
}

constexpr WatchKind kCompletions = {"isoverbs.CompletionChannel", fetchEvent, sizeof(uint32_t), describeEvent};

}  // namespace

napi_value createCompChannel(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "createCompChannel");
  const std::lock_guard lock(controlMutex());
  auto* context = args.object<Context>(0);
  if (context == nullptr) return nullptr;
  auto channel = std::make_unique<Channel>();
  channel->owner = &args.env();
  channel->context = context;
  channel->channel = verbs()->createCompChannel(context->ctx);
  if (channel->channel == nullptr) return failErrno(args.env(), args.verb(), errno);
  if (!publish(Kind::Channel, channel.get())) {
    verbs()->destroyCompChannel(channel->channel);
    return failErrno(args.env(), args.verb(), ENOMEM);
  }
  context->children[static_cast<uint32_t>(Kind::Channel)]++;
  return number(napi, channel.release()->handle);
}

napi_value destroyCompChannel(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "destroyCompChannel");
  const std::lock_guard lock(controlMutex());
  auto* channel = args.object<Channel>(0);
  if (channel == nullptr) return nullptr;
  if (channel->onlyWatched() && isWatchedBy(channel, args.env())) stopWatch(channel);
  if (!channel->childless()) return failBusy(args.env(), args.verb(), *channel);
  Context* context = channel->context;
  if (const int rc = closeChannel(channel); rc != 0) return failErrno(args.env(), args.verb(), rc);
  reap(context, &args.env());
  return undefined(napi);
}

napi_value watchCompChannel(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "watchCompChannel");
  const std::lock_guard lock(controlMutex());
  auto* channel = args.object<Channel>(0);
  if (channel == nullptr) return nullptr;
  return watchObject(args, channel, channel->channel->fd, kCompletions, args.value(1));
}

napi_value refCompChannel(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "refCompChannel");
  const bool keepAlive = args.boolean(1);
  const std::lock_guard lock(controlMutex());
  auto* channel = args.object<Channel>(0);
  if (channel == nullptr) return nullptr;
  return refObject(args, channel, keepAlive);
}

}  // namespace isoverbs
