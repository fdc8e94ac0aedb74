/**
 * ECN marking in a switch: RED on the egress queue length at arrival, as at DCQCN's congestion point. No
 * packet is marked up to Kmin. From there the probability grows to Pmax at Kmax, and beyond Kmax all are
 * marked.
 */

import { RandomStream } from '../kernel/random.ts';
import type { NicParams } from '../profile/params.ts';

const TWO32 = 4294967296;

export class EcnMarker {
  private readonly kminBytes: number;
  private readonly kmaxBytes: number;
  /** Probability per byte above Kmin, times 2^32. */
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
