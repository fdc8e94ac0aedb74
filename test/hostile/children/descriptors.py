# A hostile program that sends descriptors of lingering TCP sockets to the daemon: descriptors.py MODE SOCKET LINGER_S
# [COUNT]. A process that closes the last descriptor of such a socket waits until the linger time is over. Prints a line
# for each descriptor, sent or refused by the kernel, and stays until its input ends. Sends when a line arrives, so that the
# daemon can be stopped until it alone has the descriptors.
import json, os, socket, struct, sys

MODE, PATH, LINGER_S = sys.argv[1], sys.argv[2], int(sys.argv[3])
COUNT = int(sys.argv[4]) if len(sys.argv) > 4 else 1
VERSION = int(os.environ['PROTOCOL_VERSION'])
# More than the daemon reads at once, so that what follows stays unread when it refuses this.
GARBAGE = b'\xff' * 16384
held = []

listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
listener.bind(('127.0.0.1', 0))
listener.listen(64)


def lingering():
    """A socket with unsent data, whose receiver does not read."""
    one = socket.socket()
    one.connect(listener.getsockname())
    held.append(listener.accept()[0])
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, LINGER_S))
    one.setblocking(False)
    try:
        while True:
            one.send(bytes(65536))
    except BlockingIOError:
        return one


def send(over, data, flags, one):
    try:
        socket.send_fds(over, [data], [one.fileno()], flags)
        print('sent', flush=True)
        one.close()
    except PermissionError:
        print('refused', flush=True)
        held.append(one)
    except (BrokenPipeError, ConnectionResetError):
        print('late', flush=True)
        held.append(one)


def frame(message):
    body = json.dumps(message).encode()
    return struct.pack('<I', len(body)) + body


def connect():
    one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    one.connect(PATH)
    held.append(one)
    return one


def join(role):
    """The connection, and the descriptors that came with the welcome."""
    one = connect()
    one.sendall(frame({'type': 'hello', 'version': VERSION, 'role': role}))
    _, fds, _, _ = socket.recv_fds(one, 65536, 3)
    return one, fds


def prepare():
    """The socket to send over, with what bytes and flags."""
    if MODE == 'greeting':
        return connect(), b'\0', 0
    if MODE == 'urgent':
        return connect(), b'\0', socket.MSG_OOB
    if MODE == 'unread':
        return connect(), b'\0', 0
    if MODE == 'connection':
        return join('tool')[0], frame({'type': 'tenants'}), 0
    wake = socket.socket(fileno=join('shim')[1][2])
    held.append(wake)
    return wake, b'\0', socket.MSG_OOB if MODE == 'urgent wake' else 0


sockets = [lingering() for _ in range(COUNT)]
prepared = [prepare() for _ in range(COUNT)]
print('ready', flush=True)
sys.stdin.readline()
for (over, data, flags), one in zip(prepared, sockets):
    if MODE == 'unread':
        over.sendall(GARBAGE)
    send(over, data, flags, one)
print('done', flush=True)
sys.stdin.read()
os._exit(0)
