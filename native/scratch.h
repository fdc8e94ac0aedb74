// Work requests under construction: one set for each env, so that posting allocates nothing.
#pragma once

#include <cstdint>

#include "env.h"
#include "loader.h"

namespace isoverbs {

/** A batch longer than this is posted in several lists. */
constexpr uint32_t kMaxWrs = 256;
constexpr uint32_t kMaxSges = 4096;
/**
 * The most elements of a request on any queue, which is far more than any device grants. The scratch has room for
 * several such requests.
 */
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
