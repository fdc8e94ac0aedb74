// What the files of memory regions share.
#pragma once

#include "args.h"
#include "objects.h"

namespace isoverbs {

/** What JavaScript learns of a region. */
Result describeMr(napi_env napi, const Mr& mr);

/** Enters the application's ArrayBuffer under the region's key, so that posts see when it is detached. */
void rememberForeign(Env& env, Mr* mr);

}  // namespace isoverbs
