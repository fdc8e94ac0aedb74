# Connects to the daemon and hands the socket over to a child: handover.py SOCKET exit|stay [shim|tool]. The first process
# exits at once, or once it has the daemon's answer. When its parent has been waited for (Node.js then closes the input), the child
# says hello unless that has been done, and prints each of the daemon's messages.
import json, os, socket, struct, sys

PATH, WHEN, ROLE = [*sys.argv[1:], 'shim'][:3]
VERSION = int(os.environ['PROTOCOL_VERSION'])
peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
peer.connect(PATH)


def hello():
    body = json.dumps({'type': 'hello', 'version': VERSION, 'role': ROLE}).encode()
    try:
        peer.sendall(struct.pack('<I', len(body)) + body)
    except BrokenPipeError:
        pass


def receive(count):
    got = b''
    while len(got) < count:
        try:
            more, fds, _, _ = socket.recv_fds(peer, count - len(got), 3)
        except ConnectionResetError:
            more = b''
        if not more:
            print(json.dumps({'type': 'end'}), flush=True)
            sys.exit()
        held.extend(fds)
        got += more
    return got


def next_message():
    (length,) = struct.unpack('<I', receive(4))
    print(receive(length).decode(), flush=True)


held = []
if WHEN == 'stay':
    hello()
    next_message()
    body = json.dumps({'type': 'join', 'slot': 0, 'device': 'sim0'}).encode()
    peer.sendall(struct.pack('<I', len(body)) + body)
    next_message()
print(json.dumps({'pid': os.getpid()}), flush=True)
if os.fork() > 0:
    os._exit(0)
sys.stdin.read()
if WHEN == 'exit':
    hello()
while True:
    next_message()
