// The clock that all threads and processes of a host share.
#include <cerrno>
#include <ctime>

#include "ipc.h"

namespace isoverbs::ipc {

/**
 * readClock(to): writes CLOCK_MONOTONIC in nanoseconds to the first element of a Float64Array. V8 would allocate a double that
 * a function returns.
 */
napi_value readClock(napi_env napi, napi_callback_info info) {
  IpcArgs args(napi, info, "readClock");
  size_t length = 0;
  auto* to = static_cast<double*>(args.bytes(0, napi_float64_array, &length));
  if (!args.ok()) return nullptr;
  if (length == 0) return fail(args.env(), Err::Argument, args.verb(), EINVAL, "the array must have an element");
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  *to = static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
  return nullptr;
}

}  // namespace isoverbs::ipc
