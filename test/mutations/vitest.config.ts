/** `npm run test:mutations`: not part of `npm test`, because it runs the suite about eighty times. */
import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ['faults.ts'],
    maxConcurrency: Number(process.env.ISOVERBS_JOBS ?? availableParallelism()),
    testTimeout: 3_600_000,
    hookTimeout: 600_000,
    reporters: ['verbose'],
  },
});
