// What an addon exports: a table of functions, and the version of its interface.
#pragma once

#include <node_api.h>

#include <cstddef>
#include <cstdint>

#include "base-args.h"
#include "base-env.h"

namespace isoverbs {

struct Function {
  const char* name;
  napi_callback callback;
};

/**
 * Each function carries the state, which saves a look-up per call. A worker that is terminated while it loads the addon
 * ends here, as no call that may run JavaScript succeeds in its env. Errors are ignored, because no caller is left to
 * get them. Wrapper libraries throw them instead, which aborts the process with all its other threads.
 */
template <size_t N>
void exportFunctions(BaseEnv* state, napi_value exports, const Function (&functions)[N], uint32_t interfaceVersion) {
  napi_env env = state->env;
  for (const auto& [name, callback] : functions) {
    napi_value function = nullptr;
    if (napi_create_function(env, name, NAPI_AUTO_LENGTH, callback, state, &function) != napi_ok ||
        napi_set_named_property(env, exports, name, function) != napi_ok) {
      return;
    }
  }
  napi_set_named_property(env, exports, "interfaceVersion", number(env, interfaceVersion));
}

}  // namespace isoverbs
