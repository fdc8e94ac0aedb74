/**
 * The rules of one device's rulers. They belong to the device: its first context sets them, and all others must have the
 * same, because a ruler decides for all members at once.
 */
import type { ContextView } from '../shim/policy.ts';
import { ConfigError, shown } from '../verbs/errors.ts';
import type { NicFacts } from '../verbs/nic.ts';
import type { Ruler } from './ruler.ts';

type Options = Readonly<Record<string, unknown>>;

/** How the options of a policy become rules. */
export type Derive<Given extends object, Rules> = (options: Given) => Rules;

interface RuleSet {
  options: Options;
  rules: unknown;
  /** The contexts that have these rules. */
  readonly contexts: Set<ContextView>;
}

export class DeviceRules {
  private readonly device: string;
  private readonly isMember: (context: ContextView) => boolean;
  private readonly byRuler = new Map<string, RuleSet>();

  /** @param isMember whether a context is open; rules last as long as one that has them */
  constructor(device: string, isMember: (context: ContextView) => boolean) {
    this.device = device;
    this.isMember = isMember;
  }

  /** The rules of a ruler; undefined: none are set. */
  of<Rules>({ name }: Ruler<Rules>): Rules | undefined {
    // A ruler's own rules are stored under its name.
    return this.byRuler.get(name)?.rules as Rules | undefined;
  }

  /**
   * Sets the rules for the first context, and requires the same of all others.
   * @throws ConfigError naming the options that differ
   */
  set<Given extends object, Rules>(
    context: ContextView,
    { name }: Ruler<Rules>,
    given: Given,
    derive: Derive<Given, Rules>,
  ): void {
    // A copy, because a policy may change its options at run time.
    const options: Options = { ...(given as Options) };
    const rules = derive(given);
    const known = this.byRuler.get(name);
    for (const one of known?.contexts ?? []) if (!this.isMember(one)) known?.contexts.delete(one);
    if (known === undefined || known.contexts.size === 0) {
      this.byRuler.set(name, { options, rules, contexts: new Set([context]) });
      return;
    }
    if (!isSame(known.rules, rules)) {
      const deciding = (key: string) =>
        !isSame(derive({ ...known.options, [key]: options[key] } as unknown as Given), known.rules);
      const keys = Object.keys({ ...known.options, ...options });
      const different = keys.filter((key) => !isSame(known.options[key], options[key]) && deciding(key));
      if (different.length > 0) throw this.conflict(name, different, known.options, options);
    }
    known.contexts.add(context);
  }

  /** Changes the rules for all contexts of the device. */
  change<Given extends object, Rules>(
    { name }: Ruler<Rules>,
    given: Given,
    derive: Derive<Given, Rules>,
  ): void {
    const known = this.byRuler.get(name);
    if (known === undefined) return;
    known.options = { ...(given as Options) };
    known.rules = derive(given);
  }

  private conflict(ruler: string, keys: readonly string[], known: Options, given: Options): ConfigError {
    const values = (options: Options) => keys.map((key) => `${key}=${textOf(options[key])}`).join(', ');
    return new ConfigError(
      `${keys.join(', ')}: this context has ${values(given)}, and other contexts of ${this.device} have ${values(known)}; ` +
        `the rules of '${ruler}' belong to the device, so give all its contexts the same values`,
    );
  }
}

/** The rules that a ruler makes of options, for a NIC if it is known. @throws ConfigError */
export function parseRules<Rules>(ruler: Ruler<Rules>, options: object, nic: NicFacts | null = null): Rules {
  const schema = nic === null ? ruler.rules : (ruler.rulesOn?.(nic) ?? ruler.rules);
  const checked = schema.safeParse(options);
  if (checked.success) return checked.data;
  const [{ path, message }] = checked.error.issues;
  throw new ConfigError(`${[ruler.name, ...path].join('.')}: ${message}`);
}

const textOf = (value: unknown) => (typeof value === 'object' ? JSON.stringify(value) : shown(value));

/** Whether two values have the same content. */
function isSame(one: unknown, other: unknown): boolean {
  if (Object.is(one, other)) return true;
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return false;
  if (one instanceof Map && other instanceof Map) {
    return one.size === other.size && [...one].every(([key, value]) => isSame(value, other.get(key)));
  }
  const [some, others] = [one as Options, other as Options];
  return Object.keys({ ...some, ...others }).every((key) => isSame(some[key], others[key]));
}
