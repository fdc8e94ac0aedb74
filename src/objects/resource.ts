/** Base of all objects: a handle, parents that the object keeps alive, and children that keep it open. */
import {
  BusyError,
  InvalidArgumentError,
  InvalidHandleError,
  KIND_NAMES,
  type Provider,
  shown,
} from '../verbs/index.ts';

/**
 * Kinds of objects, named like their classes, in the order in which context.close() closes them: each kind before those
 * that it uses.
 */
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

/** Constructor arguments of Resource. */
export interface ResourceInit {
  provider: Provider;
  handle: number;
  /** Name of the object in messages: 'queue pair 17 of sim0'. */
  label: string;
  parents: readonly Resource[];
}

/** An object of the device: it has a handle, keeps its parents open, and is closed once. */
export abstract class Resource {
  /** @internal */
  abstract readonly kind: ResourceKind;
  readonly provider: Provider;
  /** Name of the object in messages: 'queue pair 17 of sim0'. */
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

  /** The handle for the flat verbs. @throws InvalidHandleError once closed */
  get handle(): number {
    if (!this.open) throw this.closedError();
    return this.rawHandle;
  }

  /** Whether close() was called. */
  get closed(): boolean {
    return !this.open;
  }

  /**
   * Releases the object. Closing twice does nothing.
   * @throws BusyError naming the objects that still use it
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

  /** @internal Closes the dependent objects in a valid order, then this object. */
  closeAll(): void {
    for (const resource of this.descendants()) resource.close();
    this.close();
  }

  /** close(), for `using`. */
  [Symbol.dispose](): void {
    this.close();
  }

  /** Text for console.log(). */
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return `${this.constructor.name} { ${this.label}${this.open ? '' : ', closed'} }`;
  }

  /** Calls the verb that destroys the object. */
  protected abstract release(handle: number): void;

  /**
   * Registers a callback that runs once, right after close(), for example to close helper objects. Returns a function
   * that removes the callback.
   */
  onClose(callback: () => void): () => void {
    const entry = { callback };
    this.closeCallbacks ??= new Set();
    this.closeCallbacks.add(entry);
    return () => void this.closeCallbacks?.delete(entry);
  }

  /** Called once, after the object was closed. */
  protected released(): void {}

  /** Makes the object depend on `parent` instead of `former`. */
  protected replaceParent(parent: Resource, former: Resource): void {
    former.children.delete(this);
    parent.children.add(this);
    this.parents = this.parents.map((one) => (one === former ? parent : one));
  }

  protected closedError(): InvalidHandleError {
    return new InvalidHandleError(`${this.label} is closed`);
  }

  /** All dependent objects, in an order in which they can be closed. */
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

/** A resource that belongs to a context: every resource except the context itself. */
export interface Owned {
  readonly context: Resource;
}

/**
 * Checks that an argument is an open object of the right class and context.
 * @throws InvalidHandleError naming the argument and the value passed
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
      `${argument}: ${value.label} belongs to a different context than ${context.label}`,
    );
  }
  void value.handle;
  return value;
}

/**
 * Checks the arguments of connect() and listen(). The context may come from another copy of this package.
 * @throws InvalidArgumentError for anything but a context, such as the name of a device, and for options that are no object
 */
export function requireContext(verb: string, context: unknown, options: unknown): void {
  if ((context as Resource | undefined | null)?.kind !== 'Context') {
    throw new InvalidArgumentError(
      `${verb}: the first argument must be a context, as returned by openDevice(), got ${shown(context)}`,
    );
  }
  if (typeof options === 'object' && options !== null) return;
  throw new InvalidArgumentError(
    `${verb}: the second argument must be an object of options, such as { port: 18515 }, got ${shown(options)}`,
  );
}

function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (typeof value === 'number')
    return `${value}${value >> 27 > 0 && KIND_NAMES[value >> 27] ? ' (a handle, not an object)' : ''}`;
  return typeof value === 'object' ? (value.constructor?.name ?? 'an object') : `a ${typeof value}`;
}

/** Identifies a collected context in the report. */
export interface LeakRecord {
  label: string;
}

let reported = false;

const registry = new FinalizationRegistry<LeakRecord>((record) => {
  if (reported) return;
  reported = true;
  process.emitWarning(`the ${record.label} was never closed`, {
    code: 'ISO_LEAK',
    detail: 'Call context.close(): it closes all objects in order. Further leaks are not reported.',
  });
});

export function watchForLeak(context: object, record: LeakRecord): void {
  registry.register(context, record, record);
}

export function unwatchLeak(record: LeakRecord): void {
  registry.unregister(record);
}
