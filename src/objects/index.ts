export type { Access } from './access.ts';
export { type Completion, expectSuccess } from './completion.ts';
export { CompletionChannel } from './completion-channel.ts';
export {
  CompletionQueue,
  type CompletionQueueOptions,
  type DrainOptions,
  type NextOptions,
} from './completion-queue.ts';
export * from './connection/index.ts';
export { Context, type ContextOptions } from './context.ts';
export { MemoryRegion } from './memory-region.ts';
export {
  type AllocateOptions,
  ProtectionDomain,
  type RegisterOptions,
  type Registrable,
} from './protection-domain.ts';
export {
  type ConnectToOptions,
  type Endpoint,
  type InitOptions,
  type PathOptions,
  type QpState,
  type QpType,
  QueuePair,
  type QueuePairOptions,
  type RtrOptions,
  type RtsOptions,
} from './queue-pair.ts';
export type { RecvRequest, RemoteMemory, SendFlags, SendOpcode, SendRequest, Sge } from './request.ts';
