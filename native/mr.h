// Functions that the files of memory regions share.
#pragma once

#include "args.h"
#include "objects.h"

namespace isoverbs {

/** The description of a region for JavaScript. */
Result describeMr(napi_env napi, const Mr& mr);

/** Records the application's ArrayBuffer under the region's key, so that posts notice when it is detached. */
void rememberForeign(Env& env, Mr* mr);

}  // namespace isoverbs
