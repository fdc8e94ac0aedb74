// Reading arguments and building results with the plain Node-API: no wrapper library, no exceptions.
#pragma once

#include <node_api.h>

#include <cstdint>
#include <string>

#include "base-env.h"
#include "errors.h"

namespace isoverbs {

/**
 * The arguments of one function. TypeScript has already checked for users' mistakes, with exact messages. These checks
 * are the second line of defense: no argument may cause an out-of-bounds read. After a failed read an exception is
 * pending and ok() is false.
 */
class BaseArgs {
 public:
  static constexpr size_t kMax = 6;

  BaseArgs(napi_env env, napi_callback_info info, const char* verb);

  BaseEnv& env() const { return *env_; }
  const char* verb() const { return verb_; }
  bool ok() const { return ok_; }
  napi_value value(size_t i) const { return argv_[i]; }

  int32_t int32(size_t i);
  uint32_t uint32(size_t i);
  /** A whole number from 0 to 2^53. */
  uint64_t size(size_t i);
  /** A whole number in this range, without rounding or wrapping. */
  uint64_t whole(size_t i, const char* name, uint64_t least, uint64_t most);
  bool boolean(size_t i);
  std::string string(size_t i);
  /** The memory of a Uint8Array or Uint32Array (over an ArrayBuffer or a SharedArrayBuffer). */
  void* bytes(size_t i, napi_typedarray_type type, size_t* elements, napi_value* buffer = nullptr);
  /** The words of a Uint32Array of exactly this length. */
  uint32_t* words(size_t i, size_t length);

  /**
   * Whether a word is from `least` to `most`, the numbers of an enumeration of libibverbs: only those may be cast to
   * it. Otherwise returns false with an exception pending.
   */
  bool within(const char* name, uint32_t word, uint32_t least, uint32_t most);

 protected:
  void refuse(size_t i, const char* expected);

  BaseEnv* env_ = nullptr;
  const char* verb_;
  napi_value argv_[kMax] = {};
  bool ok_ = true;
};

/** An object under construction. */
class Result {
 public:
  explicit Result(napi_env env) : env_(env) { napi_create_object(env, &object_); }

  Result& number(const char* name, double value);
  Result& string(const char* name, const char* value);
  Result& boolean(const char* name, bool value);
  Result& null(const char* name);
  Result& value(const char* name, napi_value value);

  operator napi_value() const { return object_; }

 private:
  napi_env env_;
  napi_value object_ = nullptr;
};

napi_value number(napi_env env, double value);
napi_value undefined(napi_env env);
napi_value null(napi_env env);

/** A Uint8Array with a copy of these bytes. */
napi_value copyOfBytes(napi_env env, const void* data, size_t length);

}  // namespace isoverbs
