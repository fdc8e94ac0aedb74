#include "listener.h"

namespace isoverbs {

Listener::Listener(napi_env env, const char* resourceName, napi_value function) : env_(env) {
  napi_value name = nullptr;
  napi_create_string_utf8(env, resourceName, NAPI_AUTO_LENGTH, &name);
  napi_async_init(env, nullptr, name, &async_);
  napi_create_reference(env, function, 1, &function_);
}

Listener::~Listener() {
  napi_handle_scope scope = nullptr;
  napi_open_handle_scope(env_, &scope);
  if (function_ != nullptr) napi_delete_reference(env_, function_);
  if (async_ != nullptr) napi_async_destroy(env_, async_);
  napi_close_handle_scope(env_, scope);
}

void Listener::change(napi_value function) {
  napi_ref next = nullptr;
  if (napi_create_reference(env_, function, 1, &next) != napi_ok) return;
  if (function_ != nullptr) napi_delete_reference(env_, function_);
  function_ = next;
}

void Listener::call(size_t argc, const napi_value* argv) {
  napi_value function = nullptr;
  napi_value self = nullptr;
  napi_get_reference_value(env_, function_, &function);
  napi_get_global(env_, &self);
  if (napi_make_callback(env_, async_, self, function, argc, argv, nullptr) != napi_pending_exception) return;
  napi_value error = nullptr;
  if (napi_get_and_clear_last_exception(env_, &error) == napi_ok) napi_fatal_exception(env_, error);
}

}  // namespace isoverbs
