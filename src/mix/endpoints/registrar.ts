/** One thread of an application that registers and deregisters memory regions without pause. */
import { BUSY_UNTIL, type Core } from '../../sim/host/core.ts';
import type { Dispatcher } from '../dispatcher.ts';
import { END, type Meter, START } from '../meter.ts';
import type { App } from '../resolve.ts';
import type { Connector, TenantContext } from './connector.ts';
import type { MemoryPart } from './host-memory.ts';
import { type MemoryLayout, memoryLayoutOf } from './memory-layout.ts';
import { ACCESS } from './rings.ts';

/** The least time of a registration or deregistration, which is a system call. */
const LEAST_NS = 1000;

/** A registered region and its protection domain. */
interface Held {
  readonly pd: number;
  mr: number;
}

/** What runs an application's threads. */
interface Running {
  readonly dispatcher: Dispatcher;
  readonly connector: Connector;
  readonly meter: Meter;
  /** Its cores, one for each thread. */
  readonly cores: readonly Core[];
}

/**
 * Replaces its oldest region by a new one again and again. A deregistration is a command to the NIC, after which the host
 * releases the pages. To register them again, it pins them, which is followed by another command. The thread waits for all
 * of this.
 */
export class Registrar {
  private readonly app: App;
  private readonly home: TenantContext;
  private readonly memory: MemoryPart;
  private readonly layout: MemoryLayout;
  private readonly core: Core;
  private readonly dispatcher: Dispatcher;
  private readonly meter: Meter;
  private readonly held: Held[];
  /** The oldest region, which is replaced next. */
  private next = 0;
  private isReplacing = false;
  private startedNs = 0;
  private stopped = false;
  private readonly pages: number;
  private readonly step = () => this.run();

  constructor(app: App, home: TenantContext, memory: MemoryPart, core: Core, running: Running) {
    this.app = app;
    this.home = home;
    this.memory = memory;
    this.layout = memoryLayoutOf(app);
    this.core = core;
    this.dispatcher = running.dispatcher;
    this.meter = running.meter;
    const { pageBytes } = running.dispatcher.world.params;
    this.pages = Math.ceil(this.layout.regionBytes / pageBytes);
    this.held = Array.from({ length: app.memory?.regions ?? 1 }, (_, i) => {
      const pd = app.hasOwnPds ? home.provider.allocPd(home.context) : home.pd;
      return { pd, mr: this.register(pd, i) };
    });
  }

  /** Replaces regions from this time on. */
  start(timeNs: number): void {
    this.dispatcher.callAt(timeNs, this.step);
  }

  /** Registers and deregisters nothing more. */
  stop(): void {
    this.stopped = true;
  }

  /** Deregisters all regions. */
  close(): void {
    const { provider, pd } = this.home;
    this.stop();
    for (const one of this.held) {
      if (one.mr !== 0) provider.deregMr(one.mr);
      if (one.pd !== pd) provider.deallocPd(one.pd);
    }
  }

  private register(pd: number, index: number): number {
    const { memory, offset } = this.memory;
    const { ownRegions, regionStride, regionBytes } = this.layout;
    const at = offset + (index % ownRegions) * regionStride;
    return this.home.provider.regMr(pd, memory, at, regionBytes, ACCESS).handle;
  }

  private run(): void {
    const { core, dispatcher, app } = this;
    const nowNs = dispatcher.clock[0];
    if (this.stopped) return;
    // The core was stopped meanwhile, or a policy used it.
    if (core.times[BUSY_UNTIL] > nowNs) {
      dispatcher.callAt(core.times[BUSY_UNTIL], this.step);
      return;
    }
    if (this.isReplacing) this.finish(nowNs);
    else if (nowNs < app.stopNs) this.begin(nowNs);
  }

  /** Deregisters the oldest region; afterwards, its pages are released, and those of the new one pinned. */
  private begin(nowNs: number): void {
    const { held, next, meter, pages } = this;
    const { pinPageNs, unpinPageNs } = this.dispatcher.world.params;
    this.isReplacing = true;
    this.startedNs = nowNs;
    meter.posted++;
    meter.outstanding++;
    this.home.provider.deregMr(held[next].mr);
    held[next].mr = 0;
    this.continueAt(this.commandDoneNs(nowNs) + pages * (unpinPageNs + pinPageNs));
  }

  /** Registers the new region, and begins with the next one when the NIC has it. */
  private finish(nowNs: number): void {
    const { held, next, meter, dispatcher } = this;
    held[next].mr = this.register(held[next].pd, next);
    this.next = (next + 1) % held.length;
    this.isReplacing = false;
    const doneNs = this.commandDoneNs(nowNs);
    this.core.times[BUSY_UNTIL] = doneNs;
    dispatcher.callAt(doneNs, () => {
      meter.times[START] = this.startedNs;
      meter.times[END] = doneNs;
      meter.outstanding--;
      meter.complete(1);
      this.run();
    });
  }

  /** The time at which the NIC has executed a command that is given to it now. */
  private commandDoneNs(nowNs: number): number {
    const { hosts, params } = this.dispatcher.world;
    return Math.max(nowNs + LEAST_NS, hosts[this.app.host].commands.execute(params.mrCommandNs));
  }

  private continueAt(timeNs: number): void {
    this.core.times[BUSY_UNTIL] = timeNs;
    this.dispatcher.callAt(timeNs, this.step);
  }
}

/** Starts the threads of an application that registers memory. @param startNs by thread */
export function startRegistrars(
  app: App,
  running: Running,
  startNs: (thread: number) => number,
): Registrar[] {
  const { connector, cores } = running;
  const memory = connector.memory.allocate(app.host, memoryLayoutOf(app).bytes);
  const homes = Array.from({ length: app.contexts }, (_, i) =>
    connector.tenantContext(app.host, app.tenant, i),
  );
  const registrars = cores.map(
    (core, i) => new Registrar(app, homes[i % homes.length], memory, core, running),
  );
  for (const [i, registrar] of registrars.entries()) registrar.start(startNs(i));
  connector.atRelease(app, () => {
    for (const registrar of registrars) registrar.close();
    for (const home of homes) connector.closeIfUnused(home);
  });
  return registrars;
}
