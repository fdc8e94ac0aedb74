/** Loaded into a program that must not outlive the command that started it, however the command ends. */
process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'));
