# Sourced: two network namespaces with a cable between them, for IPv4 and IPv6. The kernel divides datagrams with several
# packets before they reach the cable. Requires unshare -rnm.
set -e
mount -t tmpfs none /run
ip link set lo up
ip netns add other
ip link add va type veth peer name vb netns other
ip addr add 10.8.0.1/24 dev va
ip addr add fd08::1/64 dev va nodad
ip link set va up gso_max_segs 1
ip -n other addr add 10.8.0.2/24 dev vb
ip -n other addr add fd08::2/64 dev vb nodad
ip -n other link set vb up gso_max_segs 1
export ISOVERBS_PROVIDER=soft
