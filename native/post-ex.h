// Posting through ibv_wr_*(3), for queue pairs that were created for it (QpInitAttr.extended).
#pragma once

#include "objects.h"

namespace isoverbs {

/** ibv_create_qp(3) by ibv_create_qp_ex(3); null with errno EOPNOTSUPP where device or library have none. */
ibv_qp* createExtendedQp(ibv_pd* pd, ibv_qp_init_attr* attr, ibv_qp_ex** ex);

/** As ibv_post_send(3): 0, or an errno and the request that was not taken; those before it were. */
int postSendEx(Qp& qp, ibv_send_wr* list, ibv_send_wr** bad);

}  // namespace isoverbs
