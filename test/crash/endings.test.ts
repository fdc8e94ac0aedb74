// @module-tag wide
import { endings } from './endings.ts';

endings('sim0', ['exit', 'exception', 'closed', 'worker terminated']);
