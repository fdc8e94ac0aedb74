/** What Tassel states, in our words. */
import type { Statements } from '../engine/paper.ts';

export const STATEMENTS: Statements = Object.freeze({
  'tassel-2.1-commercial': {
    where: 'section 2.1',
    says: 'Rate limiters of commercial NICs number about 1,000 and deviate by 10 % from their target.',
  },
  'tassel-2.2-model': {
    where: 'sections 2.2.2, 3.1.2',
    says: 'The NIC has a clock of 250 MHz, and PCIe round trips take more than 1 us.',
  },
  'tassel-4-fig7': {
    where: 'Fig. 7, section 4',
    says: 'The rate of one queue pair is enforced accurately over the whole range.',
  },
  'tassel-4-fig8a': {
    where: 'Fig. 8(a), section 4',
    says: 'The rates of 1,000 concurrent queue pairs are enforced with high accuracy.',
  },
  'tassel-3.2.3-n': {
    where: 'section 3.2.3',
    says: 'With eight descriptors for a queue pair, one queue pair reaches 8 M/s.',
  },
  'tassel-3.2.3-k': {
    where: 'section 3.2.3',
    says: 'With 60 descriptors in total, the aggregate message rate equals that of current NICs.',
  },
  'tassel-3.2.4-memory': {
    where: 'section 3.2.4',
    says: '10,000 queue pairs take 166.5 KB of memory on the chip, 17 B each.',
  },
  'tassel-3.2.2-wheel': {
    where: 'section 3.2.2',
    says: 'A timing wheel of 250 slots of 4 ns covers 1 us; a packet is due each 4 clock cycles.',
  },
  'tassel-3.2.2-pheap': {
    where: 'section 3.2.2, Appendix A',
    says: 'An operation of the heap takes as many cycles as the heap is high; a new one can begin each 2 cycles.',
  },
  'tassel-3.2.4-compute': {
    where: 'section 3.2.4',
    says: 'All queue pairs share the logic, which does not grow with their number.',
  },
});
