/**
 * Which hosts stand still and which tenants have died. Of a tenant that died, nothing reaches the device any more: its
 * queue pairs are reset, as by a kernel that cleans up after a process, and its policies' timers never fire. On a host that
 * stands still, timers fire when it goes on.
 */
import type { Interceptor } from '../../shim/compose.ts';
import type { World } from '../../sim/world.ts';
import { IBV_QP_STATE, IBV_QPS_RESET } from '../../verbs/constants.ts';
import { handleIndex } from '../../verbs/handles.ts';
import type { Provider } from '../../verbs/provider.ts';

/** An open context: whose it is, and its queue pairs. */
interface TenantContext {
  readonly host: string;
  readonly tenant: string;
  readonly qps: Set<number>;
  isDead: boolean;
}

export class Outages {
  private readonly world: World;
  private readonly contexts = new Map<number, TenantContext>();
  /** By protection domain. */
  private readonly byPd = new Map<number, TenantContext>();
  /** By index of the queue pair's handle. */
  private readonly byQp: (TenantContext | undefined)[] = [];
  /** By device: when it goes on. */
  private readonly stalledUntilNs = new Map<string, number>();
  private next: Provider | null = null;

  constructor(world: World) {
    this.world = world;
  }

  /** Ends the tenant's processes. */
  kill(tenant: string): void {
    for (const context of this.contexts.values()) {
      if (context.tenant !== tenant) continue;
      context.isDead = true;
      for (const qp of context.qps) this.next?.modifyQp(qp, { qpState: IBV_QPS_RESET }, IBV_QP_STATE);
    }
  }

  /** Stops the timers of a host until then. */
  stall(host: number, untilNs: number): void {
    const device = `sim${host}`;
    this.stalledUntilNs.set(device, Math.max(untilNs, this.stalledUntilNs.get(device) ?? 0));
  }

  /** The innermost interceptor of all hosts. */
  interceptor(): Interceptor {
    return { name: 'outages', wrap: (next) => this.wrap(next) };
  }

  private wrap(next: Provider): ReturnType<Interceptor['wrap']> {
    const { contexts, byPd, byQp } = this;
    this.next = next;
    const isDead = (qp: number) => byQp[handleIndex(qp)]?.isDead === true;
    return {
      openDevice: (host, options) => {
        const handle = next.openDevice(host, options);
        contexts.set(handle, { host, tenant: options?.tenant ?? '', qps: new Set(), isDead: false });
        return handle;
      },
      allocPd: (context) => {
        const pd = next.allocPd(context);
        const owner = contexts.get(context);
        if (owner !== undefined) byPd.set(pd, owner);
        return pd;
      },
      createQp: (pd, attr) => {
        const info = next.createQp(pd, attr);
        const owner = byPd.get(pd);
        owner?.qps.add(info.handle);
        byQp[handleIndex(info.handle)] = owner;
        return info;
      },
      modifyQp: (qp, attr, mask) => {
        if (!isDead(qp)) next.modifyQp(qp, attr, mask);
      },
      destroyQp: (qp) => {
        next.destroyQp(qp);
        byQp[handleIndex(qp)]?.qps.delete(qp);
        byQp[handleIndex(qp)] = undefined;
      },
      closeDevice: (context) => {
        next.closeDevice(context);
        contexts.delete(context);
      },
      postSend: (qp, ring, start, count) => (isDead(qp) ? count : next.postSend(qp, ring, start, count)),
      postRecv: (qp, ring, start, count) => (isDead(qp) ? count : next.postRecv(qp, ring, start, count)),
      sleep: (context, delayNs, keeps) =>
        next.sleep(context, delayNs, keeps).then(() => this.awake(next, context)),
    };
  }

  /** Resolves once the host of the context runs, and never for a dead context. */
  private async awake(next: Provider, handle: number): Promise<void> {
    const context = this.contexts.get(handle);
    if (context === undefined) return;
    if (context.isDead) await new Promise<never>(() => {});
    const leftNs = (this.stalledUntilNs.get(context.host) ?? 0) - this.world.nowNs;
    if (leftNs > 0) await next.sleep(handle, leftNs);
  }
}
