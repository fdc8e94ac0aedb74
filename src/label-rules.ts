/**
 * Labels by configuration: rules give labels to the contexts of tenants and programs, and to connections by the peer's
 * address or by port. What a program sets itself takes precedence.
 */
import { z } from 'zod';
import { groupWeights, weight } from './daemon/weights.ts';
import type { Interceptor } from './shim/compose.ts';
import { IBV_QP_AV } from './verbs/constants.ts';
import { isGroup, LABEL_BITS, type Labels, type QpLabels, TRAFFIC_NAMES } from './verbs/labels.ts';
import { addressOfGid, fits, plainAddress } from './verbs/patterns.ts';
import type { PeerName, Provider } from './verbs/provider.ts';
import { maskOf } from './verbs/qp-state.ts';
import type { OpenOptions, QpAttr, QpInitAttr } from './verbs/types.ts';

const text = z.string().min(1);

const ruleSchema = z
  .strictObject({
    match: z
      .strictObject({
        tenant: text.optional(),
        command: text.optional(),
        address: text.optional(),
        port: z.number().int().min(1).max(65535).optional(),
      })
      .default({}),
    weight: weight.optional(),
    qpWeight: weight.optional(),
    group: z
      .custom<string>(isGroup, { error: 'must be a name of at most 64 printable characters' })
      .optional(),
    traffic: z.enum(TRAFFIC_NAMES).optional(),
    groups: groupWeights.optional(),
  })
  .refine(({ match, ...labels }) => Object.keys(labels).length > 0, {
    error:
      'sets no label; the labels are weight, qpWeight, group and traffic, and groups sets weights of groups',
  })
  .refine((rule) => rule.weight === undefined || !isOfConnections(rule), {
    error:
      "'weight' belongs to the tenant, not to its connections: use 'qpWeight', or match by tenant or command",
  })
  .refine((rule) => rule.groups === undefined || !isOfConnections(rule), {
    error: "'groups' belongs to the tenant, not to its connections: match by tenant or command",
  });

/** The rules of a configuration file. */
export const labelRulesSchema = z.array(ruleSchema);

/** A rule. All its conditions must match; `*` in a text matches any text. */
export type LabelRule = z.infer<typeof ruleSchema>;

/** Whether the rule concerns single connections. */
function isOfConnections({
  match: { address, port },
}: {
  match: { address?: string; port?: number };
}): boolean {
  return address !== undefined || port !== undefined;
}

/** The labels of several rules: each label is that of the first rule that sets it. */
function labelsOf(rules: readonly LabelRule[]): Partial<Labels> {
  const first = Object.assign({}, ...[...rules].reverse()) as Partial<LabelRule>;
  const { weight, qpWeight, group, traffic } = first;
  return {
    ...(weight !== undefined && { weight }),
    ...(qpWeight !== undefined && { qpWeight }),
    ...(group !== undefined && { group }),
    ...(traffic !== undefined && { traffic: TRAFFIC_NAMES.indexOf(traffic) }),
  };
}

/** The weights of groups by several rules: each weight is that of the first rule that sets it. */
function groupsOf(rules: readonly LabelRule[]): Record<string, number> {
  return Object.assign({}, ...[...rules].reverse().map(({ groups }) => groups));
}

/** A queue pair that rules may label once its peer is known. */
interface Connectable {
  /** Rules for its tenant and program. */
  readonly rules: readonly LabelRule[];
  /** Labels that the program has set, as a mask. */
  ownMask: number;
  /** The peer's address by the connection helper or rdma_cm, and the ports. */
  name: PeerName | null;
  /** The address in the peer's GID; '' if unknown. */
  gidAddress: string;
}

/** Gives labels to the contexts and queue pairs of one provider. */
class RuledLabels {
  private readonly next: Provider;
  private readonly rules: readonly LabelRule[];
  /** The rules for connections of each protection domain and XRC domain. */
  private readonly byContext = new Map<number, readonly LabelRule[]>();
  private readonly byDomain = new Map<number, readonly LabelRule[]>();
  private readonly qps = new Map<number, Connectable>();

  constructor(next: Provider, rules: readonly LabelRule[]) {
    this.next = next;
    this.rules = rules;
  }

  verbs(): ReturnType<Interceptor['wrap']> {
    const { next } = this;
    const openDevice: Provider['openDevice'] = (name, options) => this.openDevice(name, options);
    if (!this.rules.some(isOfConnections)) return { openDevice };
    return {
      openDevice,
      closeDevice: (context) => {
        next.closeDevice(context);
        this.byContext.delete(context);
      },
      allocPd: (context) => this.adopt(context, next.allocPd(context)),
      openXrcd: (context) => this.adopt(context, next.openXrcd(context)),
      deallocPd: (pd) => {
        next.deallocPd(pd);
        this.byDomain.delete(pd);
      },
      closeXrcd: (xrcd) => {
        next.closeXrcd(xrcd);
        this.byDomain.delete(xrcd);
      },
      createQp: (pd, attr) => this.createQp(pd, attr),
      modifyQp: (qp, attr, mask) => this.modifyQp(qp, attr, mask),
      namePeer: (qp, name) => this.namePeer(qp, name),
      destroyQp: (qp) => {
        next.destroyQp(qp);
        this.qps.delete(qp);
      },
    };
  }

  private openDevice(name: string, options: Parameters<Provider['openDevice']>[1]): number {
    const tenant = options?.tenant ?? '';
    const rules = this.rules.filter(({ match }) => fits(match.tenant, tenant));
    const ofContexts = rules.filter((rule) => !isOfConnections(rule));
    const ruled = { labels: labelsOf(ofContexts), groups: groupsOf(ofContexts) };
    const context = this.next.openDevice(name, withRuled(options, ruled));
    this.byContext.set(context, rules.filter(isOfConnections));
    return context;
  }

  private adopt(context: number, domain: number): number {
    const rules = this.byContext.get(context) ?? [];
    if (rules.length > 0) this.byDomain.set(domain, rules);
    return domain;
  }

  private createQp(pd: number, attr: QpInitAttr) {
    const info = this.next.createQp(pd, attr);
    const rules = this.byDomain.get(pd) ?? this.byDomain.get(attr.xrcd ?? 0);
    if (rules === undefined) return info;
    const { qpWeight, group, traffic } = attr;
    const ownMask = maskOf({ qpWeight, group, traffic });
    this.qps.set(info.handle, { rules, ownMask, name: null, gidAddress: '' });
    return info;
  }

  private modifyQp(handle: number, attr: QpAttr, mask: number): void {
    this.next.modifyQp(handle, attr, mask);
    const qp = this.qps.get(handle);
    if (qp === undefined) return;
    qp.ownMask |= mask & LABEL_BITS;
    if ((mask & IBV_QP_AV) === 0) return;
    qp.gidAddress = addressOfGid(attr.ah?.dgid ?? '');
    this.label(handle, qp);
  }

  private namePeer(handle: number, name: PeerName): void {
    this.next.namePeer?.(handle, name);
    const qp = this.qps.get(handle);
    if (qp === undefined) return;
    qp.name = { ...name, address: plainAddress(name.address) };
    this.label(handle, qp);
  }

  private label(handle: number, { rules, ownMask, name, gidAddress }: Connectable): void {
    const isAt = (address: string) => fits(address, name?.address ?? '') || fits(address, gidAddress);
    const matching = rules.filter(
      ({ match: { address, port } }) =>
        (address === undefined || isAt(address)) &&
        (port === undefined || name?.ports.includes(port) === true),
    );
    const labels: QpLabels = labelsOf(matching);
    const mask = maskOf(labels) & ~ownMask;
    if (mask !== 0) this.next.modifyQp(handle, labels, mask);
  }
}

/** What the program gives itself takes precedence. What is no object gets the device's own error. */
function withRuled(
  options: OpenOptions | undefined,
  ruled: Required<Pick<OpenOptions, 'labels' | 'groups'>>,
): OpenOptions | undefined {
  let result = options;
  for (const key of ['labels', 'groups'] as const) {
    const own: unknown = options?.[key] ?? {};
    const isRuled = Object.keys(ruled[key]).length > 0 && options?.[key] !== null && typeof own === 'object';
    if (isRuled) result = { ...result, [key]: { ...ruled[key], ...(own as object) } };
  }
  return result;
}

/** An interceptor that gives labels by rules. @param command the program's command line, joined by spaces */
export function labelRules(rules: readonly LabelRule[], command: string): Interceptor {
  const own = rules.filter(({ match }) => fits(match.command, command));
  return { name: 'labels', wrap: (next) => new RuledLabels(next, own).verbs() };
}
