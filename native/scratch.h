// Work requests under construction: one set for each env, so that posting allocates nothing.
#pragma once

#include <cstdint>

#include "env.h"
#include "loader.h"

namespace isoverbs {

/** A batch longer than this goes down in several lists. */
constexpr uint32_t kMaxWrs = 256;
constexpr uint32_t kMaxSges = 4096;
/** Elements that a request of any queue may have; no device grants anywhere near that. Several fit the scratch. */
constexpr uint32_t kMaxQueueSges = 1000;

struct Scratch {
  ibv_send_wr sends[kMaxWrs];
  ibv_recv_wr recvs[kMaxWrs];
  ibv_sge sges[kMaxSges];
};

inline Scratch& scratchOf(Env& env) {
  if (env.scratch == nullptr) env.scratch = new Scratch;
  return *env.scratch;
}

/** Requests that may be built at once; an inline request takes one SGE even where the queue has none. */
inline uint32_t batchLimit(uint32_t maxSge) {
  const uint32_t fit = kMaxSges / (maxSge + 1);
  return fit < kMaxWrs ? fit : kMaxWrs;
}

}  // namespace isoverbs
