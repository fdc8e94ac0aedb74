#include "base-args.h"

#include <cmath>
#include <cstring>

namespace isoverbs {

BaseArgs::BaseArgs(napi_env napi, napi_callback_info info, const char* verb) : verb_(verb) {
  size_t argc = kMax;
  void* data = nullptr;
  // Arguments that the caller omitted are set to undefined, which every reader rejects.
  napi_get_cb_info(napi, info, &argc, argv_, nullptr, &data);
  env_ = static_cast<BaseEnv*>(data);
}

void BaseArgs::refuse(size_t i, const char* expected) {
  if (!ok_) return;
  ok_ = false;
  fail(*env_, Err::Argument, verb_, 0, "argument %zu must be %s", i + 1, expected);
}

int32_t BaseArgs::int32(size_t i) {
  int32_t value = 0;
  if (!ok_ || napi_get_value_int32(env_->env, argv_[i], &value) != napi_ok) refuse(i, "a number");
  return value;
}

uint32_t BaseArgs::uint32(size_t i) {
  uint32_t value = 0;
  if (!ok_ || napi_get_value_uint32(env_->env, argv_[i], &value) != napi_ok) refuse(i, "a number");
  return value;
}

uint64_t BaseArgs::size(size_t i) {
  double value = 0;
  if (!ok_ || napi_get_value_double(env_->env, argv_[i], &value) != napi_ok ||
      !(value >= 0 && value <= 9007199254740992.0)) {
    refuse(i, "a whole number from 0 to 2^53");
    return 0;
  }
  return static_cast<uint64_t>(value);
}

uint64_t BaseArgs::whole(size_t i, const char* name, uint64_t least, uint64_t most) {
  double value = 0;
  if (!ok_) return 0;
  const bool is = napi_get_value_double(env_->env, argv_[i], &value) == napi_ok;
  if (is && value >= static_cast<double>(least) && value <= static_cast<double>(most) && value == std::floor(value)) {
    return static_cast<uint64_t>(value);
  }
  ok_ = false;
  fail(*env_, Err::Argument, verb_, 0, "%s must be a whole number from %llu to %llu", name,
       static_cast<unsigned long long>(least), static_cast<unsigned long long>(most));
  return 0;
}

bool BaseArgs::boolean(size_t i) {
  bool value = false;
  if (!ok_ || napi_get_value_bool(env_->env, argv_[i], &value) != napi_ok) refuse(i, "true or false");
  return value;
}

std::string BaseArgs::string(size_t i) {
  char text[256];
  size_t length = 0;
  if (!ok_ || napi_get_value_string_utf8(env_->env, argv_[i], text, sizeof text, &length) != napi_ok) {
    refuse(i, "a string");
    return {};
  }
  return std::string(text, length);
}

void* BaseArgs::bytes(size_t i, napi_typedarray_type type, size_t* elements, napi_value* buffer) {
  napi_typedarray_type got = napi_int8_array;
  void* data = nullptr;
  bool is = false;
  *elements = 0;
  if (!ok_ || napi_is_typedarray(env_->env, argv_[i], &is) != napi_ok || !is ||
      napi_get_typedarray_info(env_->env, argv_[i], &got, elements, &data, buffer, nullptr) != napi_ok ||
      got != type) {
    const char* other = type == napi_float64_array ? "a Float64Array" : "a Uint8Array";
    refuse(i, type == napi_uint32_array ? "a Uint32Array" : other);
    *elements = 0;
    return nullptr;
  }
  return data;
}

uint32_t* BaseArgs::words(size_t i, size_t length) {
  size_t elements = 0;
  auto* data = static_cast<uint32_t*>(bytes(i, napi_uint32_array, &elements));
  if (!ok_) return nullptr;
  if (elements != length || data == nullptr) {
    refuse(i, "a Uint32Array of the right length");
    return nullptr;
  }
  return data;
}

bool BaseArgs::within(const char* name, uint32_t word, uint32_t least, uint32_t most) {
  if (ok_ && (word < least || word > most)) {
    ok_ = false;
    fail(*env_, Err::Argument, verb_, 0, "%s must be a whole number from %u to %u, got %u", name, least, most, word);
  }
  return ok_;
}

Result& Result::number(const char* name, double value) { return this->value(name, isoverbs::number(env_, value)); }

Result& Result::string(const char* name, const char* text) {
  napi_value value = nullptr;
  napi_create_string_utf8(env_, text, NAPI_AUTO_LENGTH, &value);
  return this->value(name, value);
}

Result& Result::boolean(const char* name, bool flag) {
  napi_value value = nullptr;
  napi_get_boolean(env_, flag, &value);
  return this->value(name, value);
}

Result& Result::null(const char* name) {
  napi_value value = nullptr;
  napi_get_null(env_, &value);
  return this->value(name, value);
}

Result& Result::value(const char* name, napi_value value) {
  napi_set_named_property(env_, object_, name, value);
  return *this;
}

napi_value number(napi_env env, double value) {
  napi_value result = nullptr;
  napi_create_double(env, value, &result);
  return result;
}

napi_value undefined(napi_env env) {
  napi_value result = nullptr;
  napi_get_undefined(env, &result);
  return result;
}

napi_value null(napi_env env) {
  napi_value result = nullptr;
  napi_get_null(env, &result);
  return result;
}

napi_value copyOfBytes(napi_env env, const void* data, size_t length) {
  void* memory = nullptr;
  napi_value buffer = nullptr;
  napi_value array = nullptr;
  if (napi_create_arraybuffer(env, length, &memory, &buffer) != napi_ok) return nullptr;
  // Empty data may have no address.
  if (length != 0) std::memcpy(memory, data, length);
  napi_create_typedarray(env, napi_uint8_array, length, buffer, 0, &array);
  return array;
}

}  // namespace isoverbs
