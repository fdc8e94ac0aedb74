import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts', 'examples/**/*.test.ts'],
    testTimeout: 30_000,
    // A real device counts its objects and loses its packets for one file at a time.
    maxWorkers: process.env.ISOVERBS_GROUND === 'rxe' ? 1 : '100%',
    tags: [
      {
        name: 'long',
        description: 'CI runs this suite without it: it says more of the same, and takes long',
      },
    ],
  },
});
