// Completion channels: the events of many CQs, delivered on the env's own loop.
#include <fcntl.h>
#include <uv.h>

#include <cerrno>
#include <memory>

#include "args.h"
#include "objects.h"
#include "verbs.h"

namespace isoverbs {

/** One env listening to one channel. Freed when libuv has closed the handle, which may be after the channel. */
struct Watch {
  uv_poll_t poll = {};
  Env* env = nullptr;
  /** Null once stopped. */
  Channel* channel = nullptr;
  napi_ref listener = nullptr;
  napi_async_context async = nullptr;
  napi_async_cleanup_hook_handle hook = nullptr;
};

namespace {

/** Events told in one turn of the loop; the rest stays in the kernel, and the loop comes back for it. */
constexpr int kMaxEvents = 64;

void onClosed(uv_handle_t* handle) {
  auto* watch = static_cast<Watch*>(handle->data);
  napi_env env = watch->env->env;
  napi_handle_scope scope = nullptr;
  napi_open_handle_scope(env, &scope);
  if (watch->listener != nullptr) napi_delete_reference(env, watch->listener);
  if (watch->async != nullptr) napi_async_destroy(env, watch->async);
  napi_close_handle_scope(env, scope);
  if (watch->hook != nullptr) napi_remove_async_cleanup_hook(watch->hook);
  delete watch;
}

/** The env ends: the loop runs on until onClosed has removed this hook. */
void onEnvEnding(napi_async_cleanup_hook_handle, void* data) {
  auto* watch = static_cast<Watch*>(data);
  const std::lock_guard lock(controlMutex());
  Channel* channel = watch->channel;
  if (channel == nullptr) return;
  stopWatch(channel);
  reap(channel, watch->env);
}

/** Calls the listener; what it throws becomes an uncaughtException, as from any event handler. */
void notify(Watch* watch, uint32_t cq) {
  napi_env env = watch->env->env;
  napi_handle_scope scope = nullptr;
  if (napi_open_handle_scope(env, &scope) != napi_ok) return;
  napi_value listener = nullptr;
  napi_value self = nullptr;
  napi_value arg = nullptr;
  napi_get_reference_value(env, watch->listener, &listener);
  napi_get_global(env, &self);
  napi_create_uint32(env, cq, &arg);
  if (napi_make_callback(env, watch->async, self, listener, 1, &arg, nullptr) == napi_pending_exception) {
    napi_value error = nullptr;
    if (napi_get_and_clear_last_exception(env, &error) == napi_ok) napi_fatal_exception(env, error);
  }
  napi_close_handle_scope(env, scope);
}

void onReadable(uv_poll_t* poll, int status, int) {
  auto* watch = static_cast<Watch*>(poll->data);
  if (status < 0 || watch->channel == nullptr) {
    uv_poll_stop(poll);
    return;
  }
  ibv_cq* cq = nullptr;
  void* handle = nullptr;
  // One at a time: a listener may close the CQ, the channel, or everything, or stop listening, and what was
  // not fetched yet stays in the kernel. Acknowledged before any JavaScript: ibv_destroy_cq(3) waits for that.
  for (int i = 0; i < kMaxEvents && watch->channel != nullptr; i++) {
    if (verbs()->getCqEvent(watch->channel->channel, &cq, &handle) != 0) return;
    verbs()->ackCqEvents(cq, 1);
    const auto name = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(handle));
    if (lookup<Cq>(name) != nullptr) notify(watch, name);
  }
}

bool setNonBlocking(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

napi_value startWatch(Args& args, Channel* channel, napi_value listener) {
  Env& env = args.env();
  uv_loop_t* loop = nullptr;
  auto* watch = new Watch;
  watch->env = &env;
  watch->poll.data = watch;
  const int fd = channel->channel->fd;
  if (!setNonBlocking(fd) || napi_get_uv_event_loop(env.env, &loop) != napi_ok ||
      uv_poll_init(loop, &watch->poll, fd) != 0) {
    delete watch;
    return fail(env, Err::System, args.verb(), errno, "the channel's descriptor cannot be polled");
  }
  napi_value name = nullptr;
  napi_create_string_utf8(env.env, "isoverbs.CompletionChannel", NAPI_AUTO_LENGTH, &name);
  napi_async_init(env.env, nullptr, name, &watch->async);
  napi_create_reference(env.env, listener, 1, &watch->listener);
  napi_add_async_cleanup_hook(env.env, onEnvEnding, watch, &watch->hook);
  watch->channel = channel;
  channel->watch = watch;
  channel->children[kWatches]++;
  uv_poll_start(&watch->poll, UV_READABLE, onReadable);
  if (!channel->keepAlive) uv_unref(reinterpret_cast<uv_handle_t*>(&watch->poll));
  return undefined(env.env);
}

}  // namespace

void stopWatch(Channel* channel) {
  Watch* watch = channel->watch;
  channel->watch = nullptr;
  channel->children[kWatches]--;
  watch->channel = nullptr;
  uv_poll_stop(&watch->poll);
  uv_close(reinterpret_cast<uv_handle_t*>(&watch->poll), onClosed);
}

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
  if (channel->children[static_cast<uint32_t>(Kind::Cq)] != 0) return failBusy(args.env(), args.verb(), *channel);
  if (channel->watch != nullptr && channel->watch->env == &args.env()) stopWatch(channel);
  if (!channel->childless()) return failBusy(args.env(), args.verb(), *channel);
  Context* context = channel->context;
  if (const int rc = closeChannel(channel); rc != 0) return failErrno(args.env(), args.verb(), rc);
  reap(context, &args.env());
  return undefined(napi);
}

napi_value watchCompChannel(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "watchCompChannel");
  napi_valuetype type = napi_undefined;
  napi_typeof(napi, args.value(1), &type);
  if (type != napi_function && type != napi_null) {
    return fail(args.env(), Err::Argument, args.verb(), EINVAL, "the listener must be a function or null");
  }
  const std::lock_guard lock(controlMutex());
  auto* channel = args.object<Channel>(0);
  if (channel == nullptr) return nullptr;
  Watch* watch = channel->watch;
  if (watch != nullptr && watch->env != &args.env()) {
    return fail(args.env(), Err::State, args.verb(), EBUSY, "another thread listens to this channel");
  }
  if (type == napi_null) {
    if (watch != nullptr) {
      stopWatch(channel);
      reap(channel, &args.env());
    }
    return undefined(napi);
  }
  if (watch == nullptr) return startWatch(args, channel, args.value(1));
  napi_delete_reference(napi, watch->listener);
  napi_create_reference(napi, args.value(1), 1, &watch->listener);
  return undefined(napi);
}

napi_value refCompChannel(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "refCompChannel");
  const bool keepAlive = args.boolean(1);
  const std::lock_guard lock(controlMutex());
  auto* channel = args.object<Channel>(0);
  if (channel == nullptr) return nullptr;
  if (channel->watch != nullptr && channel->watch->env != &args.env()) {
    return fail(args.env(), Err::State, args.verb(), EBUSY, "another thread listens to this channel");
  }
  channel->keepAlive = keepAlive;
  if (channel->watch != nullptr) {
    auto* handle = reinterpret_cast<uv_handle_t*>(&channel->watch->poll);
    if (keepAlive) {
      uv_ref(handle);
    } else {
      uv_unref(handle);
    }
  }
  return undefined(napi);
}

}  // namespace isoverbs
