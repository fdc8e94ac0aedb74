// The state that every addon of this package has for an env (the main thread or a worker).
#pragma once

#include <node_api.h>

namespace isoverbs {

struct BaseEnv {
  napi_env env = nullptr;
  /** (code, message, details) -> Error; passed in once by TypeScript. */
  napi_ref makeError = nullptr;
};

}  // namespace isoverbs
