// Polling of extended completion queues (CqOptions.wcFlags) by their readers.
#pragma once

#include "objects.h"

namespace isoverbs {

/** Fields of an extended completion that an ibv_wc does not have; 0 if not requested. */
struct Stamp {
  uint64_t ticks;
  uint64_t wallclockNs;
};

/** Works like ibv_poll_cq(3). */
int pollEx(Cq& cq, int count, ibv_wc* wcs, Stamp* stamps);

}  // namespace isoverbs
