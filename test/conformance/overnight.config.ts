/** `npm run test:overnight`: not part of `npm test`, because it does not end. */
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ['overnight.ts'],
    testTimeout: 0,
    maxWorkers: 1,
    disableConsoleIntercept: true,
  },
});
