/** Carries out the script of a mix. */

import type { Coordinators } from '../coordinators.ts';
import type { Dispatcher } from '../dispatcher.ts';
import type { Connector } from '../endpoints/connector.ts';
import type { Receiver } from '../endpoints/receiver.ts';
import type { Sender } from '../endpoints/sender.ts';
import type { Meter } from '../meter.ts';
import type { App } from '../resolve.ts';
import type { ScriptAction, SwitchAction } from '../spec.ts';
import type { Outages } from './outages.ts';
import { type ResolvedStep, type Script, switchedHosts } from './script.ts';

/** An application with what runs it. */
export interface RunningApp {
  readonly app: App;
  readonly meter: Meter;
  readonly senders: readonly Sender[];
  readonly receivers: readonly Pick<Receiver, 'stop'>[];
}

export interface ScriptStage {
  readonly dispatcher: Dispatcher;
  readonly connector: Connector;
  readonly outages: Outages;
  readonly coordinators: Coordinators;
  readonly apps: readonly RunningApp[];
  /** From the end of a tenant's processes until the coordinator takes them off its list. */
  readonly livenessNs: number;
}

export class ScriptRunner {
  private readonly stage: ScriptStage;
  private readonly steps: readonly ResolvedStep[];
  /** By number from the end of the script on: applications that were killed, to be taken off the list. */
  private readonly removals: (readonly RunningApp[])[] = [];

  constructor(stage: ScriptStage, { steps }: Script) {
    this.stage = stage;
    this.steps = steps;
    const { dispatcher } = stage;
    dispatcher.onStep = (step) => this.run(step);
    for (const [i, { atNs }] of steps.entries()) dispatcher.stepAt(atNs, i);
  }

  private run(step: number): void {
    const { steps, removals, stage } = this;
    if (step >= steps.length) {
      for (const one of removals[step - steps.length]) stage.connector.release(one.app);
      return;
    }
    const { action } = steps[step];
    const apps = steps[step].apps.map((i) => stage.apps[i]);
    if (action.kind === 'set') for (const one of apps) this.set(one, action);
    else if (action.kind === 'close') for (const one of apps) this.close(one);
    else if (action.kind === 'kill') this.kill(action.tenant, apps);
    else if (action.kind === 'stall') this.stall(action.host, action.stallNs);
    else this.switch(action);
  }

  private switch(action: SwitchAction): void {
    const { coordinators } = this.stage;
    for (const host of switchedHosts(action, coordinators.hosts)) {
      if (action.kind === 'agent') coordinators.setAgentsDown(host, !action.isUp);
      else if (action.isUp) coordinators.bringUp(host);
      else coordinators.takeDown(host);
    }
  }

  private set({ app, senders }: RunningApp, action: Extract<ScriptAction, { kind: 'set' }>): void {
    if ('groupWeight' in action) this.stage.connector.setGroupWeight(app, action.groupWeight);
    else if ('labels' in action) this.stage.connector.setLabels(app, action.labels);
    else for (const sender of senders) sender.limitRate(action.rateGbps);
  }

  /** Closes it when nothing is outstanding. It posts nothing any more, because its time is over (scriptOf). */
  private close(one: RunningApp): void {
    const { app, meter, senders } = one;
    const closeIfDrained = () => {
      if (meter.outstanding > 0) return;
      stop(one);
      this.stage.connector.release(app);
    };
    for (const sender of senders) sender.onPolled = closeIfDrained;
    closeIfDrained();
  }

  /** The processes end at once; their shims' bookkeeping remains until the coordinator misses them. */
  private kill(tenant: string, apps: readonly RunningApp[]): void {
    const { dispatcher, outages, livenessNs } = this.stage;
    for (const one of apps) stop(one);
    outages.kill(tenant);
    this.removals.push(apps);
    dispatcher.stepAt(dispatcher.clock[0] + livenessNs, this.steps.length + this.removals.length - 1);
  }

  private stall(host: number, stallNs: number): void {
    const { dispatcher, outages, coordinators } = this.stage;
    const nowNs = dispatcher.clock[0];
    outages.stall(host, nowNs + stallNs);
    coordinators.stall(host, stallNs);
    for (const [i, core] of dispatcher.cores.entries()) {
      if (dispatcher.coreHosts[i] === host) core.stall(stallNs);
    }
  }
}

function stop({ senders, receivers }: RunningApp): void {
  for (const one of [...senders, ...receivers]) one.stop();
}
