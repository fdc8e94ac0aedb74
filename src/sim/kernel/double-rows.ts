/** Rows of doubles for many objects: neighbours in blocks, which take fewer cache lines and bytes than an array each. */

/** Rows of a block. */
const BLOCK_ROWS = 128;

export class DoubleRows {
  /** The block of the latest row, and where that row begins. */
  block = new Float64Array(0);
  row = 0;
  private readonly width: number;
  private left = 0;

  /** @param width doubles of a row */
  constructor(width: number) {
    this.width = width;
  }

  /** Allocates a row of zeros. */
  next(): void {
    if (this.left === 0) {
      this.block = new Float64Array(BLOCK_ROWS * this.width);
      this.row = -this.width;
      this.left = BLOCK_ROWS;
    }
    this.left--;
    this.row += this.width;
  }
}
