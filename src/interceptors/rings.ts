/** Rings by handle, for interceptors that read what is posted or write what is polled. */
import type { Provider, RingInfo, Verbs } from '../verbs/provider.ts';

/** A ring and its memory as words. */
export interface KnownRing {
  readonly info: RingInfo;
  readonly words: Uint32Array;
}

/** The rings of one provider, of both kinds. */
export class Rings {
  private readonly known = new Map<number, KnownRing>();

  /** The verbs that tell of them. */
  verbs(next: Provider): Pick<Verbs, 'createWrRing' | 'createWcRing' | 'destroyRing'> {
    return {
      createWrRing: (capacity, sges, inlineBytes) => this.add(next.createWrRing(capacity, sges, inlineBytes)),
      createWcRing: (capacity) => this.add(next.createWcRing(capacity)),
      destroyRing: (ring) => {
        next.destroyRing(ring);
        this.known.delete(ring);
      },
    };
  }

  /** The ring with this handle, if it is open. */
  get(handle: number): KnownRing | undefined {
    return this.known.get(handle);
  }

  private add(info: RingInfo): RingInfo {
    this.known.set(info.handle, { info, words: new Uint32Array(info.memory) });
    return info;
  }
}
