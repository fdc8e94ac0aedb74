#!/bin/bash
# Two network namespaces with a cable between them: a file goes from one to the other over IPv4 and IPv6. The kernel divides
# datagrams with several packets before they reach the cable. With a file name, dumpcap captures the cable.
#   unshare -rnm test/soft/children/two-hosts.sh [FILE]
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
if [ -n "$1" ]; then
  dumpcap -q -i va -w "$1" 2>/dev/null &
  capture=$!
  for ((i = 0; i < 100; i++)); do [ -s "$1" ] && break; sleep 0.1; done
fi
port=7480
for ends in '10.8.0.1 10.8.0.2' 'fd08::1 fd08::2'; do
  read -r here there <<<"$ends"
  ISOVERBS_SOFT_ADDRESSES=$here node examples/file-transfer.mjs --listen $port &
  server=$!
  for ((i = 0; i < 300; i++)); do ss -ltn | grep -q ":$port " && break; sleep 0.1; done
  ISOVERBS_SOFT_ADDRESSES=$there ip netns exec other node examples/file-transfer.mjs --connect 10.8.0.1:$port --size 1M
  kill $server
  port=$((port + 1))
done
[ -z "$1" ] || { sleep 0.5; kill $capture; wait $capture || true; }
