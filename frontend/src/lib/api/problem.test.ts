import { expect, it } from 'vitest';
import { outcomeOf, toProblem } from './problem';

it('gives the data of an answer that succeeded', async () => {
  const response = new Response(null, { status: 204 });
  expect(await outcomeOf(Promise.resolve({ data: 7, response }))).toEqual({ ok: true, data: 7 });
});

it('reads problem details', async () => {
  const response = new Response(null, { status: 403 });
  const error = {
    type: 'about:blank',
    title: 'Forbidden',
    status: 403,
    detail: 'Only on this machine.',
    errors: [{ path: 'address', message: 'not yours' }, 'nonsense'],
  };
  expect(await outcomeOf(Promise.resolve({ error, response }))).toEqual({
    ok: false,
    problem: {
      status: 403,
      title: 'Forbidden',
      detail: 'Only on this machine.',
      errors: [{ path: 'address', message: 'not yours' }],
    },
  });
});

it('reports a server that cannot be reached as a problem without status', async () => {
  const outcome = await outcomeOf(Promise.reject(new TypeError('Failed to fetch')));
  expect(outcome).toMatchObject({ ok: false, problem: { status: null } });
});

it.each(['<h1>Bad gateway</h1>', undefined, null, 3])(
  'keeps the status of a body that is no problem (%s)',
  (body) => {
    expect(toProblem(502, body)).toEqual({ status: 502, title: '', detail: '', errors: [] });
  },
);
