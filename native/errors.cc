#include "errors.h"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#ifndef __GLIBC__
#include <uv.h>
#endif

namespace isoverbs {

namespace {

const char* codeText(Err code) {
  switch (code) {
    case Err::NoDevice:
      return "ISO_ERR_NO_DEVICE";
    case Err::Handle:
      return "ISO_ERR_HANDLE";
    case Err::Argument:
      return "ISO_ERR_ARGUMENT";
    case Err::State:
      return "ISO_ERR_STATE";
    case Err::Busy:
      return "ISO_ERR_BUSY";
    case Err::NoResources:
      return "ISO_ERR_NO_RESOURCES";
    case Err::Unsupported:
      return "ISO_ERR_UNSUPPORTED";
    case Err::Memory:
      return "ISO_ERR_MEMORY";
    case Err::Handshake:
      return "ISO_ERR_HANDSHAKE";
    case Err::Connection:
      return "ISO_ERR_CONNECTION";
    case Err::System:
      return "ISO_ERR_SYSTEM";
  }
  return "ISO_ERR_SYSTEM";
}

napi_value details(napi_env env, const char* verb, int errnum) {
  napi_value object = nullptr;
  napi_value value = nullptr;
  if (napi_create_object(env, &object) != napi_ok) return nullptr;
  napi_create_string_utf8(env, verb, NAPI_AUTO_LENGTH, &value);
  napi_set_named_property(env, object, "verb", value);
  if (errnum != 0) {
    napi_create_int32(env, errnum, &value);
    napi_set_named_property(env, object, "errno", value);
  }
  return object;
}

}  // namespace

napi_value fail(BaseEnv& env, Err code, const char* verb, int errnum, const char* format, ...) {
  char text[512];
  const int prefix = std::snprintf(text, sizeof text, "%s: ", verb);
  va_list args;
  va_start(args, format);
  std::vsnprintf(text + prefix, sizeof text - static_cast<size_t>(prefix), format, args);
  va_end(args);
  napi_value make = nullptr;
  if (env.makeError == nullptr || napi_get_reference_value(env.env, env.makeError, &make) != napi_ok ||
      make == nullptr) {
    napi_throw_error(env.env, codeText(code), text);
    return nullptr;
  }
  napi_value self = nullptr;
  napi_value error = nullptr;
  napi_value argv[3] = {};
  napi_get_undefined(env.env, &self);
  napi_create_string_utf8(env.env, codeText(code), NAPI_AUTO_LENGTH, &argv[0]);
  napi_create_string_utf8(env.env, text, NAPI_AUTO_LENGTH, &argv[1]);
  argv[2] = details(env.env, verb, errnum);
  if (napi_call_function(env.env, self, make, 3, argv, &error) == napi_ok) napi_throw(env.env, error);
  return nullptr;
}

#ifdef __GLIBC__
const char* errnoText(int errnum) { return strerrordesc_np(errnum); }
const char* errnoName(int errnum) { return strerrorname_np(errnum); }
#else
// musl has neither function. Its strerror() returns constant texts.
const char* errnoText(int errnum) { return strerror(errnum); }

const char* errnoName(int errnum) {
  thread_local char name[32];
  return uv_err_name_r(-errnum, name, sizeof name);
}
#endif

napi_value failErrno(BaseEnv& env, const char* verb, int errnum) {
  const char* text = errnoText(errnum);
  if (text == nullptr) text = "unknown error";
  switch (errnum) {
    case EBUSY:
      return fail(env, Err::Busy, verb, errnum, "%s (EBUSY)", text);
    case ENOMEM:
    case EAGAIN:
    case EMFILE:
    case ENOSPC:
      return fail(env, Err::NoResources, verb, errnum, "%s (errno %d)", text, errnum);
    case ENOSYS:
    case EOPNOTSUPP:
      return fail(env, Err::Unsupported, verb, errnum, "%s (errno %d)", text, errnum);
    case ENODEV:
    case ENXIO:
      return fail(env, Err::NoDevice, verb, errnum, "%s (errno %d)", text, errnum);
    default:
      return fail(env, Err::System, verb, errnum, "%s (errno %d)", text, errnum);
  }
}

}  // namespace isoverbs
