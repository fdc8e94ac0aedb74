import { endings } from './endings.ts';

endings('sim0');
