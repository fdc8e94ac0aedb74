#include "fake_napi.h"

#include <uv.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

struct napi_value__ {
  napi_valuetype type = napi_undefined;
  double number = 0;
  std::string text;
  std::map<std::string, napi_value> properties;
  std::vector<napi_value> elements;
  napi_callback callback = nullptr;
  void* callbackData = nullptr;
  // ArrayBuffer, or a view over one.
  bool isBuffer = false;
  bool isView = false;
  napi_typedarray_type viewType = napi_uint8_array;
  napi_value buffer = nullptr;
  void* data = nullptr;
  size_t length = 0;
  std::unique_ptr<uint8_t[]> owned;
  std::function<void()> finalizer;
};

struct napi_callback_info__ {
  std::vector<napi_value> args;
  void* data;
};

struct napi_ref__ {
  napi_value value;
};

namespace {

struct State {
  std::vector<std::unique_ptr<napi_value__>> values;
  void* instance = nullptr;
  std::function<void()> instanceGone;
  std::vector<std::function<void()>> hooks;
  napi_value exception = nullptr;
  /** Remaining references are freed with the env, as in Node.js. */
  std::set<napi_ref> references;
};

State* state() {
  static State* const one = new State;
  return one;
}

napi_value make(napi_valuetype type) {
  state()->values.push_back(std::make_unique<napi_value__>());
  napi_value value = state()->values.back().get();
  value->type = type;
  return value;
}

[[noreturn]] void notFaked(const char* name) {
  std::fprintf(stderr, "fake Node-API: %s is not implemented\n", name);
  std::abort();
}

}  // namespace

namespace fake {

napi_env env() { return reinterpret_cast<napi_env>(state()); }

void* instance() { return state()->instance; }

void end() {
  for (auto hook = state()->hooks.rbegin(); hook != state()->hooks.rend(); ++hook) (*hook)();
  for (const auto& value : state()->values) {
    if (value->finalizer) value->finalizer();
  }
  if (state()->instanceGone) state()->instanceGone();
  for (napi_ref ref : state()->references) delete ref;
  delete state();
}

size_t references() { return state()->references.size(); }

napi_value number(double value) {
  napi_value made = make(napi_number);
  made->number = value;
  return made;
}

napi_value text(const char* value) {
  napi_value made = make(napi_string);
  made->text = value;
  return made;
}

napi_value boolean(bool value) {
  napi_value made = make(napi_boolean);
  made->number = value ? 1 : 0;
  return made;
}

static napi_value view(napi_typedarray_type type, void* data, size_t elements, size_t elementBytes) {
  napi_value buffer = make(napi_object);
  buffer->isBuffer = true;
  buffer->data = data;
  buffer->length = elements * elementBytes;
  napi_value made = make(napi_object);
  made->isView = true;
  made->viewType = type;
  made->buffer = buffer;
  made->data = data;
  made->length = elements;
  return made;
}

napi_value words(uint32_t* data, size_t length) { return view(napi_uint32_array, data, length, 4); }

napi_value bytes(uint8_t* data, size_t length) { return view(napi_uint8_array, data, length, 1); }

napi_value call(napi_callback callback, std::initializer_list<napi_value> args) {
  napi_callback_info__ info{args, state()->instance};
  napi_value answer = callback(env(), &info);
  return state()->exception == nullptr ? answer : nullptr;
}

std::string takeException() {
  napi_value thrown = state()->exception;
  state()->exception = nullptr;
  return thrown == nullptr ? std::string() : thrown->text;
}

double toNumber(napi_value value) { return value->number; }

napi_value property(napi_value object, const char* name) { return object->properties.at(name); }

void* memory(napi_value buffer) { return buffer->data; }

}  // namespace fake

extern "C" {

napi_status napi_get_cb_info(napi_env, napi_callback_info info, size_t* argc, napi_value* argv, napi_value*, void** data) {
  for (size_t i = 0; argv != nullptr && i < *argc; i++) {
    argv[i] = i < info->args.size() ? info->args[i] : make(napi_undefined);
  }
  *argc = info->args.size();
  if (data != nullptr) *data = info->data;
  return napi_ok;
}

napi_status napi_set_instance_data(napi_env env, void* data, napi_finalize finalize, void* hint) {
  state()->instance = data;
  state()->instanceGone = [=] { finalize(env, data, hint); };
  return napi_ok;
}

napi_status napi_get_instance_data(napi_env, void** data) {
  *data = state()->instance;
  return napi_ok;
}

napi_status napi_add_env_cleanup_hook(napi_env, void (*hook)(void*), void* arg) {
  state()->hooks.push_back([=] { hook(arg); });
  return napi_ok;
}

napi_status napi_typeof(napi_env, napi_value value, napi_valuetype* type) {
  *type = value->type;
  return napi_ok;
}

napi_status napi_get_undefined(napi_env, napi_value* out) {
  *out = make(napi_undefined);
  return napi_ok;
}

napi_status napi_get_null(napi_env, napi_value* out) {
  *out = make(napi_null);
  return napi_ok;
}

napi_status napi_create_double(napi_env, double value, napi_value* out) {
  *out = fake::number(value);
  return napi_ok;
}

napi_status napi_create_uint32(napi_env, uint32_t value, napi_value* out) {
  *out = fake::number(value);
  return napi_ok;
}

napi_status napi_create_int32(napi_env, int32_t value, napi_value* out) {
  *out = fake::number(value);
  return napi_ok;
}

napi_status napi_create_bigint_uint64(napi_env, uint64_t value, napi_value* out) {
  *out = fake::number(static_cast<double>(value));
  return napi_ok;
}

napi_status napi_get_boolean(napi_env, bool value, napi_value* out) {
  *out = fake::boolean(value);
  return napi_ok;
}

napi_status napi_create_string_utf8(napi_env, const char* text, size_t length, napi_value* out) {
  *out = fake::text(length == NAPI_AUTO_LENGTH ? text : std::string(text, length).c_str());
  return napi_ok;
}

napi_status napi_create_object(napi_env, napi_value* out) {
  *out = make(napi_object);
  return napi_ok;
}

napi_status napi_create_array(napi_env, napi_value* out) {
  *out = make(napi_object);
  return napi_ok;
}

napi_status napi_set_element(napi_env, napi_value array, uint32_t index, napi_value value) {
  if (array->elements.size() <= index) array->elements.resize(index + 1);
  array->elements[index] = value;
  return napi_ok;
}

napi_status napi_set_named_property(napi_env, napi_value object, const char* name, napi_value value) {
  object->properties[name] = value;
  return napi_ok;
}

static bool isNumber(napi_value value) { return value->type == napi_number; }

napi_status napi_get_value_double(napi_env, napi_value value, double* out) {
  if (!isNumber(value)) return napi_number_expected;
  *out = value->number;
  return napi_ok;
}

napi_status napi_get_value_uint32(napi_env, napi_value value, uint32_t* out) {
  if (!isNumber(value)) return napi_number_expected;
  *out = static_cast<uint32_t>(static_cast<int64_t>(value->number));
  return napi_ok;
}

napi_status napi_get_value_int32(napi_env, napi_value value, int32_t* out) {
  if (!isNumber(value)) return napi_number_expected;
  *out = static_cast<int32_t>(static_cast<int64_t>(value->number));
  return napi_ok;
}

napi_status napi_get_value_bool(napi_env, napi_value value, bool* out) {
  if (value->type != napi_boolean) return napi_boolean_expected;
  *out = value->number != 0;
  return napi_ok;
}

napi_status napi_get_value_string_utf8(napi_env, napi_value value, char* buffer, size_t size, size_t* length) {
  if (value->type != napi_string) return napi_string_expected;
  const size_t copied = std::min(size - 1, value->text.size());
  std::memcpy(buffer, value->text.data(), copied);
  buffer[copied] = 0;
  *length = copied;
  return napi_ok;
}

napi_status napi_is_arraybuffer(napi_env, napi_value value, bool* out) {
  *out = value->isBuffer;
  return napi_ok;
}

napi_status napi_is_typedarray(napi_env, napi_value value, bool* out) {
  *out = value->isView;
  return napi_ok;
}

napi_status napi_get_arraybuffer_info(napi_env, napi_value value, void** data, size_t* length) {
  if (data != nullptr) *data = value->data;
  if (length != nullptr) *length = value->length;
  return napi_ok;
}

napi_status napi_get_typedarray_info(napi_env, napi_value value, napi_typedarray_type* type, size_t* length,
                                     void** data, napi_value* buffer, size_t* offset) {
  if (type != nullptr) *type = value->viewType;
  if (length != nullptr) *length = value->length;
  if (data != nullptr) *data = value->data;
  if (buffer != nullptr) *buffer = value->buffer;
  if (offset != nullptr) *offset = 0;
  return napi_ok;
}

napi_status napi_create_arraybuffer(napi_env, size_t length, void** data, napi_value* out) {
  *out = make(napi_object);
  (*out)->isBuffer = true;
  (*out)->owned = std::make_unique<uint8_t[]>(length);
  (*out)->data = (*out)->owned.get();
  (*out)->length = length;
  if (data != nullptr) *data = (*out)->data;
  return napi_ok;
}

napi_status napi_create_external_arraybuffer(napi_env env, void* data, size_t length, napi_finalize finalize,
                                             void* hint, napi_value* out) {
  *out = make(napi_object);
  (*out)->isBuffer = true;
  (*out)->data = data;
  (*out)->length = length;
  (*out)->finalizer = [=] { finalize(env, data, hint); };
  return napi_ok;
}

napi_status napi_create_typedarray(napi_env, napi_typedarray_type type, size_t length, napi_value buffer,
                                   size_t offset, napi_value* out) {
  *out = make(napi_object);
  (*out)->isView = true;
  (*out)->viewType = type;
  (*out)->buffer = buffer;
  (*out)->data = static_cast<uint8_t*>(buffer->data) + offset;
  (*out)->length = length;
  return napi_ok;
}

napi_status napi_is_detached_arraybuffer(napi_env, napi_value value, bool* out) {
  *out = value->data == nullptr;
  return napi_ok;
}

napi_status napi_detach_arraybuffer(napi_env, napi_value value) {
  value->data = nullptr;
  value->length = 0;
  return napi_ok;
}

napi_status napi_create_reference(napi_env, napi_value value, uint32_t, napi_ref* out) {
  *out = new napi_ref__{value};
  state()->references.insert(*out);
  return napi_ok;
}

napi_status napi_delete_reference(napi_env, napi_ref ref) {
  state()->references.erase(ref);
  delete ref;
  return napi_ok;
}

napi_status napi_get_reference_value(napi_env, napi_ref ref, napi_value* out) {
  *out = ref->value;
  return napi_ok;
}

napi_status napi_create_function(napi_env, const char*, size_t, napi_callback callback, void* data, napi_value* out) {
  *out = make(napi_function);
  (*out)->callback = callback;
  (*out)->callbackData = data;
  return napi_ok;
}

napi_status napi_call_function(napi_env env, napi_value, napi_value function, size_t argc, const napi_value* argv,
                               napi_value* out) {
  napi_callback_info__ info{std::vector<napi_value>(argv, argv + argc), function->callbackData};
  napi_value answer = function->callback(env, &info);
  if (out != nullptr) *out = answer;
  return state()->exception == nullptr ? napi_ok : napi_pending_exception;
}

napi_status napi_throw(napi_env, napi_value error) {
  state()->exception = error;
  return napi_ok;
}

napi_status napi_throw_error(napi_env, const char* code, const char* message) {
  state()->exception = fake::text((std::string(code) + " " + message).c_str());
  return napi_ok;
}

napi_status napi_is_exception_pending(napi_env, bool* out) {
  *out = state()->exception != nullptr;
  return napi_ok;
}

napi_status napi_get_and_clear_last_exception(napi_env, napi_value* out) {
  *out = state()->exception;
  state()->exception = nullptr;
  return napi_ok;
}

napi_status napi_open_handle_scope(napi_env, napi_handle_scope* out) {
  *out = nullptr;
  return napi_ok;
}

napi_status napi_close_handle_scope(napi_env, napi_handle_scope) { return napi_ok; }

// Events need an event loop, which the driver does not have.
napi_status napi_get_uv_event_loop(napi_env, uv_loop_s**) { notFaked("napi_get_uv_event_loop"); }
napi_status napi_add_async_cleanup_hook(napi_env, napi_async_cleanup_hook, void*, napi_async_cleanup_hook_handle*) {
  notFaked("napi_add_async_cleanup_hook");
}
napi_status napi_remove_async_cleanup_hook(napi_async_cleanup_hook_handle) { notFaked("napi_remove_async_cleanup_hook"); }
napi_status napi_async_init(napi_env, napi_value, napi_value, napi_async_context*) { notFaked("napi_async_init"); }
napi_status napi_async_destroy(napi_env, napi_async_context) { notFaked("napi_async_destroy"); }
napi_status napi_make_callback(napi_env, napi_async_context, napi_value, napi_value, size_t, const napi_value*,
                               napi_value*) {
  notFaked("napi_make_callback");
}
napi_status napi_get_global(napi_env, napi_value*) { notFaked("napi_get_global"); }
napi_status napi_fatal_exception(napi_env, napi_value) { notFaked("napi_fatal_exception"); }
int uv_poll_init(uv_loop_t*, uv_poll_t*, int) { notFaked("uv_poll_init"); }
int uv_poll_start(uv_poll_t*, int, uv_poll_cb) { notFaked("uv_poll_start"); }
int uv_poll_stop(uv_poll_t*) { notFaked("uv_poll_stop"); }
void uv_close(uv_handle_t*, uv_close_cb) { notFaked("uv_close"); }
void uv_ref(uv_handle_t*) { notFaked("uv_ref"); }
void uv_unref(uv_handle_t*) { notFaked("uv_unref"); }

}  // extern "C"
