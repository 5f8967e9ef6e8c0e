/** The two marks that texts may carry, `code` and *emphasis*, as parts; HTML is never made of text. */

export interface Part {
  readonly kind: 'text' | 'code' | 'emphasis';
  readonly text: string;
}

export function parts(text: string): Part[] {
  return text
    .split(/(`[^`]+`|\*[^*]+\*)/)
    .filter((piece) => piece !== '')
    .map(toPart);
}

function toPart(piece: string): Part {
  const inner = piece.slice(1, -1);
  if (piece.length > 2 && piece.startsWith('`') && piece.endsWith('`')) return { kind: 'code', text: inner };
  if (piece.length > 2 && piece.startsWith('*') && piece.endsWith('*'))
    return { kind: 'emphasis', text: inner };
  return { kind: 'text', text: piece };
}
