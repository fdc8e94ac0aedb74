// Polling of extended completion queues (CqOptions.wcFlags) by their readers.
#pragma once

#include "objects.h"

namespace isoverbs {

/** What an extended completion has beside an ibv_wc; 0 where it was not asked for. */
struct Stamp {
  uint64_t ticks;
  uint64_t wallclockNs;
};

/** As ibv_poll_cq(3). */
int pollEx(Cq& cq, int count, ibv_wc* wcs, Stamp* stamps);

}  // namespace isoverbs
