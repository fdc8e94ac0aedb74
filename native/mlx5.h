// Whether an mlx5 device executes WAIT: through raw WQEs of libmlx5, opened at run time.
#pragma once

#include <string>

#include "loader.h"

namespace isoverbs {

/**
 * Posts a WAIT that need not wait on a looped-back queue pair of the device and looks for its completion. Empty: it
 * was executed; otherwise the step that failed, and why.
 */
std::string probeWait(ibv_context* ctx, const ibv_device_attr& attr);

}  // namespace isoverbs
