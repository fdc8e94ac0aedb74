#include <dlfcn.h>

#include "cm.h"
#include "loader.h"

namespace isoverbs {

#ifdef ISOVERBS_HAVE_RDMACM

namespace {

struct Library {
  Cm cm{};
  std::string error;

  Library() {
    void* handle = nullptr;
    error = probeLibrary(cmLibraryName(), &handle);
    if (handle == nullptr) return;
    need(handle, cm.createEventChannel, "rdma_create_event_channel");
    need(handle, cm.destroyEventChannel, "rdma_destroy_event_channel");
    need(handle, cm.createId, "rdma_create_id");
    need(handle, cm.destroyId, "rdma_destroy_id");
    need(handle, cm.bindAddr, "rdma_bind_addr");
    need(handle, cm.resolveAddr, "rdma_resolve_addr");
    need(handle, cm.resolveRoute, "rdma_resolve_route");
    need(handle, cm.listen, "rdma_listen");
    need(handle, cm.connect, "rdma_connect");
    need(handle, cm.establish, "rdma_establish");
    need(handle, cm.accept, "rdma_accept");
    need(handle, cm.reject, "rdma_reject");
    need(handle, cm.disconnect, "rdma_disconnect");
    need(handle, cm.notify, "rdma_notify");
    need(handle, cm.initQpAttr, "rdma_init_qp_attr");
    need(handle, cm.joinMulticast, "rdma_join_multicast");
    need(handle, cm.leaveMulticast, "rdma_leave_multicast");
    need(handle, cm.getEvent, "rdma_get_cm_event");
    need(handle, cm.ackEvent, "rdma_ack_cm_event");
  }

  template <class F>
  void need(void* handle, F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(handle, name));
    if (function == nullptr && error.empty()) error = std::string(cmLibraryName()) + " has no " + name;
  }
};

const Library& library() {
  // Never destroyed, because workers may outlive static destructors.
  static const auto* one = new Library;
  return *one;
}

}  // namespace

const Cm* cm() { return library().error.empty() ? &library().cm : nullptr; }

std::string cmError() { return library().error; }

#else

std::string cmError() { return "the addon was built without the headers of librdmacm"; }

#endif

}  // namespace isoverbs
