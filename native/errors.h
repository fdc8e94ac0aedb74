// Errors: native code throws the classes of src/verbs/errors.ts, through the function that TypeScript gave.
#pragma once

#include <node_api.h>

#include "env.h"

namespace isoverbs {

enum class Err {
  NoDevice,
  Handle,
  Argument,
  State,
  Busy,
  NoResources,
  Unsupported,
  Memory,
  Connection,
  System,
};

/**
 * Throws a typed error and returns null, so that a callback can `return fail(...)`.
 * `errnum` is a positive errno or 0 for none.
 */
[[gnu::format(printf, 5, 6)]] napi_value fail(Env& env, Err code, const char* verb, int errnum, const char* format, ...);

/** Throws the error that fits an errno of a verb that has no better reading of it. */
napi_value failErrno(Env& env, const char* verb, int errnum);

/** Throws for a handle that is not a live one of this kind, saying what it is instead. */
napi_value failHandle(Env& env, const char* verb, Kind wanted, uint32_t handle);

/** Throws BusyError naming what is still alive below the object. */
napi_value failBusy(Env& env, const char* verb, const Object& object);

}  // namespace isoverbs
