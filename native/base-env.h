// What every addon of this package stores for an env (the main thread or a worker).
#pragma once

#include <node_api.h>

namespace isoverbs {

struct BaseEnv {
  napi_env env = nullptr;
  /** (code, message, details) -> Error; handed over by TypeScript once. */
  napi_ref makeError = nullptr;
};

}  // namespace isoverbs
