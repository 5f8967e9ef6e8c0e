/** SQL as tokens for light highlighting. Joined again they are the statement, to the letter. */

export type TokenKind = 'keyword' | 'string' | 'identifier' | 'parameter' | 'comment' | 'plain';

export interface Token {
  readonly kind: TokenKind;
  readonly text: string;
}

const TOKEN =
  /(?<comment>--[^\n]*|\/\*[\s\S]*?\*\/)|(?<string>'(?:[^']|'')*')|(?<identifier>"(?:[^"]|"")*")|(?<parameter>\$\d+)|(?<word>[A-Za-z_]\w*)|(?<plain>[^A-Za-z_'"$/-]+|[\s\S])/g;

/** The code base writes keywords in capitals and nothing else, so capitals are all there is to know. */
const KEYWORD = /^[A-Z]{2,}$/;

export function tokens(sql: string): Token[] {
  const found: Token[] = [];
  for (const match of sql.matchAll(TOKEN)) {
    const kind = kindOf(match);
    const last = found.at(-1);
    if (kind === 'plain' && last?.kind === 'plain') {
      found[found.length - 1] = { kind, text: last.text + match[0] };
    } else {
      found.push({ kind, text: match[0] });
    }
  }
  return found;
}

function kindOf(match: RegExpMatchArray): TokenKind {
  const groups = match.groups ?? {};
  if (groups.comment !== undefined) return 'comment';
  if (groups.string !== undefined) return 'string';
  if (groups.identifier !== undefined) return 'identifier';
  if (groups.parameter !== undefined) return 'parameter';
  return groups.word !== undefined && KEYWORD.test(groups.word) ? 'keyword' : 'plain';
}
