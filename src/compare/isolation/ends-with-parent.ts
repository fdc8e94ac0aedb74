/** Loaded into a program that must not outlive the command that started it, whichever way that ends. */
process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'));
