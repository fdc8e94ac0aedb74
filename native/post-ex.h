// Posting through ibv_wr_*(3), for queue pairs that were created for it (QpInitAttr.extended).
#pragma once

#include "objects.h"

namespace isoverbs {

/**
 * Creates a queue pair with ibv_create_qp_ex(3); null with errno EOPNOTSUPP if the device or library does not support
 * it.
 */
ibv_qp* createExtendedQp(ibv_pd* pd, ibv_qp_init_attr* attr, ibv_qp_ex** ex);

/** Works like ibv_post_send(3): returns 0, or an errno and the first request that was not posted. */
int postSendEx(Qp& qp, ibv_send_wr* list, ibv_send_wr** bad);

}  // namespace isoverbs
