#!/bin/bash
# rdma_cm and multicast between two hosts, over IPv4 and IPv6.
#   unshare -rnm test/soft/children/two-hosts-cm.sh
. "$(dirname "$0")/cable.sh"
export ISOVERBS_SOFT_ADDRESSES=10.8.0.1,fd08::1
there() { ISOVERBS_SOFT_ADDRESSES=10.8.0.2,fd08::2 ip netns exec other node "$@"; }
node examples/rdma-cm-echo.mjs --listen 7471 &
server=$!
for ((i = 0; i < 300; i++)); do ss -lun | grep -q '10.8.0.1:4791 ' && break; sleep 0.1; done
there examples/rdma-cm-echo.mjs --connect 10.8.0.1:7471
there test/soft/children/connect.mjs fd08::1 7471
kill $server
wait $server 2>/dev/null || true
for ends in '239.1.2.3 10.8.0.1 10.8.0.2' 'ff0e::4791 fd08::1 fd08::2'; do
  read -r group own other <<<"$ends"
  ISOVERBS_SOFT_ADDRESSES=$other ip netns exec other \
    node test/soft/children/multicast.mjs "$group" --address "$other" --send "to $group" &
  sender=$!
  node test/soft/children/multicast.mjs "$group" --address "$own"
  kill $sender
  wait $sender 2>/dev/null || true
done
