# Tries everything that would write to, or take away, the shared memory at descriptor 3. Prints the outcome of each
# attempt.
import ctypes, errno, fcntl, mmap, os, sys

SIZE = int(sys.argv[1])
F_ADD_SEALS, F_SEAL_SHRINK = 1033, 2
PUNCH_HOLE, KEEP_SIZE = 2, 1
libc = ctypes.CDLL(None, use_errno=True)


def check(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), '')


def attempt(name, act):
    try:
        act()
        print(name, 'done')
    except OSError as error:
        print(name, errno.errorcode[error.errno])


def write_through(fd):
    memory = mmap.mmap(fd, SIZE, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    memory[0] = 66


def protect():
    memory = mmap.mmap(3, SIZE, mmap.MAP_SHARED, mmap.PROT_READ)
    view = (ctypes.c_char * SIZE).from_buffer_copy(memory)
    assert view[8] == b'A'
    libc.mmap.restype = ctypes.c_void_p
    address = libc.mmap(None, ctypes.c_size_t(SIZE), 1, 1, 3, ctypes.c_long(0))
    check(libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(SIZE), 3))
    ctypes.memset(address, 67, 1)


attempt('map', lambda: write_through(3))
attempt('reopen', lambda: write_through(os.open('/proc/self/fd/3', os.O_RDWR)))
attempt('mprotect', protect)
attempt('write', lambda: os.pwrite(3, b'D', 0))
attempt('punch', lambda: check(libc.fallocate(3, PUNCH_HOLE | KEEP_SIZE, ctypes.c_long(0), ctypes.c_long(SIZE))))
attempt('shrink', lambda: os.ftruncate(3, 0))
attempt('truncate', lambda: check(libc.truncate(b'/proc/self/fd/3', ctypes.c_long(0))))
attempt('grow', lambda: os.ftruncate(3, 2 * SIZE))
attempt('seal', lambda: fcntl.fcntl(3, F_ADD_SEALS, 8))
