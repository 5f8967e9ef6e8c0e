/** Starts the page. */

import { mount } from 'svelte';
import './styles/tokens.css';
import './styles/base.css';
import App from './app/App.svelte';

const target = document.getElementById('app');
if (target !== null) mount(App, { target });
