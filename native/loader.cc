#include "loader.h"

#include <dlfcn.h>

#include <cstdlib>

namespace isoverbs {

namespace {

const char* libraryName(const char* variable, const char* soname) {
  const char* other = std::getenv(variable);
  return other != nullptr && *other != 0 ? other : soname;
}

}  // namespace

const char* verbsLibraryName() { return libraryName("ISOVERBS_LIBIBVERBS", "libibverbs.so.1"); }

const char* cmLibraryName() { return libraryName("ISOVERBS_LIBRDMACM", "librdmacm.so.1"); }

std::string probeLibrary(const char* soname, void** handle) {
  void* library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) *handle = library;
  if (library != nullptr) return {};
  const char* reason = dlerror();
  return reason != nullptr ? reason : "dlopen failed";
}

#ifdef ISOVERBS_HAVE_VERBS

namespace {

struct Library {
  Verbs verbs{};
  std::string error;

  Library() {
    void* handle = nullptr;
    error = probeLibrary(verbsLibraryName(), &handle);
    if (handle == nullptr) return;
    loadDevices(handle);
    loadQueues(handle);
    loadDatagrams(handle);
    loadNewer(handle);
    // Registered memory must survive the fork of a child process. Newer kernels ensure this themselves and report so.
    if (error.empty()) verbs.forkInit();
  }

  template <class F>
  void want(void* handle, F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(handle, name));
  }

  template <class F>
  void need(void* handle, F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(handle, name));
    if (function == nullptr && error.empty()) error = std::string(verbsLibraryName()) + " has no " + name;
  }

  void loadDevices(void* h) {
    need(h, verbs.forkInit, "ibv_fork_init");
    need(h, verbs.getDeviceList, "ibv_get_device_list");
    need(h, verbs.freeDeviceList, "ibv_free_device_list");
    need(h, verbs.getDeviceName, "ibv_get_device_name");
    need(h, verbs.getDeviceGuid, "ibv_get_device_guid");
    need(h, verbs.openDevice, "ibv_open_device");
    need(h, verbs.closeDevice, "ibv_close_device");
    need(h, verbs.queryDevice, "ibv_query_device");
    need(h, verbs.queryPort, "ibv_query_port");
    need(h, verbs.queryGid, "ibv_query_gid");
    need(h, verbs.queryPkey, "ibv_query_pkey");
    need(h, verbs.getAsyncEvent, "ibv_get_async_event");
    need(h, verbs.ackAsyncEvent, "ibv_ack_async_event");
    need(h, verbs.allocPd, "ibv_alloc_pd");
    need(h, verbs.deallocPd, "ibv_dealloc_pd");
    need(h, verbs.regMr, "ibv_reg_mr");
    need(h, verbs.deregMr, "ibv_dereg_mr");
    need(h, verbs.reregMr, "ibv_rereg_mr");
  }

  /** Functions that older releases lack, where they stay null. */
  void loadNewer(void* h) {
    want(h, verbs.queryGidEx, "_ibv_query_gid_ex");
    want(h, verbs.regMrIova2, "ibv_reg_mr_iova2");
    want(h, verbs.regDmabufMr, "ibv_reg_dmabuf_mr");
    want(h, verbs.qpToQpEx, "ibv_qp_to_qp_ex");
    want(h, verbs.queryEce, "ibv_query_ece");
    want(h, verbs.setEce, "ibv_set_ece");
    want(h, verbs.queryQpDataInOrder, "ibv_query_qp_data_in_order");
  }

  void loadQueues(void* h) {
    need(h, verbs.createCompChannel, "ibv_create_comp_channel");
    need(h, verbs.destroyCompChannel, "ibv_destroy_comp_channel");
    need(h, verbs.createCq, "ibv_create_cq");
    need(h, verbs.destroyCq, "ibv_destroy_cq");
    need(h, verbs.getCqEvent, "ibv_get_cq_event");
    need(h, verbs.ackCqEvents, "ibv_ack_cq_events");
    need(h, verbs.resizeCq, "ibv_resize_cq");
    need(h, verbs.createQp, "ibv_create_qp");
    need(h, verbs.modifyQp, "ibv_modify_qp");
    need(h, verbs.queryQp, "ibv_query_qp");
    need(h, verbs.destroyQp, "ibv_destroy_qp");
    need(h, verbs.createSrq, "ibv_create_srq");
    need(h, verbs.modifySrq, "ibv_modify_srq");
    need(h, verbs.querySrq, "ibv_query_srq");
    need(h, verbs.destroySrq, "ibv_destroy_srq");
  }

  void loadDatagrams(void* h) {
    need(h, verbs.createAh, "ibv_create_ah");
    need(h, verbs.destroyAh, "ibv_destroy_ah");
    need(h, verbs.attachMcast, "ibv_attach_mcast");
    need(h, verbs.detachMcast, "ibv_detach_mcast");
  }
};

const Library& library() {
  // Never destroyed, because providers' threads and workers may outlive static destructors.
  static const auto* one = new Library;
  return *one;
}

}  // namespace

const Verbs* verbs() { return library().error.empty() ? &library().verbs : nullptr; }

const std::string& verbsError() { return library().error; }

#endif

}  // namespace isoverbs
