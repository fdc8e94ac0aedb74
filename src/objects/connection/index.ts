export { Connection, type ConnectionEvents, type Remote } from './connection.ts';
export { type JsonValue, PRIVATE_DATA_LIMIT, type PrivateData } from './frames.ts';
export { connect } from './handshake.ts';
export { Listener, type ListenerEvents, listen } from './listener.ts';
export type { ConnectionOptions, ConnectOptions, ListenOptions } from './options.ts';
