// Whether an mlx5 device executes WAIT: through raw WQEs of libmlx5, opened at run time.
#pragma once

#include <string>

#include "loader.h"

namespace isoverbs {

/**
 * Posts a WAIT whose condition already holds on a looped-back queue pair of the device, and polls for its completion.
 * Returns an empty string if the WAIT was executed, otherwise the step that failed and the reason.
 */
std::string probeWait(ibv_context* ctx, const ibv_device_attr& attr);

}  // namespace isoverbs
