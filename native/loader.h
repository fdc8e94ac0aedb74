// libibverbs, opened at run time: one build of the addon loads everywhere and can report what is missing.
#pragma once

#include <string>

#ifdef ISOVERBS_HAVE_VERBS
#include <infiniband/verbs.h>
// These names are macros for inline functions that call symbols we do not link.
#undef ibv_query_port
#undef ibv_reg_mr
#endif

namespace isoverbs {

/**
 * The soname of libibverbs, or the library that ISOVERBS_LIBIBVERBS names instead: one with the same functions, such as
 * a recorder, or the null device of the benchmarks.
 */
const char* verbsLibraryName();

/** The soname of librdmacm (cm.h), or the library that ISOVERBS_LIBRDMACM names instead. */
const char* cmLibraryName();

/** Opens a library by its soname and never closes it; returns the reason for a failure, or an empty string. */
std::string probeLibrary(const char* soname, void** handle);

#ifdef ISOVERBS_HAVE_VERBS

/** The functions of libibverbs that are symbols; post, poll and notify are reached through ibv_context.ops. */
struct Verbs {
  decltype(&::ibv_fork_init) forkInit;
  decltype(&::ibv_get_device_list) getDeviceList;
  decltype(&::ibv_free_device_list) freeDeviceList;
  decltype(&::ibv_get_device_name) getDeviceName;
  decltype(&::ibv_get_device_guid) getDeviceGuid;
  decltype(&::ibv_open_device) openDevice;
  decltype(&::ibv_close_device) closeDevice;
  decltype(&::ibv_query_device) queryDevice;
  decltype(&::ibv_query_port) queryPort;
  decltype(&::ibv_query_gid) queryGid;
  decltype(&::ibv_alloc_pd) allocPd;
  decltype(&::ibv_dealloc_pd) deallocPd;
  decltype(&::ibv_reg_mr) regMr;
  decltype(&::ibv_dereg_mr) deregMr;
  decltype(&::ibv_create_comp_channel) createCompChannel;
  decltype(&::ibv_destroy_comp_channel) destroyCompChannel;
  decltype(&::ibv_create_cq) createCq;
  decltype(&::ibv_destroy_cq) destroyCq;
  decltype(&::ibv_get_cq_event) getCqEvent;
  decltype(&::ibv_ack_cq_events) ackCqEvents;
  decltype(&::ibv_create_qp) createQp;
  decltype(&::ibv_modify_qp) modifyQp;
  decltype(&::ibv_query_qp) queryQp;
  decltype(&::ibv_destroy_qp) destroyQp;
  decltype(&::ibv_create_srq) createSrq;
  decltype(&::ibv_modify_srq) modifySrq;
  decltype(&::ibv_query_srq) querySrq;
  decltype(&::ibv_destroy_srq) destroySrq;
  decltype(&::ibv_create_ah) createAh;
  decltype(&::ibv_destroy_ah) destroyAh;
  decltype(&::ibv_attach_mcast) attachMcast;
  decltype(&::ibv_detach_mcast) detachMcast;
  decltype(&::ibv_rereg_mr) reregMr;
  /** Null before rdma-core 28. */
  decltype(&::ibv_reg_mr_iova2) regMrIova2;
  /** Null before rdma-core 34. */
  decltype(&::ibv_reg_dmabuf_mr) regDmabufMr;
  decltype(&::ibv_get_async_event) getAsyncEvent;
  decltype(&::ibv_ack_async_event) ackAsyncEvent;
  decltype(&::ibv_resize_cq) resizeCq;
  decltype(&::ibv_query_pkey) queryPkey;
  // Null in older releases of rdma-core.
  decltype(&::ibv_qp_to_qp_ex) qpToQpEx;
  decltype(&::ibv_query_ece) queryEce;
  decltype(&::ibv_set_ece) setEce;
  int (*queryQpDataInOrder)(ibv_qp* qp, ibv_wr_opcode opcode, uint32_t flags);
  /** Null before rdma-core 33. */
  decltype(&::_ibv_query_gid_ex) queryGidEx;
};

/** The library, opened at the first call; null if it is unavailable. */
const Verbs* verbs();

/** The reason why verbs() is null. */
const std::string& verbsError();

#endif

}  // namespace isoverbs
