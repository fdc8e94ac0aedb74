// Errors: native code throws the classes of src/verbs/errors.ts, through a function passed from TypeScript.
#pragma once

#include <node_api.h>

#include "base-env.h"

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
  Handshake,
  Connection,
  System,
};

/**
 * Throws a typed error and returns null, so that a callback can `return fail(...)`.
 * `errnum` is a positive errno or 0 for none.
 */
[[gnu::format(printf, 5, 6)]] napi_value fail(BaseEnv& env, Err code, const char* verb, int errnum, const char* format, ...);

/**
 * Describes an errno, or names it (EBUSY). With glibc, both return null for an unknown number. With musl, a name is
 * valid until the next call on the thread.
 */
const char* errnoText(int errnum);
const char* errnoName(int errnum);

/** Throws the error that matches an errno, for verbs without a more specific interpretation. */
napi_value failErrno(BaseEnv& env, const char* verb, int errnum);

}  // namespace isoverbs
