/**
 * Packets in flight from a port, in order. Only the first has an event in the queue. The others store the
 * time and order that their events will have.
 */
export class Flight {
  count = 0;
  private first = 0;
  private mask = 63;
  private packets = new Int32Array(64);
  /** Time and order, by packet. */
  private dues = new Float64Array(128);

  add(p: number, due: Float64Array): void {
    if (this.count > this.mask) this.grow();
    const at = (this.first + this.count) & this.mask;
    this.packets[at] = p;
    this.dues[2 * at] = due[0];
    this.dues[2 * at + 1] = due[1];
    this.count = (this.count + 1) | 0;
  }

  /** Removes the first packet and sets `due` to that of the next. */
  take(due: Float64Array): number {
    const p = this.packets[this.first & this.mask];
    this.first = (this.first + 1) | 0;
    this.count = (this.count - 1) | 0;
    const next = this.first & this.mask;
    due[0] = this.dues[2 * next];
    due[1] = this.dues[2 * next + 1];
    return p;
  }

  private grow(): void {
    const size = (this.mask + 1) * 2;
    const packets = new Int32Array(size);
    const dues = new Float64Array(size * 2);
    for (let i = 0; i < this.count; i++) {
      const from = (this.first + i) & this.mask;
      packets[i] = this.packets[from];
      dues[2 * i] = this.dues[2 * from];
      dues[2 * i + 1] = this.dues[2 * from + 1];
    }
    this.first = 0;
    this.mask = size - 1;
    this.packets = packets;
    this.dues = dues;
  }
}
