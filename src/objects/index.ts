export type { Access } from './access.ts';
export { AddressHandle, type Sender } from './address-handle.ts';
export type {
  AsyncEvent,
  ContextEvents,
  CqEvent,
  DeviceEvent,
  EventName,
  EventsOf,
  PortEvent,
  QpEvent,
  SrqEvent,
} from './async-events.ts';
export { type Completion, expectSuccess } from './completion.ts';
export { CompletionChannel } from './completion-channel.ts';
export {
  CompletionQueue,
  type CompletionQueueOptions,
  type DrainOptions,
  type ModerationOptions,
  type NextOptions,
} from './completion-queue.ts';
export { Connection, type ConnectionEvents, type Remote } from './connection/connection.ts';
export { type JsonValue, PRIVATE_DATA_LIMIT, type PrivateData } from './connection/frames.ts';
export { connect } from './connection/handshake.ts';
export { Listener, type ListenerEvents, listen } from './connection/listener.ts';
export type { ConnectionOptions, ConnectOptions, ListenOptions } from './connection/options.ts';
export type { SchemaIssue, SchemaResult, StandardSchema } from './connection/schema.ts';
export { Context, type ContextOptions } from './context.ts';
export type { EmittingResource, EventsOptions } from './emitting-resource.ts';
export { MemoryRegion, type ReregisterOptions } from './memory-region.ts';
export type { SlabOptions } from './memory-slab.ts';
export {
  type BindOptions,
  MemoryWindow,
  type MemoryWindowOptions,
  type PostBindOptions,
} from './memory-window.ts';
export {
  type AllocateOptions,
  type DmabufOptions,
  ProtectionDomain,
  type ProtectionDomainOptions,
  type RegisterOptions,
} from './protection-domain.ts';
export type {
  ConnectToOptions,
  ContextLabels,
  Endpoint,
  InitOptions,
  PathOptions,
  QpDrainOptions,
  QpState,
  QpType,
  QueuePairLabels,
  QueuePairOptions,
  RtrOptions,
  RtsOptions,
  SqdOptions,
} from './qp-options.ts';
export { QueuePair } from './queue-pair.ts';
export type { RangeOptions, Registrable } from './registrable.ts';
export type {
  Bind,
  Destination,
  RecvRequest,
  RemoteMemory,
  SendFlags,
  SendOpcode,
  SendRequest,
  Sge,
} from './request.ts';
export type { Resource } from './resource.ts';
export { SharedReceiveQueue, type SharedReceiveQueueOptions } from './shared-receive-queue.ts';
export { XrcDomain } from './xrc-domain.ts';
