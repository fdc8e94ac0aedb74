// Handles: kind << 27 | generation << 18 | index, as in src/verbs/handles.ts. One process-wide table per
// kind, so that a handle means the same in every worker.
//
// Control verbs hold controlMutex() throughout. The hot path (post, poll) takes no lock for a look-up: it
// marks its env as busy (HotSection), and whoever retires a handle waits until no other env that might still
// see the object is busy. So an object is never freed under a post that runs in another thread.
#pragma once

#include <node_api.h>

#include <atomic>
#include <cstdint>
#include <mutex>

namespace isoverbs {

struct Env;

enum class Kind : uint32_t {
  Context = 1,
  Pd = 2,
  Mr = 3,
  Cq = 4,
  Qp = 5,
  Channel = 6,
  WrRing = 7,
  WcRing = 8,
  Srq = 9,
  Ah = 10,
  Mw = 11,
  Xrcd = 12,
  CmChannel = 13,
  CmId = 14,
};

constexpr uint32_t kKinds = 15;
/** Kind 0 is unused: in Object::children it counts the listeners of a completion channel. */
constexpr uint32_t kWatches = 0;
constexpr uint32_t kIndexBits = 18;
constexpr uint32_t kIndexMask = (1u << kIndexBits) - 1;
constexpr uint32_t kGenerationMask = 0x1ff;
constexpr uint32_t kKindShift = 27;
/** A handle without its kind, which fits into the 31 bits that a wr_id has for it. */
constexpr uint32_t kLocalMask = (1u << kKindShift) - 1;

/** The base of every object behind a handle. */
struct Object {
  uint32_t handle = 0;
  /** The env that created the object, and whose end closes it. */
  Env* owner = nullptr;
  /** Live children by kind, and watches; an object with children cannot be closed. */
  uint32_t children[kKinds] = {};
  /**
   * True if the object's env ended while children in other envs were alive; closing the last child then closes the
   * object.
   */
  bool orphan = false;

  bool childless() const { return children[kWatches] == 0 && onlyWatched(); }

  /** Whether a listener is all that keeps the object from being closed. */
  bool onlyWatched() const {
    for (uint32_t kind = 1; kind < kKinds; kind++) {
      if (children[kind] != 0) return false;
    }
    return true;
  }
};

struct Slot {
  std::atomic<uint32_t> handle{0};
  Object* object = nullptr;
  uint32_t generation = 0;
};

constexpr uint32_t kChunkBits = 10;
constexpr uint32_t kChunkSlots = 1u << kChunkBits;
constexpr uint32_t kChunks = 1u << (kIndexBits - kChunkBits);

/** Slots are allocated in chunks that are never freed, so a reader may look at any index at any time. */
struct Table {
  std::atomic<Slot*> chunks[kChunks] = {};
};

extern Table g_tables[kKinds];

std::recursive_mutex& controlMutex();

/** The live object behind a handle, or null for any other number. */
template <class T>
inline T* lookup(uint32_t handle) {
  if ((handle >> kKindShift) != static_cast<uint32_t>(T::kKind)) return nullptr;
  const uint32_t index = handle & kIndexMask;
  Slot* chunk = g_tables[static_cast<uint32_t>(T::kKind)].chunks[index >> kChunkBits].load(std::memory_order_acquire);
  if (chunk == nullptr) return nullptr;
  Slot& slot = chunk[index & (kChunkSlots - 1)];
  if (slot.handle.load(std::memory_order_acquire) != handle) return nullptr;
  return static_cast<T*>(slot.object);
}

/** The live object behind a handle of any kind, or null. */
Object* lookupAny(uint32_t handle);

/** Gives the object a handle; returns false if all handles of its kind are in use. */
bool publish(Kind kind, Object* object);

/** Makes the handle stale and waits until no other env can still be using the object. */
void retire(Object* object);

/** Calls `fn` for each live object of a kind. The control mutex must be held; fn may retire the object. */
void forEach(Kind kind, void (*fn)(Object*, void*), void* arg);

/** The kind's name in messages, such as 'protection domain' for Kind::Pd. */
const char* kindName(uint32_t kind);

/** Throws for a handle that does not name a live object of this kind; the error says what the handle is instead. */
napi_value failHandle(Env& env, const char* verb, Kind wanted, uint32_t handle);

/** Throws a BusyError that names the live children of the object. */
napi_value failBusy(Env& env, const char* verb, const Object& object);

}  // namespace isoverbs
