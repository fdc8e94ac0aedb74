// Shared by the hot paths.
#pragma once

#include <node_api.h>

#include "env.h"
#include "handles.h"
#include "loader.h"

namespace isoverbs {

/** Words of the call block, in this order. */
enum CallWord : uint32_t { CALL_OBJECT, CALL_RING, CALL_START, CALL_COUNT, CALL_ANSWER, kCallWords };

/** The calling env; its call block holds the arguments. Null before callBlock(). */
inline Env* hotEnv(napi_env napi) {
  void* data = nullptr;
  napi_get_instance_data(napi, &data);
  Env* env = static_cast<Env*>(data);
  return env != nullptr && env->call != nullptr ? env : nullptr;
}

struct Context;

/** Whether an SGE names an ArrayBuffer of the application's that it has detached. Only with such regions. */
bool namesDetached(Env& env, const Context& context, const ibv_sge* sges, int count);

/** Throws for whichever of the two handles is not live. */
napi_value failHotHandles(Env& env, const char* verb, Kind kind, uint32_t object, Kind ringKind, uint32_t ring);

}  // namespace isoverbs
