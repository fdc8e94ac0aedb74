// @ts-nocheck
// Receiver-driven shares: the contexts that send to one receiver, from any host, share its link equally. A ruler defines
// the columns, and the agents of the hosts set the grants.
import { byContext, Throttle } from 'isoverbs/kit';
import { createCoordinatedShim, gidFromWords, gidToWords } from 'isoverbs/policies';
import { z } from 'zod';

const [ALL_GBPS, PIECE_BYTES, BURST_BYTES] = [1e5, 16384, 65536];
/** A context that sends nothing for this long is no longer a sender. Agents repeat their messages at this interval. */
const PERIOD_NS = 1e7;
/** Timer tokens below this belong to the throttle. Others end the period of a context. */
const PERIOD = 2 ** 30;
/** Messages of agents: how many contexts of one host, and how many of all hosts, send to the receiver. */
const [SENDING, SENDERS] = [1, 2];

/** The columns of a context. Its agent grants the rate, so the ruler has nothing to decide. */
const ruler = {
  name: 'receiver-shares',
  reports: [{ name: 'sending', unit: '0 or 1', min: 0, max: 1, default: 0 }],
  grants: [{ name: 'rateGbps', unit: 'Gbit/s', min: 0, max: ALL_GBPS, default: ALL_GBPS }],
  rules: z.object({}),
  begin(members) {
    const rate = members.grant('rateGbps');
    const rateGbps = (tenant) => rate.of(members.tenants.memberAt(members.tenants.firstOf(tenant)));
    return { decide() {}, describe: (tenant) => ({ rateGbps: rateGbps(tenant) }) };
  },
};

/** A host's agent: reports its senders to the receivers, and answers as a receiver. */
class Shares {
  receivers = new Map(); // by context of this host: the GIDs of its connection
  asked = new Map(); // by peer: the number of this host's senders, as last reported to it
  senders = new Map(); // by peer: how many of its contexts send here

  onStart(out) {
    this.members = out.members(ruler);
    this.sending = this.members.report('sending');
    this.rate = this.members.grant('rateGbps');
    out.timer(out.nowNs + PERIOD_NS, 0);
  }

  /** A context reports its connection. */
  onTold(member, words, out) {
    const [gid, fromGid] = [gidFromWords(words, 0), gidFromWords(words, 4)];
    if (gid !== null && fromGid !== null) this.receivers.set(member, { gid, fromGid });
    this.ask(out, false);
  }

  onLeft(member, out) {
    this.receivers.delete(member);
    this.ask(out, false);
  }

  onMembers = (out) => this.ask(out, false);

  onTimer(_token, out) {
    this.ask(out, true);
    out.timer(out.nowNs + PERIOD_NS, 0);
  }

  /** Tells each receiver how many contexts of this host send to it. */
  ask(out, isRepeat) {
    const counts = new Map([...this.asked.keys()].map((peer) => [peer, 0]));
    for (const [member, { gid, fromGid }] of this.receivers) {
      const peer = out.peerAt(gid, fromGid);
      if (peer >= 0) counts.set(peer, (counts.get(peer) ?? 0) + this.sending.of(member));
    }
    const before = this.asked;
    this.asked = counts;
    for (const [peer, count] of counts) {
      if (isRepeat || count !== before.get(peer)) out.send(peer, [SENDING, count]);
    }
  }

  onMessage(peer, [kind, count], out) {
    if (!(count >= 0 && count <= 1e6)) return;
    if (kind === SENDERS) this.grant(peer, count, out);
    if (kind !== SENDING) return;
    const isNews = this.senders.get(peer) !== count;
    this.senders.set(peer, count);
    for (const one of isNews ? this.senders.keys() : [peer]) this.answer(one, out);
  }

  /** A host is no longer there: neither as a sender, nor as a receiver that shares its link. */
  onPeer(peer, change, out) {
    if (change === 'up') return;
    this.asked.delete(peer);
    this.grant(peer, 0, out);
    if (!this.senders.delete(peer)) return;
    for (const one of this.senders.keys()) this.answer(one, out);
  }

  answer(peer, out) {
    out.send(peer, [SENDERS, [...this.senders.values()].reduce((sum, count) => sum + count, 0)]);
  }

  grant(peer, senders, out) {
    const linkGbps = this.members.linkGbps || ALL_GBPS;
    const rateGbps = senders === 0 ? ALL_GBPS : linkGbps / senders;
    for (const [member, { gid, fromGid }] of this.receivers) {
      if (out.peerAt(gid, fromGid) !== peer) continue;
      if (this.rate.set(member, rateGbps)) out.changed(member);
    }
  }
}

/** The part in each program: reports its contexts' receivers, and sends at the granted rates. */
class ReceiverShares {
  name = 'receiver-shares';
  needs = { wait: 'none' };
  slots = 16;
  crossChannel = true;
  members = []; // by context
  senders = []; // members by entity of the throttle

  constructor(coordinators) {
    const perNsOf = (entity) => this.senders[entity].columns.grants[0] / 8;
    const limits = { pieceBytes: PIECE_BYTES, burstBytes: BURST_BYTES };
    this.coordinators = coordinators;
    this.throttle = new Throttle({ ...limits, keyOf: byContext, perNsOf });
  }

  setup({ context }) {
    this.coordinators.govern(context, ruler, {});
    const columns = this.coordinators.page(context).columns(ruler);
    const member = { context, columns, isSending: false, entity: -1, line: null, receiver: null };
    this.members[context.index] = member;
    const onUp = (line) => {
      member.line = line;
      if (member.receiver !== null) line.tell(member.receiver);
    };
    this.coordinators.line(context, agents[0], { onUp });
  }

  onQp(qp, change, out) {
    const member = this.members[qp.context.index];
    if (change === 'created') {
      member.entity = this.throttle.join(qp, out);
      this.senders[member.entity] = member;
    }
    if (change === 'destroyed') this.throttle.leave(qp, out);
    if (change !== 'state' || qp.dgid === '') return;
    // Only the newest connection is reported.
    member.receiver = [...gidToWords(qp.dgid), ...gidToWords(qp.sgid)];
    member.line?.tell(member.receiver);
  }

  onload(qp, words, start, count) {
    const member = this.members[qp.context.index];
    return member.isSending ? this.throttle.onload(qp, words, start, count) : 0;
  }

  feed(qp, out) {
    const member = this.members[qp.context.index];
    if (member.columns.reports[0] === 0) this.report(member, 1, out);
    member.isSending = true;
    this.throttle.feed(qp, out);
  }

  report({ context, columns }, sending, out) {
    const nowNs = out.nowNs(context);
    columns.reports[0] = sending;
    this.coordinators.decide(context, ruler, nowNs);
    this.coordinators.announce(context.device);
    if (sending === 1) out.timer(context, nowNs + PERIOD_NS, PERIOD + context.index);
  }

  onTimer(token, out) {
    if (token < PERIOD) return this.throttle.serve(token, out);
    const member = this.members[token - PERIOD];
    this.report(member, member.isSending ? 1 : 0, out);
    member.isSending = false;
  }

  onGrants({ index }, out) {
    const { entity, context } = this.members[index];
    if (entity < 0) return;
    this.throttle.fill(entity, context, out);
    this.throttle.serve(entity, out);
  }
}

/** A daemon loads these when its configuration names this module. */
export const rulers = [ruler];
export const agents = [{ name: 'receiver-shares', create: () => new Shares() }];

export default () =>
  createCoordinatedShim('receiver-shares', (coordinators) => new ReceiverShares(coordinators));
