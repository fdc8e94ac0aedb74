// A JavaScript function that is called from the event loop.
#pragma once

#include <node_api.h>

#include <cstddef>

namespace isoverbs {

class Listener {
 public:
  /** `resourceName` names the asynchronous resource, as async_hooks shows it. */
  Listener(napi_env env, const char* resourceName, napi_value function);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  void change(napi_value function);
  /**
   * The caller opens the handle scope. An exception in the function becomes an uncaughtException, as from any event
   * handler.
   */
  void call(size_t argc, const napi_value* argv);

 private:
  napi_env env_;
  napi_ref function_ = nullptr;
  napi_async_context async_ = nullptr;
};

}  // namespace isoverbs
