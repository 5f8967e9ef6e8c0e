import { expect, it } from 'vitest';
import { parts } from './inline';

it('tells code and emphasis from plain text', () => {
  expect(parts('Ask what it *consumes*: `SKIP LOCKED`.')).toEqual([
    { kind: 'text', text: 'Ask what it ' },
    { kind: 'emphasis', text: 'consumes' },
    { kind: 'text', text: ': ' },
    { kind: 'code', text: 'SKIP LOCKED' },
    { kind: 'text', text: '.' },
  ]);
});

it.each(['', 'plain', '2 * 3', 'a ` b', '**', '``'])('keeps every character of %j', (text) => {
  expect(
    parts(text)
      .map((part) => part.text)
      .join(''),
  ).toBe(text);
});

it('leaves stars inside code alone', () => {
  expect(parts('`count(*) * 2`')).toEqual([{ kind: 'code', text: 'count(*) * 2' }]);
});
