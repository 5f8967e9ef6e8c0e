/** The one client of the HTTP API, typed by the document the server serves. */

import createClient from 'openapi-fetch';
import type { components, paths } from './schema';

type Schemas = components['schemas'];

export type DepthReading = Schemas['DepthReading'];
export type Delivery = Schemas['Delivery'];
export type DrainStatus = Schemas['DrainStatus'];
export type Enqueue = Schemas['Enqueue'];
export type Incident = Schemas['Incident'];
export type InboxPage = Schemas['InboxPage'];
export type Mechanism = Schemas['Mechanism'];
export type PlatformState = Schemas['PlatformState'];
export type Policy = Schemas['Policy'];

export const api = createClient<paths>({ baseUrl: window.location.origin });

export const STREAM_URL = '/api/outbox/stream';
