// What post.cc and poll.cc share.
#pragma once

#include <node_api.h>

#include "env.h"
#include "handles.h"

namespace isoverbs {

/** Reads (object, ring, start, count). What is not a number becomes no handle, or no place in a ring. */
Env& readHotArgs(napi_env napi, napi_callback_info info, uint32_t (&out)[4]);

/** Throws for whichever of the two handles is not live. */
napi_value failHotHandles(Env& env, const char* verb, Kind kind, uint32_t object, Kind ringKind, uint32_t ring);

}  // namespace isoverbs
