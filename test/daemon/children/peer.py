# A hostile peer: connects to a path and sends the messages of its mode.
import fcntl, os, socket, sys, time

MODE, PATH = sys.argv[1:3]
F_ADD_SEALS, SHRINK, GROW = 1033, 2, 4
SIZE = 8192
peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
peer.connect(PATH)


def memory(seals, size=SIZE):
    fd = os.memfd_create('hostile', os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, F_ADD_SEALS, seals)
    return fd


def send(fds, data=b'x'):
    try:
        socket.send_fds(peer, [data], fds)
        print('sent', len(fds))
    except OSError as error:
        print('errno', error.errno)


if MODE == 'many':
    send([memory(0)] * 100)
elif MODE == 'unwanted':
    send([memory(0)])
elif MODE == 'unsealed':
    send([memory(0)])
elif MODE == 'shrinkable':
    send([memory(GROW)])
elif MODE == 'growable':
    send([memory(SHRINK)])
elif MODE == 'small':
    send([memory(SHRINK | GROW, SIZE - 1)])
elif MODE == 'large':
    send([memory(SHRINK | GROW, SIZE + 1)])
elif MODE == 'empty':
    send([memory(SHRINK | GROW, 0)])
elif MODE == 'file':
    send([os.open('/etc/passwd', os.O_RDONLY)])
elif MODE == 'socket':
    send([peer.fileno()])
elif MODE == 'directory':
    send([os.open('/', os.O_RDONLY)])
elif MODE == 'sealed':
    send([memory(SHRINK | GROW)])
elif MODE == 'trickle':
    # Two messages with descriptors, which one recv must not merge, then the end of the stream in the middle of a third.
    send([memory(SHRINK | GROW)], b'first')
    send([memory(SHRINK | GROW)], b'second')
    peer.sendall(b'thi')
sys.stdout.flush()
# The receiver must not depend on the sender's keeping its descriptor open.
if MODE != 'trickle':
    time.sleep(20)
