#include "handles.h"

#include <cassert>
#include <cerrno>
#include <deque>
#include <string>

#include "env.h"
#include "errors.h"

namespace isoverbs {

Table g_tables[kKinds];

namespace {

/** Minimum time before a freed slot is reused, so that a stale handle stays stale for a long time. */
constexpr size_t kResting = 64;

struct Allocator {
  uint32_t used = 0;
  std::deque<uint32_t> free;
};

/** Never destroyed; see controlMutex(). */
Allocator& allocatorOf(uint32_t kind) {
  static auto* all = new Allocator[kKinds];
  return all[kind];
}

constexpr const char* kNames[] = {
    "nothing",
    "context",
    "protection domain",
    "memory region",
    "completion queue",
    "queue pair",
    "completion channel",
    "work-request ring",
    "completion ring",
    "shared receive queue",
    "address handle",
    "memory window",
    "XRC domain",
    "CM event channel",
    "CM identifier",
};

Slot& slotAt(uint32_t kind, uint32_t index) {
  std::atomic<Slot*>& chunk = g_tables[kind].chunks[index >> kChunkBits];
  if (chunk.load(std::memory_order_relaxed) == nullptr) {
    chunk.store(new Slot[kChunkSlots], std::memory_order_release);
  }
  return chunk.load(std::memory_order_relaxed)[index & (kChunkSlots - 1)];
}

}  // namespace

std::recursive_mutex& controlMutex() {
  // Never destroyed, because workers may still be closing their handles while the process exits.
  static auto* mutex = new std::recursive_mutex;
  return *mutex;
}

Object* lookupAny(uint32_t handle) {
  const uint32_t kind = handle >> kKindShift;
  const uint32_t index = handle & kIndexMask;
  if (kind == 0 || kind >= kKinds) return nullptr;
  Slot* chunk = g_tables[kind].chunks[index >> kChunkBits].load(std::memory_order_acquire);
  if (chunk == nullptr) return nullptr;
  Slot& slot = chunk[index & (kChunkSlots - 1)];
  return slot.handle.load(std::memory_order_acquire) == handle ? slot.object : nullptr;
}

bool publish(Kind kind, Object* object) {
  const auto k = static_cast<uint32_t>(kind);
  Allocator& allocator = allocatorOf(k);
  uint32_t index = allocator.used;
  if (allocator.free.size() > kResting || (index > kIndexMask && !allocator.free.empty())) {
    index = allocator.free.front();
    allocator.free.pop_front();
  } else if (index > kIndexMask) {
    return false;
  } else {
    allocator.used++;
  }
  Slot& slot = slotAt(k, index);
  assert(slot.handle.load() == 0);
  object->handle = (k << kKindShift) | (slot.generation << kIndexBits) | index;
  slot.object = object;
  slot.handle.store(object->handle, std::memory_order_release);
  return true;
}

void retire(Object* object) {
  const uint32_t kind = object->handle >> kKindShift;
  const uint32_t index = object->handle & kIndexMask;
  Slot& slot = slotAt(kind, index);
  assert(slot.object == object);
  slot.handle.store(0, std::memory_order_release);
  slot.generation = (slot.generation + 1) & kGenerationMask;
  waitForHotEnvs();
  slot.object = nullptr;
  allocatorOf(kind).free.push_back(index);
}

void forEach(Kind kind, void (*fn)(Object*, void*), void* arg) {
  const auto k = static_cast<uint32_t>(kind);
  const Allocator& allocator = allocatorOf(k);
  for (uint32_t index = 0; index < allocator.used; index++) {
    Slot& slot = slotAt(k, index);
    if (slot.handle.load(std::memory_order_relaxed) != 0) fn(slot.object, arg);
  }
}

const char* kindName(uint32_t kind) { return kind < sizeof kNames / sizeof *kNames ? kNames[kind] : "nothing"; }

napi_value failHandle(Env& env, const char* verb, Kind wanted, uint32_t handle) {
  const auto want = static_cast<uint32_t>(wanted);
  const uint32_t kind = handle >> kKindShift;
  if (kind == want) {
    return fail(env, Err::Handle, verb, 0, "needs a live %s, got one that is closed or foreign", kindName(want));
  }
  if (kind == 0 || kind >= kKinds) {
    return fail(env, Err::Handle, verb, 0, "needs a live %s, got %d", kindName(want), static_cast<int>(handle));
  }
  return fail(env, Err::Handle, verb, 0, "needs a live %s, got a %s's handle", kindName(want), kindName(kind));
}

napi_value failBusy(Env& env, const char* verb, const Object& object) {
  std::string list;
  for (uint32_t kind = 1; kind < kKinds; kind++) {
    const uint32_t n = object.children[kind];
    if (n == 0) continue;
    if (!list.empty()) list += ", ";
    list += std::to_string(n) + " " + kindName(kind) + (n > 1 ? "s" : "");
  }
  // Stops this thread's listeners first, if any; a remaining listener belongs to another thread.
  if (list.empty()) list = "a listener in another thread";
  return fail(env, Err::Busy, verb, EBUSY, "the %s still has %s", kindName(object.handle >> kKindShift), list.c_str());
}

}  // namespace isoverbs
