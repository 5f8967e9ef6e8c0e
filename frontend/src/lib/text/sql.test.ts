import { describe, expect, it } from 'vitest';
import { type Token, tokens } from './sql';

const kinds = (sql: string, kind: Token['kind']): string[] =>
  tokens(sql)
    .filter((token) => token.kind === kind)
    .map((token) => token.text);

const CLAIM = `WITH c AS MATERIALIZED (
  SELECT id -- the limited part
  FROM notifications.notification_deliveries
  WHERE status = 'pending' AND next_attempt_at <= now()
  LIMIT $1
  FOR UPDATE SKIP LOCKED
)
UPDATE x SET attempts = d.attempts + 1 RETURNING d.id AS "deliveryId", 'it''s' || "a""b" /* end */`;

describe('tokens', () => {
  it('finds keywords and leaves names alone', () => {
    expect(kinds(CLAIM, 'keyword')).toContain('LOCKED');
    expect(kinds(CLAIM, 'keyword')).not.toContain('status');
  });

  it('takes doubled quotes for part of the literal', () => {
    expect(kinds(CLAIM, 'string')).toEqual(["'pending'", "'it''s'"]);
    expect(kinds(CLAIM, 'identifier')).toEqual(['"deliveryId"', '"a""b"']);
  });

  it('finds parameters and comments', () => {
    expect(kinds(CLAIM, 'parameter')).toEqual(['$1']);
    expect(kinds(CLAIM, 'comment')).toEqual(['-- the limited part', '/* end */']);
  });

  it.each([CLAIM, '', "'open", '"open', '$', '- / $ ü €', '/* open', 'a - b / c'])(
    'loses no character of %j',
    (sql) => {
      expect(
        tokens(sql)
          .map((token) => token.text)
          .join(''),
      ).toBe(sql);
    },
  );
});
