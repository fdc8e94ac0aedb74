# Connects to the metrics as many users without pause, and keeps all connections: some send nothing, some a part of a
# request, and some do not read their answer. flood-metrics.py SOCKET UID...
import os
import socket
import sys
import time

path, uids = sys.argv[1], [int(uid) for uid in sys.argv[2:]]
SENDS = [b'', b'GET /metrics HTTP/1.1\r\nHost: a\r\n', b'GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n']
kept = []
print('flooding', flush=True)
while True:
    for i, uid in enumerate(uids):
        os.seteuid(uid)
        one = socket.socket(socket.AF_UNIX)
        one.setblocking(False)
        try:
            one.connect(path)
            one.send(SENDS[i % len(SENDS)])
            kept.append(one)
        except OSError:
            one.close()
        os.seteuid(0)
    del kept[:-400]
    time.sleep(0.05)
