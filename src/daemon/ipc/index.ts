/**
 * Communication between processes that share a device: shared memory, sockets that pass descriptors, and wake-ups.
 */
export { closeFd } from './descriptor.ts';
export { createMemory, openMemory, SharedMemory } from './memory.ts';
export { loadIpc, type PeerCredentials, type Received } from './native.ts';
export { PeerProcess, procFile } from './peer-process.ts';
export {
  connectUnix,
  type ListenOptions,
  listenUnix,
  UnixListener,
  UnixSocket,
  type WatchOptions,
} from './socket.ts';
export { type StreamListeners, UnixStream } from './stream.ts';
export { createWake, Wake } from './wake.ts';
