import { endings } from './endings.ts';

endings('sim0', [...['exit', 'exception', 'handled', 'closed', 'worker terminated', 'wait beside workers']]);
