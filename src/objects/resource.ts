/** What all objects have in common: a handle, parents that they keep alive, children that keep them open. */
import { BusyError, InvalidHandleError, KIND_NAMES, type Provider } from '../verbs/index.ts';

/** Kinds of objects, named like their classes, in the order in which context.close() closes them: users first. */
const CLOSE_ORDER = [
  // Soft-RoCE (Linux 6.1) destroys a queue pair only when no memory window is bound to it, or after 50 s.
  'MemoryWindow',
  'QueuePair',
  'AddressHandle',
  'SharedReceiveQueue',
  'CompletionQueue',
  'CompletionChannel',
  'MemoryRegion',
  'XrcDomain',
  'ProtectionDomain',
  'Context',
] as const;

/** Name of an object's class, compared instead of the class so that the classes need not import each other. */
export type ResourceKind = (typeof CLOSE_ORDER)[number];

export interface ResourceInit {
  provider: Provider;
  handle: number;
  /** Of whom messages speak: 'queue pair 17 of sim0'. */
  label: string;
  parents: readonly Resource[];
}

/** Something that the device gave and takes back: it has a handle, keeps its parents open, and is closed once. */
export abstract class Resource {
  /** @internal */
  abstract readonly kind: ResourceKind;
  readonly provider: Provider;
  /** How messages name it: 'queue pair 17 of sim0'. */
  readonly label: string;
  private readonly rawHandle: number;
  private parents: readonly Resource[];
  private readonly children = new Set<Resource>();
  private closeCallbacks: Set<{ callback: () => void }> | null = null;
  private open = true;

  constructor(init: ResourceInit) {
    this.provider = init.provider;
    this.label = init.label;
    this.rawHandle = init.handle;
    this.parents = init.parents;
    for (const parent of init.parents) parent.children.add(this);
  }

  /** The handle that the flat verbs take. @throws InvalidHandleError once closed */
  get handle(): number {
    if (!this.open) throw this.closedError();
    return this.rawHandle;
  }

  /** Whether close() was called. */
  get closed(): boolean {
    return !this.open;
  }

  /**
   * Gives it back to the device. Closing twice does nothing.
   * @throws BusyError naming what still uses it
   */
  close(): void {
    if (!this.open) return;
    if (this.children.size > 0) {
      const names = [...this.children].map((child) => child.label).join(', ');
      throw new BusyError(`${this.label} is still used by ${names}; close them first`, { errno: 16 });
    }
    this.release(this.rawHandle);
    this.open = false;
    for (const parent of this.parents) parent.children.delete(this);
    this.released();
    const called = [...(this.closeCallbacks ?? [])];
    this.closeCallbacks = null;
    for (const { callback } of called) callback();
  }

  /** @internal Closes what depends on it, in the order in which that goes, and then it. */
  closeAll(): void {
    for (const resource of this.descendants()) resource.close();
    this.close();
  }

  /** close(), for `using`. */
  [Symbol.dispose](): void {
    this.close();
  }

  /** How console.log() shows it. */
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return `${this.constructor.name} { ${this.label}${this.open ? '' : ', closed'} }`;
  }

  /** The verb that gives it back. */
  protected abstract release(handle: number): void;

  /**
   * Calls back once, right after it was closed: the place to close what was made for it. Returns what takes
   * the callback away again.
   */
  onClose(callback: () => void): () => void {
    const entry = { callback };
    this.closeCallbacks ??= new Set();
    this.closeCallbacks.add(entry);
    return () => void this.closeCallbacks?.delete(entry);
  }

  /** Called once, after it was closed. */
  protected released(): void {}

  /** Now depends on `parent` instead of on `former`. */
  protected replaceParent(parent: Resource, former: Resource): void {
    former.children.delete(this);
    parent.children.add(this);
    this.parents = this.parents.map((one) => (one === former ? parent : one));
  }

  protected closedError(): InvalidHandleError {
    return new InvalidHandleError(`${this.label} is closed`);
  }

  /** All that depends on it, in the order in which it can be closed. */
  protected descendants(): Resource[] {
    const found = new Set<Resource>();
    const visit = (resource: Resource) => {
      for (const child of resource.children) {
        if (found.has(child)) continue;
        found.add(child);
        visit(child);
      }
    };
    visit(this);
    return [...found].sort((a, b) => CLOSE_ORDER.indexOf(a.kind) - CLOSE_ORDER.indexOf(b.kind));
  }
}

/** A resource that belongs to a context: all but the context itself. */
export interface Owned {
  readonly context: Resource;
}

/**
 * Checks that an argument is an open object of the right class and context.
 * @throws InvalidHandleError naming the argument and what it is
 */
export function requireOwned<T extends Resource & Owned>(
  value: T,
  kind: T['kind'],
  context: Resource,
  argument: string,
): T {
  if (!(value instanceof Resource) || value.kind !== kind) {
    const got = (value as unknown) instanceof Resource ? (value as Resource).label : describe(value);
    throw new InvalidHandleError(`${argument} must be a ${kind}, got ${got}`);
  }
  if (value.context !== context) {
    throw new InvalidHandleError(
      `${argument}: ${value.label} belongs to another context than ${context.label}`,
    );
  }
  void value.handle;
  return value;
}

function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (typeof value === 'number')
    return `${value}${KIND_NAMES[value >> 27] ? ' (a handle, not an object)' : ''}`;
  return typeof value === 'object' ? (value.constructor?.name ?? 'an object') : `a ${typeof value}`;
}
