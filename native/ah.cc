// Address handles and multicast groups.
#include <cerrno>
#include <cstring>
#include <memory>

#include "args.h"
#include "objects.h"
#include "qp.h"
#include "verbs.h"

namespace isoverbs {

namespace {

napi_value failAddress(Args& args, int errnum) {
  switch (errnum) {
    case EINVAL:
    case ENOENT:
    case ENODATA:
      return fail(args.env(), Err::Argument, args.verb(), errnum,
                  "the device refused the address (errno %d): RoCE requires a dgid, and a portNum and sgidIndex that "
                  "exist",
                  errnum);
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
      return fail(args.env(), Err::Connection, args.verb(), errnum, "no host answers at the dgid (errno %d)", errnum);
    default:
      return failErrno(args.env(), args.verb(), errnum);
  }
}

}  // namespace

/** createAh(pd, words): the address is in the same words as in modifyQp. */
napi_value createAh(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "createAh");
  const uint32_t* words = args.words(1, QPW_COUNT);
  const std::lock_guard lock(controlMutex());
  auto* pd = args.object<Pd>(0);
  if (!args.ok()) return nullptr;
  ibv_ah_attr attr = {};
  readAddress(words, &attr);
  auto ah = std::make_unique<Ah>();
  ah->owner = &args.env();
  ah->pd = pd;
  ah->ah = verbs()->createAh(pd->pd, &attr);
  if (ah->ah == nullptr) {
    return failAddress(args, errno);
  }
  if (!publish(Kind::Ah, ah.get())) {
    verbs()->destroyAh(ah->ah);
    return failErrno(args.env(), args.verb(), ENOMEM);
  }
  enter(ah.get());
  return number(napi, ah.release()->handle);
}
napi_value destroyAh(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "destroyAh");
  const std::lock_guard lock(controlMutex());
  auto* ah = args.object<Ah>(0);
  if (ah == nullptr) return nullptr;
  Parents parents = parentsOf(ah);
  const int rc = closeAh(ah);
  for (Object* parent : parents) reap(parent, &args.env());
  if (rc != 0) return failErrno(args.env(), args.verb(), rc);
  return undefined(napi);
}

namespace {

struct McastArgs {
  Qp* qp = nullptr;
  McastGroup group = {};
};

bool readMcast(Args& args, McastArgs* out) {
  size_t bytes = 0;
  const void* gid = args.bytes(1, napi_uint8_array, &bytes);
  out->group.lid = static_cast<uint16_t>(args.uint32(2));
  out->qp = args.object<Qp>(0);
  if (!args.ok()) return false;
  if (bytes != sizeof out->group.gid.raw) {
    fail(args.env(), Err::Argument, args.verb(), EINVAL, "the gid must have 16 bytes");
    return false;
  }
  std::memcpy(out->group.gid.raw, gid, bytes);
  if (out->qp->qp->qp_type == IBV_QPT_UD) return true;
  fail(args.env(), Err::Argument, args.verb(), EINVAL, "only queue pairs of type UD have multicast groups");
  return false;
}

McastGroup* findGroup(Qp& qp, const McastGroup& group) {
  for (McastGroup& one : qp.groups) {
    if (one.lid == group.lid && std::memcmp(one.gid.raw, group.gid.raw, sizeof one.gid.raw) == 0) return &one;
  }
  return nullptr;
}

}  // namespace

/** attachMcast(qp, gid: 16 bytes, lid). */
napi_value attachMcast(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "attachMcast");
  const std::lock_guard lock(controlMutex());
  McastArgs mcast;
  if (!readMcast(args, &mcast)) return nullptr;
  const int rc = verbs()->attachMcast(mcast.qp->qp, &mcast.group.gid, mcast.group.lid);
  if (rc == EINVAL) {
    return fail(args.env(), Err::Argument, args.verb(), rc,
                "the device refused the group (EINVAL): is it a multicast GID (ff..., or ::ffff:224.0.0.0 to "
                "::ffff:239.255.255.255)?");
  }
  if (rc != 0) return failErrno(args.env(), args.verb(), rc);
  if (findGroup(*mcast.qp, mcast.group) == nullptr) mcast.qp->groups.push_back(mcast.group);
  return undefined(napi);
}

/** detachMcast(qp, gid: 16 bytes, lid). */
napi_value detachMcast(napi_env napi, napi_callback_info info) {
  Args args(napi, info, "detachMcast");
  const std::lock_guard lock(controlMutex());
  McastArgs mcast;
  if (!readMcast(args, &mcast)) return nullptr;
  McastGroup* group = findGroup(*mcast.qp, mcast.group);
  if (group == nullptr) {
    return fail(args.env(), Err::Argument, args.verb(), EINVAL, "the queue pair is not attached to this group");
  }
  const int rc = verbs()->detachMcast(mcast.qp->qp, &group->gid, group->lid);
  if (rc != 0) return failErrno(args.env(), args.verb(), rc);
  mcast.qp->groups.erase(mcast.qp->groups.begin() + (group - mcast.qp->groups.data()));
  return undefined(napi);
}

}  // namespace isoverbs
