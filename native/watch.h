// Event descriptors of libraries, watched on the env's own loop.
#pragma once

#include <node_api.h>

#include "args.h"
#include "handles.h"

namespace isoverbs {

/** One env listening to one object. Freed when libuv has closed the handle, which may be after the object. */
struct Watch;

/** An object with a file descriptor that delivers events. */
struct Watchable : Object {
  Watch* watch = nullptr;
  /** Whether a watch keeps its event loop alive; kept here so that it can be set before watching. */
  bool keepAlive = false;
};

/** The maximum number of listener arguments. */
constexpr size_t kMaxEventArgs = 8;

struct WatchKind {
  /** The name of the asynchronous resource, as async_hooks shows it. */
  const char* resourceName;
  /**
   * Fetches one event into eventBytes bytes and acknowledges it; false if none is pending. The control mutex is
   * not held.
   */
  bool (*fetch)(Watchable* object, Env& env, void* event);
  size_t eventBytes;
  /** Fills in the listener's arguments and returns their number; 0 means that this event is dropped. */
  size_t (*describe)(Env& env, const void* event, napi_value* argv);
};

/** watch...(object, listener or null): starts, stops, or changes the listener. Under the control mutex. */
napi_value watchObject(Args& args, Watchable* object, int fd, const WatchKind& kind, napi_value listener);

/** ref...(object, keepAlive). Under the control mutex. */
napi_value refObject(Args& args, Watchable* object, bool keepAlive);

/** Whether `env` is the listening one. */
bool isWatchedBy(const Watchable* object, const Env& env);

/** Ends a watch; called on its own env's thread. Under the control mutex. */
void stopWatch(Watchable* object);

}  // namespace isoverbs
