/**
 * ECN marks of a switch (RED on the length that the egress queue has when a packet arrives, as DCQCN's congestion
 * point): none up to Kmin, from there a probability that grows to Pmax at Kmax, and all beyond.
 */

import { RandomStream } from '../kernel/random.ts';
import type { NicParams } from '../profile/params.ts';

const TWO32 = 4294967296;

export class EcnMarker {
  private readonly kminBytes: number;
  private readonly kmaxBytes: number;
  /** Probability for each byte above Kmin, times 2^32. */
  private readonly slope: number;
  private readonly random: RandomStream;

  constructor(params: Readonly<NicParams>, seed: number, port: number) {
    this.kminBytes = params.ecnKminBytes;
    this.kmaxBytes = Math.max(params.ecnKmaxBytes, params.ecnKminBytes);
    this.slope = (params.ecnPmax * TWO32) / (this.kmaxBytes - this.kminBytes);
    this.random = new RandomStream(seed, 'ecn', port);
  }

  marks(queueBytes: number): boolean {
    if (queueBytes <= this.kminBytes) return false;
    if (queueBytes >= this.kmaxBytes) return true;
    return this.random.u32() < (queueBytes - this.kminBytes) * this.slope;
  }
}
