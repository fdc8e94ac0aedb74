/**
 * What a policy shares a device among: connections, applications, tenants or groups of them. An entity is a set of queue
 * pairs with the same key and a small dense index, which fits typed columns of the policy's own. Queue pairs join when
 * they are created and leave when they are destroyed; nothing here runs per request.
 */
import type { ContextView, QpView } from '../../shim/policy.ts';
import { fitColumn } from '../../shim/tables.ts';
import { NONE, RunQueue } from './run-queue.ts';

/** Each queue pair is an entity of its own. */
export const byQueuePair = ({ context, handle }: QpView): string => `${context.device} #${handle}`;

/** An entity is a context: the queue pairs of one application. */
export const byContext = ({ context }: { readonly context: ContextView }): string =>
  `${context.device} #${context.handle}`;

/** An entity is a tenant of one device. A context without a tenant name is a separate tenant. */
export const byTenant = ({ context }: { readonly context: ContextView }): string =>
  entityOfTenant(context, context.tenant);

/** The key of a tenant (see `byTenant`) to which a coordinator has assigned the context. */
export const entityOfTenant = (context: ContextView, tenant: string): string =>
  tenant === '' ? byContext({ context }) : `${context.device} ${tenant}`;

/** The most entities without queue pairs that are kept. More would make each new entity slower. */
const MAX_KEPT = 1024;

/** How entities are made and forgotten. */
export interface EntityRules {
  /** The key of the entity that a queue pair belongs to. It names the device, because entities do not span devices. */
  readonly keyOf: (qp: QpView) => string;
  /** An entity has come into being with its first queue pair. */
  readonly onNew?: (entity: number, qp: QpView) => void;
  /**
   * Whether an entity that has lost its last queue pair may be forgotten, for instance because it owes nothing; default:
   * yes. It is asked at once, and again each time a new entity of the same device comes into being. Beyond 1,024 such
   * entities, those kept for the longest time are forgotten anyway.
   */
  readonly mayForget?: (entity: number, nowNs: number) => boolean;
}

/** The entities of a policy, and the queue pairs of each. */
export class Entities {
  private readonly rules: EntityRules;
  private readonly byKey = new Map<string, number>();
  // By entity.
  private readonly keys: string[] = [];
  private readonly devices: string[] = [];
  private counts: Int32Array = new Int32Array(16);
  // By queue pair: its entity plus one.
  private entityOf: Int32Array = new Int32Array(64);
  /** The queue pairs of each entity, the oldest first. */
  private readonly members = new RunQueue();
  /** Entities without queue pairs that may not be forgotten yet, and indices that are free. */
  private readonly kept = new RunQueue();
  private keptCount = 0;
  private readonly free: number[] = [];

  constructor(rules: EntityRules) {
    this.rules = rules;
  }

  /** One more than the largest index in use, for loops over entities. */
  get limit(): number {
    return this.keys.length;
  }

  /** The number of entities that have queue pairs. */
  get size(): number {
    return this.byKey.size - this.keptCount;
  }

  /** The entity of a queue pair; NONE: it has not joined. */
  of(qp: { readonly index: number }): number {
    return this.ofIndex(qp.index);
  }

  /** The entity of the queue pair with this index. */
  ofIndex(qp: number): number {
    return qp < this.entityOf.length ? this.entityOf[qp] - 1 : NONE;
  }

  /** The entity with this key; NONE: there is none. */
  find(key: string): number {
    return this.byKey.get(key) ?? NONE;
  }

  /** The number of queue pairs of an entity. */
  count(entity: number): number {
    return this.counts[entity];
  }

  /** The first queue pair of an entity, by index; NONE: it has none. */
  firstQp(entity: number): number {
    return this.members.first(entity);
  }

  /** The queue pair after another one of the same entity; NONE: it was the last. */
  nextQp(qp: number): number {
    return this.members.next(qp);
  }

  /** Adds a queue pair. Returns its entity. @param nowNs for `mayForget` */
  join(qp: QpView, nowNs = 0): number {
    const key = this.rules.keyOf(qp);
    const known = this.byKey.get(key);
    const entity = known ?? this.allocate(key, qp.context.device, nowNs);
    this.entityOf = fitColumn(this.entityOf, qp.index);
    this.entityOf[qp.index] = entity + 1;
    this.members.push(qp.index, entity);
    this.unkeep(entity);
    this.counts[entity]++;
    if (known === undefined) this.rules.onNew?.(entity, qp);
    return entity;
  }

  /** Moves a queue pair to the entity of its key, which may have changed. Returns the entity. @param nowNs for `mayForget` */
  rejoin(qp: QpView, nowNs = 0): number {
    const entity = this.of(qp);
    // It must not leave, because an entity is forgotten with its last queue pair.
    if (entity !== NONE && this.keys[entity] === this.rules.keyOf(qp)) return entity;
    this.leave(qp, nowNs);
    return this.join(qp, nowNs);
  }

  /** Removes a queue pair, which may be destroyed already. Returns the entity that it left; NONE: it was in none. */
  leave(qp: { readonly index: number }, nowNs = 0): number {
    const entity = this.of(qp);
    if (entity === NONE) return NONE;
    this.entityOf[qp.index] = 0;
    this.members.remove(qp.index);
    if (--this.counts[entity] === 0) this.forget(entity, nowNs);
    return entity;
  }

  private allocate(key: string, device: string, nowNs: number): number {
    for (let entity = this.kept.first(); entity !== NONE; ) {
      const next = this.kept.next(entity);
      if (this.devices[entity] === device) this.forget(entity, nowNs);
      entity = next;
    }
    const entity = this.free.pop() ?? this.keys.length;
    this.keys[entity] = key;
    this.devices[entity] = device;
    this.counts = fitColumn(this.counts, entity);
    this.byKey.set(key, entity);
    return entity;
  }

  /** Forgets an entity without queue pairs, or keeps it until it may be forgotten. */
  private forget(entity: number, nowNs: number): void {
    if (this.rules.mayForget?.(entity, nowNs) !== false) this.drop(entity);
    else if (!this.kept.has(entity)) {
      this.kept.push(entity);
      if (++this.keptCount > MAX_KEPT) this.drop(this.kept.first());
    }
  }

  private drop(entity: number): void {
    this.unkeep(entity);
    this.byKey.delete(this.keys[entity]);
    this.free.push(entity);
  }

  private unkeep(entity: number): void {
    if (!this.kept.has(entity)) return;
    this.kept.remove(entity);
    this.keptCount--;
  }
}
