#include "watch.h"

#include <fcntl.h>
#include <uv.h>

#include <cerrno>
#include <cstddef>
#include <memory>

#include "listener.h"
#include "objects.h"

namespace isoverbs {

struct Watch {
  uv_poll_t poll = {};
  Env* env = nullptr;
  const WatchKind* kind = nullptr;
  /** Null after the watch was stopped. */
  Watchable* object = nullptr;
  std::unique_ptr<Listener> listener;
  napi_async_cleanup_hook_handle hook = nullptr;
};

namespace {

/** Events delivered in one turn of the loop; the rest stays in the kernel, and the loop calls again for it. */
constexpr int kMaxEvents = 64;

/** Largest event of all kinds. */
constexpr size_t kScratchBytes = 512;

void onClosed(uv_handle_t* handle) {
  auto* watch = static_cast<Watch*>(handle->data);
  watch->listener.reset();
  if (watch->hook != nullptr) napi_remove_async_cleanup_hook(watch->hook);
  delete watch;
}

/** The env ends; the loop keeps running until onClosed has removed this hook. */
void onEnvEnding(napi_async_cleanup_hook_handle, void* data) {
  auto* watch = static_cast<Watch*>(data);
  const std::lock_guard lock(controlMutex());
  Watchable* object = watch->object;
  if (object == nullptr) return;
  stopWatch(object);
  reap(object, watch->env);
}

void tell(Watch* watch, const void* event) {
  napi_env env = watch->env->env;
  napi_handle_scope scope = nullptr;
  if (napi_open_handle_scope(env, &scope) != napi_ok) return;
  napi_value argv[kMaxEventArgs] = {};
  const size_t argc = watch->kind->describe(*watch->env, event, argv);
  if (argc != 0) watch->listener->call(argc, argv);
  napi_close_handle_scope(env, scope);
}

void onReadable(uv_poll_t* poll, int status, int) {
  auto* watch = static_cast<Watch*>(poll->data);
  if (status < 0 || watch->object == nullptr) {
    uv_poll_stop(poll);
    return;
  }
  alignas(std::max_align_t) unsigned char event[kScratchBytes];
  // Events are fetched one at a time, because a listener may close the next event's subject or the watched object, or
  // stop listening; events not fetched yet then stay in the kernel. They are acknowledged before JavaScript runs,
  // because verbs that destroy objects wait for that.
  for (int i = 0; i < kMaxEvents && watch->object != nullptr; i++) {
    if (!watch->kind->fetch(watch->object, *watch->env, event)) return;
    tell(watch, event);
  }
}

bool setNonBlocking(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

napi_value startWatch(Args& args, Watchable* object, int fd, const WatchKind& kind, napi_value listener) {
  Env& env = args.env();
  uv_loop_t* loop = nullptr;
  auto* watch = new Watch;
  watch->env = &env;
  watch->kind = &kind;
  watch->poll.data = watch;
  if (kind.eventBytes > kScratchBytes || !setNonBlocking(fd) || napi_get_uv_event_loop(env.env, &loop) != napi_ok ||
      uv_poll_init(loop, &watch->poll, fd) != 0) {
    delete watch;
    return fail(env, Err::System, args.verb(), errno, "the %s's descriptor cannot be polled",
                kindName(object->handle >> kKindShift));
  }
  watch->listener = std::make_unique<Listener>(env.env, kind.resourceName, listener);
  napi_add_async_cleanup_hook(env.env, onEnvEnding, watch, &watch->hook);
  watch->object = object;
  object->watch = watch;
  object->children[kWatches]++;
  uv_poll_start(&watch->poll, UV_READABLE, onReadable);
  if (!object->keepAlive) uv_unref(reinterpret_cast<uv_handle_t*>(&watch->poll));
  return undefined(env.env);
}

napi_value failForeign(Args& args, const Watchable* object) {
  return fail(args.env(), Err::State, args.verb(), EBUSY, "another thread already listens to this %s",
              kindName(object->handle >> kKindShift));
}

}  // namespace

bool isWatchedBy(const Watchable* object, const Env& env) {
  return object->watch != nullptr && object->watch->env == &env;
}

void stopWatch(Watchable* object) {
  Watch* watch = object->watch;
  object->watch = nullptr;
  object->children[kWatches]--;
  watch->object = nullptr;
  uv_poll_stop(&watch->poll);
  uv_close(reinterpret_cast<uv_handle_t*>(&watch->poll), onClosed);
}

napi_value watchObject(Args& args, Watchable* object, int fd, const WatchKind& kind, napi_value listener) {
  Env& env = args.env();
  napi_valuetype type = napi_undefined;
  napi_typeof(env.env, listener, &type);
  if (type != napi_function && type != napi_null) {
    return fail(env, Err::Argument, args.verb(), EINVAL, "the listener must be a function or null");
  }
  Watch* watch = object->watch;
  if (watch != nullptr && watch->env != &env) return failForeign(args, object);
  if (type == napi_null) {
    if (watch != nullptr) {
      stopWatch(object);
      reap(object, &env);
    }
    return undefined(env.env);
  }
  if (watch == nullptr) return startWatch(args, object, fd, kind, listener);
  watch->listener->change(listener);
  return undefined(env.env);
}

napi_value refObject(Args& args, Watchable* object, bool keepAlive) {
  if (object->watch != nullptr && object->watch->env != &args.env()) return failForeign(args, object);
  object->keepAlive = keepAlive;
  if (object->watch != nullptr) {
    auto* handle = reinterpret_cast<uv_handle_t*>(&object->watch->poll);
    if (keepAlive) {
      uv_ref(handle);
    } else {
      uv_unref(handle);
    }
  }
  return undefined(args.env().env);
}

}  // namespace isoverbs
