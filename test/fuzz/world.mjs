// @ts-nocheck
/** The state of a fuzzing run: handles of all kinds, live or closed, rings, and memory. */
import { junk } from './random.mjs';

const HEADER_WORDS = 16;
const SLOT_WORDS = 16;
const MAX_STALE = 256;

/** Opcodes of ibv_wr_opcode, those of the shim, and unknown ones. */
const OPCODES = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 31, 32, 64, 65, 255];
const [BIND_MW, LOCAL_INV] = [8, 7];

export class World {
  constructor(random) {
    this.random = random;
    this.live = new Map();
    this.stale = [];
    /** Handle -> words of a ring. */
    this.rings = new Map();
    /** Handle -> lkey, rkey, addr, lengthBytes. */
    this.mrs = new Map();
    /** ArrayBuffers that were registered and may be detached. */
    this.foreign = [];
    /** Arguments of attachMcast calls. */
    this.groups = [];
    /** Identifiers of connection requests that a listener received, and their channels. */
    this.offered = new Map();
    /** Arguments of joinMulticast calls. */
    this.joined = [];
    this.call = null;
  }

  all(kind) {
    let list = this.live.get(kind);
    if (list === undefined) {
      list = [];
      this.live.set(kind, list);
    }
    return list;
  }

  add(kind, handle) {
    this.all(kind).push(handle);
  }

  remove(kind, handle) {
    const list = this.all(kind);
    const at = list.indexOf(handle);
    if (at < 0) return;
    list.splice(at, 1);
    this.rings.delete(handle);
    this.mrs.delete(handle);
    if (this.stale.length < MAX_STALE) this.stale.push(handle);
    else this.stale[this.random.below(MAX_STALE)] = handle;
  }

  /**
   * Usually a live handle of the kind; otherwise a stale handle, one of another kind, or a number that is not a handle.
   */
  handle(kind) {
    const { random } = this;
    const list = this.all(kind);
    if (list.length > 0 && random.chance(0.92)) return random.pick(list);
    return this.badHandle();
  }

  /** The same for arguments that are words. */
  badHandle() {
    const { random } = this;
    if (this.stale.length > 0 && random.chance(0.4)) return random.pick(this.stale);
    const others = this.all(random.pick([...this.live.keys(), 'pd']));
    if (others.length > 0 && random.chance(0.5)) return random.pick(others);
    return random.pick([0, random.u32(), (random.below(16) << 27) | random.below(4), 0xffffffff]);
  }

  /** Fills a ring's slot and its extension with what a batch might have written, or with random words. */
  scribble(handle) {
    const ring = this.rings.get(handle);
    if (ring === undefined || ring.words.length === 0) return;
    const { random } = this;
    const { words, capacity, extBytes } = ring;
    const index = random.below(capacity);
    const at = HEADER_WORDS + index * SLOT_WORDS;
    for (let i = 0; i < SLOT_WORDS; i++) words[at + i] = this.#anyWord();
    const ext = HEADER_WORDS + capacity * SLOT_WORDS + (index * extBytes) / 4;
    for (let i = 0; i < extBytes / 4; i++) words[ext + i] = this.#anyWord();
    if (random.chance(0.9)) this.#shape(words, at);
  }

  #anyWord() {
    const { random } = this;
    const kind = random.below(8);
    if (kind < 3) return random.word();
    if (kind === 3) return this.handle(random.pick(['ah', 'mw', 'mr', 'srq', 'qp']));
    const [mr] = this.#anyMr();
    return mr === undefined ? random.u32() : random.pick([mr.lkey, mr.rkey, mr.addr >>> 0, mr.lengthBytes]);
  }

  #anyMr() {
    const list = this.all('mr');
    if (list.length === 0) return [undefined, 0];
    const handle = this.random.pick(list);
    return [this.mrs.get(handle), handle];
  }

  /** Turns the words into a request that is probably valid. */
  #shape(words, at) {
    const { random } = this;
    const opcode = random.pick(OPCODES);
    const inline = random.chance(0.1);
    const flags = (random.chance(0.9) ? random.below(8) : random.below(256)) | (inline ? 8 : 0);
    const atomic = opcode === 5 || opcode === 6;
    let sges = random.pick([0, 1, 1, 1, 2, 2, 3, 5, 33, 65535]);
    if (inline || opcode === BIND_MW || opcode === LOCAL_INV) sges = random.chance(0.9) ? 0 : sges;
    if (atomic && random.chance(0.8)) sges = 1;
    words[at + 2] = opcode | (flags << 8) | (sges << 16);
    if (random.chance(0.5)) words[at + 4] = this.handle('ah');
    const [mr, handle] = this.#anyMr();
    for (let i = 0; i < 2 && mr !== undefined; i++) {
      const sge = at + 8 + i * 4;
      words[sge] = mr.addr >>> 0;
      words[sge + 1] = Math.floor(mr.addr / 2 ** 32);
      words[sge + 2] = atomic ? 8 : random.below(4096);
      words[sge + 3] = mr.lkey;
    }
    if (atomic && random.chance(0.8)) words[at + 4] &= ~7;
    if (inline) words[at + 10] = random.chance(0.9) ? random.below(300) : random.word();
    if (opcode === BIND_MW) this.#shapeBind(words, at, mr, handle);
  }

  #shapeBind(words, at, mr, handle) {
    const { random } = this;
    words[at + 8] = this.handle('mw');
    const none = mr === undefined || random.chance(0.2);
    words[at + 9] = none ? 0 : handle;
    words[at + 10] = none ? 0 : mr.addr >>> 0;
    words[at + 11] = none ? 0 : Math.floor(mr.addr / 2 ** 32);
    words[at + 12] = none || random.chance(0.2) ? 0 : random.below(mr.lengthBytes * 1.1);
    words[at + 13] = random.chance(0.05) ? random.word() : 0;
  }

  /** Points the call block at an object, a ring and some of its slots. */
  aim(kind, ringKind) {
    const { random, call } = this;
    const ring = this.handle(ringKind);
    const capacity = this.rings.get(ring)?.capacity ?? 8;
    call[0] = this.handle(kind);
    call[1] = ring;
    call[2] = random.chance(0.95) ? random.below(capacity) : random.word();
    call[3] = random.chance(0.95) ? random.below(capacity - Math.min(call[2], capacity) + 1) : random.word();
    for (let i = 1 + random.below(4); i > 0 && kind !== 'cq'; i--) this.scribble(ring);
  }

  /** The argument, or occasionally a random value. */
  maybe(value) {
    return this.random.chance(0.03) ? junk(this.random) : value;
  }
}
