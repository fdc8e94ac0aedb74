// The arguments of verbs, including handles.
#pragma once

#include "base-args.h"
#include "env.h"
#include "handles.h"

namespace isoverbs {

class Args : public BaseArgs {
 public:
  Args(napi_env env, napi_callback_info info, const char* verb) : BaseArgs(env, info, verb) { dropLeftovers(this->env()); }

  Env& env() const { return static_cast<Env&>(*env_); }

  /** Returns 0, which is not a handle, if the argument is not a number. */
  uint32_t handle(size_t i) const {
    uint32_t value = 0;
    napi_get_value_uint32(env_->env, argv_[i], &value);
    return value;
  }

  /** The live object behind a handle argument, or null with an exception pending. */
  template <class T>
  T* object(size_t i) {
    return objectOf<T>(handle(i));
  }

  /** The live object behind a handle that was passed in words. */
  template <class T>
  T* objectOf(uint32_t handle) {
    if (!ok_) return nullptr;
    T* object = lookup<T>(handle);
    if (object == nullptr) {
      ok_ = false;
      failHandle(env(), verb_, T::kKind, handle);
    }
    return object;
  }
};

}  // namespace isoverbs
