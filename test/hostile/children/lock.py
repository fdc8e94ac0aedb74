# Locks a file or folder until its input ends: lock.py PATH [create]
import fcntl, os, sys

flags = os.O_RDWR | os.O_CREAT if len(sys.argv) > 2 else os.O_RDONLY
fcntl.flock(os.open(sys.argv[1], flags, 0o666), fcntl.LOCK_EX)
print('locked', flush=True)
sys.stdin.read()
