/** Dispatches each event to the part of the simulation that handles it. */
import * as C from '../verbs/constants.ts';
import { onDeparted, setPaused } from './egress/departures.ts';
import { onRate } from './egress/rate-limiters.ts';
import { onPacerDue, onTagsDue } from './egress/rate-pacing.ts';
import { admitPackets } from './egress/round.ts';
import type { StoppablePort } from './egress/stoppable-port.ts';
import * as K from './kernel/event-kinds.ts';
import { notified } from './network/dcqcn.ts';
import type { SwitchNetwork } from './network/switches.ts';
import { arrive, deliver, offCable, receive } from './nic/arrivals.ts';
import { countCompletion, onPeriodEnd } from './nic/event-moderation.ts';
import { allowFetch, wqesArrived } from './nic/wqe-fetch.ts';
import { onAck, onTimeout } from './transport/acknowledgements.ts';
import { failQp, flush, flushSends } from './transport/failure.ts';
import type { Qp } from './transport/qp.ts';
import * as Q from './transport/qp.ts';
import { tryStart } from './transport/request-start.ts';
import { onPayload, onStep } from './transport/requester.ts';
import { onResponsePayload, onResponseStep } from './transport/responder.ts';
import { wakeWaiters } from './transport/wait.ts';
import type { World } from './world.ts';

// V8 folds constants of the module itself into the code, but loads imported ones at each use.
const {
  EV_ARRIVE,
  EV_LATE,
  EV_RECEIVE,
  EV_COMPLETION,
  EV_ROOM,
  EV_DEPART,
  EV_WIRE,
  EV_ACTOR,
  EV_UNIT,
  EV_TAGS,
  EV_HOP,
  EV_SWITCH_OUT,
  EV_PAUSE,
  EV_COPY,
  EV_STEP,
  EV_ACK,
  EV_DOORBELL,
  EV_FETCHED,
  EV_PAYLOAD,
  EV_RESPONSE_PAYLOAD,
  EV_RESPONSE_STEP,
  EV_TIMEOUT,
  EV_PACER,
  EV_CNP,
  EV_RATE,
} = K;
const { ROLE_REQUEST } = Q;

export function dispatch(world: World, kind: number, a: number, b: number, c: number): void {
  switch (kind) {
    case EV_ARRIVE:
      offCable(world, a, world.ports[a].arrived(world.events));
      return;
    case EV_ROOM:
      world.ports[a].waiting = false;
      admitPackets(world, world.ports[a], 0);
      return;
    case EV_RECEIVE:
      receive(world, world.qps[a]);
      return;
    case EV_UNIT:
      stepDone(world, a, b, c);
      return;
    case EV_COMPLETION:
      reveal(world, a);
      return;
    case EV_LATE:
      deliver(world, a);
      return;
    case EV_DEPART:
      onDeparted(world, world.ports[a] as StoppablePort);
      return;
    case EV_WIRE:
      world.kick(world.ports[a]);
      return;
    case K.EV_CALL:
      world.observable++;
      world.hooks.call(a);
      return;
    case K.EV_ALARM:
      world.observable++;
      world.hooks.alarm(a);
      return;
    case EV_ACTOR:
      world.hooks.actor(a, b);
      return;
    case K.EV_MODERATION:
      if (world.cqs[a] !== undefined) onPeriodEnd(world, world.cqs[a], b);
      return;
    case K.EV_CQ_OVERFLOW:
      overflow(world, a, b, c);
      return;
    case EV_TAGS:
      onTagsDue(world, a);
      return;
    case EV_HOP:
    case EV_SWITCH_OUT:
    case EV_PAUSE:
    case EV_COPY:
      dispatchSwitch(world, kind, world.switchNetwork as SwitchNetwork, a, b);
      return;
  }
  const qp = world.qps[a];
  if (qp !== undefined && !world.hosts[qp.host].dead) dispatchQp(world, kind, qp, b, c);
}

function stepDone(world: World, host: number, unit: number, generation: number): void {
  const sender = world.units[host].stepDone(unit, generation);
  if (sender === null || world.hosts[host].dead) return;
  if (sender.role === ROLE_REQUEST) onStep(world, sender.qp);
  else onResponseStep(world, sender.qp);
}

/** Dispatches an event of one queue pair. Events from before a reset or rewind are ignored. */
function dispatchQp(world: World, kind: number, qp: Qp, b: number, c: number): void {
  switch (kind) {
    case EV_STEP:
      if (b === qp.token) onStep(world, qp);
      return;
    case EV_ACK:
      if (c === qp.epoch) onAck(world, qp, b & 0xffffff, b >>> 24);
      return;
    case EV_DOORBELL:
      // Flushed requests are not fetched.
      if (c !== qp.epoch || qp.state >= C.IBV_QPS_SQE || ((b - qp.fetchLimit) | 0) <= 0) return;
      allowFetch(world, qp, b);
      tryStart(world, qp);
      return;
    case EV_FETCHED:
      if (c !== qp.epoch || qp.state >= C.IBV_QPS_SQE || ((b - qp.available) | 0) <= 0) return;
      wqesArrived(world, qp, b);
      tryStart(world, qp);
      return;
    case EV_PAYLOAD:
      if (b === qp.token) onPayload(world, qp);
      return;
    case EV_RESPONSE_PAYLOAD:
      if (b === qp.respToken) onResponsePayload(world, qp);
      return;
    case EV_RESPONSE_STEP:
      if (b === qp.respToken) onResponseStep(world, qp);
      return;
    case EV_TIMEOUT:
      onTimeout(world, qp);
      return;
    case K.EV_RNR:
      if (c !== qp.epoch || !qp.rnrWait) return;
      qp.rnrWait = false;
      tryStart(world, qp);
      return;
    case K.EV_FLUSH:
      if (c !== qp.epoch) return;
      if (qp.state === C.IBV_QPS_ERR) flush(world, qp);
      else if (qp.state === C.IBV_QPS_SQE) flushSends(world, qp);
      return;
    case EV_PACER:
      if (c === qp.epoch) onPacerDue(world, qp, b);
      return;
    case EV_CNP:
      if (c === qp.epoch) notified(world, qp);
      return;
    case EV_RATE:
      if (c === qp.epoch) onRate(world, qp, b);
  }
}

/** Dispatches an event of a switch or of a cable leaving one. */
function dispatchSwitch(
  world: World,
  kind: number,
  switchNetwork: SwitchNetwork,
  a: number,
  b: number,
): void {
  switch (kind) {
    case EV_HOP: {
      const p = switchNetwork.hop(a);
      if (p >= 0) arrive(world, p);
      return;
    }
    case EV_SWITCH_OUT:
      switchNetwork.departed(a);
      return;
    case EV_PAUSE: {
      const { peer, host } = switchNetwork.ports[a];
      if (peer !== null) switchNetwork.setPaused(peer, b === 1);
      else setPaused(world, host, b === 1);
      return;
    }
    case EV_COPY:
      arrive(world, a);
  }
}

/**
 * A lost completion makes the queue unusable, and with it every queue pair that completes there: at once those that were
 * created with it, and the others, such as an XRC_RECV, when they lose a completion themselves.
 */
function overflow(world: World, id: number, qpn: number, epoch: number): void {
  const cq = world.cqs[id];
  if (cq === undefined) return;
  if (!cq.hasFailed) {
    cq.hasFailed = true;
    world.raise(C.IBV_EVENT_CQ_ERR, cq);
    for (const qp of [...cq.qps]) failFatally(world, qp);
  }
  const qp = world.qps[qpn];
  if (qp !== undefined && qp.epoch === epoch && qp.state !== C.IBV_QPS_ERR) failFatally(world, qp);
}

function failFatally(world: World, qp: Qp): void {
  world.raise(C.IBV_EVENT_QP_FATAL, qp);
  failQp(world, qp);
}

function reveal(world: World, id: number): void {
  const cq = world.cqs[id];
  if (cq === undefined) return;
  const wanted = cq.reveal();
  const event = wanted && (cq.moderation === null || countCompletion(world, cq, cq.moderation));
  world.observable++;
  if (cq.waiters.length > 0) wakeWaiters(world, cq);
  if (event) world.hooks.completionEvent(cq);
  if (cq.actor >= 0) world.hooks.actor(cq.actor, 0);
}
