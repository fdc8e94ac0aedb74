// Descriptors that JavaScript listens to, on the env's own event loop.
#include <unistd.h>
#include <uv.h>

#include <cerrno>
#include <memory>

#include "../listener.h"
#include "ipc.h"

namespace isoverbs::ipc {

/** Freed when libuv has closed the handle. */
struct Watch {
  uv_poll_t poll = {};
  IpcEnv* env = nullptr;
  int fd = -1;
  /** Whether the watch is stopped. The listener lives until the watch is freed, because it may be running now. */
  bool stopped = false;
  std::unique_ptr<Listener> listener;
  napi_async_cleanup_hook_handle hook = nullptr;
};

namespace {

void onClosed(uv_handle_t* handle) {
  auto* watch = static_cast<Watch*>(handle->data);
  watch->listener.reset();
  if (watch->hook != nullptr) napi_remove_async_cleanup_hook(watch->hook);
  delete watch;
}

/**
 * The env ends; the loop keeps running until onClosed has removed this hook. A terminated worker closes nothing itself,
 * and its process may continue, so the descriptors that it still watches are closed here.
 */
void onEnvEnding(napi_async_cleanup_hook_handle, void* data) {
  auto* watch = static_cast<Watch*>(data);
  if (watch->stopped) return;
  const int fd = watch->fd;
  stopWatch(*watch->env, fd);
  close(fd);
}

void onReady(uv_poll_t* poll, int status, int) {
  auto* watch = static_cast<Watch*>(poll->data);
  if (watch->stopped) return;
  napi_env env = watch->env->env;
  // A descriptor with an error counts as readable: the listener reads it and gets the error.
  if (status < 0) uv_poll_stop(poll);
  napi_handle_scope scope = nullptr;
  if (napi_open_handle_scope(env, &scope) != napi_ok) return;
  watch->listener->call(0, nullptr);
  napi_close_handle_scope(env, scope);
}

napi_value startWatch(IpcArgs& args, int fd, napi_value listener) {
  IpcEnv& env = args.env();
  uv_loop_t* loop = nullptr;
  if (napi_get_uv_event_loop(env.env, &loop) != napi_ok) {
    return fail(env, Err::System, args.verb(), 0, "there is no event loop here");
  }
  auto watch = std::make_unique<Watch>();
  // Regular files cannot be polled (EPERM), nor can descriptors that already have a handle on this loop (EEXIST).
  if (const int rc = uv_poll_init(loop, &watch->poll, fd); rc != 0) {
    return fail(env, Err::Argument, args.verb(), -rc, "descriptor %d cannot be listened to: %s", fd, uv_strerror(rc));
  }
  watch->poll.data = watch.get();
  watch->env = &env;
  watch->fd = fd;
  watch->listener = std::make_unique<Listener>(env.env, "isoverbs.ipc", listener);
  Watch* started = watch.release();
  napi_add_async_cleanup_hook(env.env, onEnvEnding, started, &started->hook);
  env.watches.emplace(fd, started);
  return undefined(env.env);
}

}  // namespace

void stopWatch(IpcEnv& env, int fd) {
  const auto found = env.watches.find(fd);
  if (found == env.watches.end()) return;
  Watch* watch = found->second;
  env.watches.erase(found);
  watch->stopped = true;
  uv_poll_stop(&watch->poll);
  uv_close(reinterpret_cast<uv_handle_t*>(&watch->poll), onClosed);
}

/**
 * watchFd(fd, listener or null, keepAlive, events): calls the listener while there is something to read (1 in `events`)
 * or room to write (2).
 */
napi_value watchFd(napi_env napi, napi_callback_info info) {
  IpcArgs args(napi, info, "watchFd");
  const int fd = args.fd(0);
  const bool keepAlive = args.boolean(2);
  const auto events = static_cast<int>(args.whole(3, "events", UV_READABLE, UV_READABLE | UV_WRITABLE));
  if (!args.ok()) return nullptr;
  napi_valuetype type = napi_undefined;
  napi_typeof(napi, args.value(1), &type);
  if (type != napi_function && type != napi_null) {
    return fail(args.env(), Err::Argument, args.verb(), EINVAL, "the listener must be a function or null");
  }
  IpcEnv& env = args.env();
  if (type == napi_null) {
    stopWatch(env, fd);
    return undefined(napi);
  }
  const auto found = env.watches.find(fd);
  if (found != env.watches.end()) {
    found->second->listener->change(args.value(1));
  } else if (startWatch(args, fd, args.value(1)) == nullptr) {
    return nullptr;
  }
  uv_poll_t* poll = &env.watches.at(fd)->poll;
  uv_poll_start(poll, events, onReady);
  auto* handle = reinterpret_cast<uv_handle_t*>(poll);
  if (keepAlive) {
    uv_ref(handle);
  } else {
    uv_unref(handle);
  }
  return undefined(napi);
}

}  // namespace isoverbs::ipc
