#include "env.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "objects.h"

namespace isoverbs {

namespace {

/** Guarded by the control mutex. Never destroyed: see controlMutex(). */
std::vector<Env*>& allEnvs() {
  static auto* envs = new std::vector<Env*>;
  return *envs;
}

bool registerMembarrier() {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void onEnvEnd(void* data) {
  Env& env = *static_cast<Env*>(data);
  const std::lock_guard lock(controlMutex());
  env.ending = true;
  dropLeftovers(env);
  closeAllOf(env);
  dropLeftovers(env);
  auto& envs = allEnvs();
  envs.erase(std::find(envs.begin(), envs.end(), &env));
}

void onInstanceGone(napi_env, void* data, void*) {
  Env* env = static_cast<Env*>(data);
  freeScratch(env->scratch);
  if (env->callMemory != nullptr) env->callMemory->release();
  delete env;
}

}  // namespace

bool g_membarrier = registerMembarrier();

Env* createEnv(napi_env napi) {
  Env* env = new Env;
  env->env = napi;
  if (napi_set_instance_data(napi, env, onInstanceGone, nullptr) != napi_ok) {
    delete env;
    return nullptr;
  }
  // From here on, onInstanceGone frees the state.
  if (napi_add_env_cleanup_hook(napi, onEnvEnd, env) != napi_ok) return nullptr;
  const std::lock_guard lock(controlMutex());
  allEnvs().push_back(env);
  return env;
}

void waitForHotEnvs() {
  auto& envs = allEnvs();
  if (envs.size() < 2) return;
  if (g_membarrier) {
    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  } else {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  for (Env* other : envs) {
    while (other->hot.load(std::memory_order_acquire) != 0) sched_yield();
  }
}

void dropLeftovers(Env& env) {
  if (!env.hasDropped.load(std::memory_order_acquire)) return;
  std::vector<Dropped> dropped;
  {
    const std::lock_guard lock(controlMutex());
    dropped.swap(env.dropped);
    env.hasDropped.store(false, std::memory_order_release);
  }
  for (const Dropped& one : dropped) dropReference(env, &env, one);
}

void dropReference(Env& owner, Env* caller, Dropped dropped) {
  if (caller != &owner) {
    owner.dropped.push_back(dropped);
    owner.hasDropped.store(true, std::memory_order_release);
    return;
  }
  if (dropped.foreign != nullptr) {
    auto found = owner.foreign.find(dropped.foreign->key);
    if (found != owner.foreign.end() && found->second == dropped.foreign) owner.foreign.erase(found);
    delete dropped.foreign;
  }
  if (dropped.ref == nullptr) return;
  if (dropped.detach && !owner.ending) detachArrayBuffer(owner, dropped.ref);
  napi_delete_reference(owner.env, dropped.ref);
}

}  // namespace isoverbs
