// Functions that device.cc and device-ex.cc share.
#pragma once

#include "args.h"
#include "objects.h"

namespace isoverbs {

/** ibv_query_port(3) without its inline function, which requires a symbol that we do not link. */
int queryPortOf(ibv_context* ctx, uint8_t port, ibv_port_attr* attr);

/** Whether the device has this port; if not, an exception is pending. */
bool checkPort(Args& args, const Context* context, uint32_t port);

}  // namespace isoverbs
