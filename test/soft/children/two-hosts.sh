#!/bin/bash
# A file goes from one host to another over IPv4 and IPv6. With a file name, dumpcap captures the cable between them.
#   unshare -rnm test/soft/children/two-hosts.sh [FILE]
. "$(dirname "$0")/cable.sh"
if [ -n "$1" ]; then
  dumpcap -q -i va -w "$1" 2>/dev/null &
  capture=$!
  for ((i = 0; i < 100; i++)); do [ -s "$1" ] && break; sleep 0.1; done
fi
ip -n other link set lo up
port=7480
for ends in '10.8.0.1 10.8.0.2' 'fd08::1 fd08::2'; do
  read -r here there <<<"$ends"
  ISOVERBS_SOFT_ADDRESSES=$here node examples/file-transfer.mjs --listen $port &
  server=$!
  for ((i = 0; i < 300; i++)); do ss -ltn | grep -q ":$port " && break; sleep 0.1; done
  # With a device on its loopback interface, the client cannot reach the server.
  ISOVERBS_SOFT_ADDRESSES=127.0.0.1 ip netns exec other node examples/file-transfer.mjs --connect 10.8.0.1:$port 2>&1 || true
  ISOVERBS_SOFT_ADDRESSES=$there ip netns exec other node examples/file-transfer.mjs --connect 10.8.0.1:$port --size 1M
  kill $server
  port=$((port + 1))
done
[ -z "$1" ] || { sleep 0.5; kill $capture; wait $capture || true; }
