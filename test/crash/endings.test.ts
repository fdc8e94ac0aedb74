import { endings } from './endings.ts';

endings('sim0', [
  ...['exit', 'exception', 'rejection', 'wait', 'handled', 'closed'],
  ...['worker terminated', 'worker rejection', 'exit beside workers', 'wait beside workers'],
]);
