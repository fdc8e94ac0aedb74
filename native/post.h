// Functions that the hot paths share.
#pragma once

#include <node_api.h>

#include "env.h"
#include "handles.h"
#include "loader.h"

namespace isoverbs {

/** Words of the call block, in this order. */
enum CallWord : uint32_t { CALL_OBJECT, CALL_RING, CALL_START, CALL_COUNT, CALL_ANSWER, kCallWords };

/** The calling env, whose call block holds the arguments; null before callBlock(). */
inline Env* hotEnv(napi_env napi) {
  void* data = nullptr;
  napi_get_instance_data(napi, &data);
  Env* env = static_cast<Env*>(data);
  return env != nullptr && env->call != nullptr ? env : nullptr;
}

struct Context;

/** Whether an SGE names an ArrayBuffer that the application has detached. Called only if there are such regions. */
bool namesDetached(Env& env, const Context& context, const ibv_sge* sges, int count);

/** Throws an error for the one of the two handles that is not live. */
napi_value failHotHandles(Env& env, const char* verb, Kind kind, uint32_t object, Kind ringKind, uint32_t ring);

}  // namespace isoverbs
