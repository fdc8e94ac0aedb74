// Shared by the files of memory regions.
#pragma once

#include "args.h"
#include "objects.h"

namespace isoverbs {

/** The description of a region for JavaScript. */
Result describeMr(napi_env napi, const Mr& mr);

/** Enters the application's ArrayBuffer under the region's key, so that posts see when it is detached. */
void rememberForeign(Env& env, Mr* mr);

}  // namespace isoverbs
