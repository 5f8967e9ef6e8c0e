/** sRGB bytes → linear light → OKLab, by correctly rounded operations only (see palette.ts). */

/** OKLab gives chroma about half the weight that CIEDE2000 gives it. */
const CHROMA = 2;

/** Linear light of each sRGB byte; x^2.4 is x² times the fifth root of x². */
export const LINEAR = Float64Array.from({ length: 256 }, (_, value) => {
  const encoded = value / 255;
  if (encoded <= 0.04045) return encoded / 12.92;
  const base = (encoded + 0.055) / 1.055;
  const square = base * base;
  return square * fifthRoot(square);
});

/** Writes the OKLab coordinates of a colour, chroma axes weighted, at `at`, `at + 1` and `at + 2`. */
export function writeOklab(coordinates: Float64Array, at: number, r: number, g: number, b: number): void {
  const red = LINEAR[r] as number;
  const green = LINEAR[g] as number;
  const blue = LINEAR[b] as number;
  // Björn Ottosson's matrices.
  const l = cubeRoot(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue);
  const m = cubeRoot(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue);
  const s = cubeRoot(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue);
  coordinates[at] = 0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s;
  coordinates[at + 1] = CHROMA * (1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s);
  coordinates[at + 2] = CHROMA * (0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s);
}

/** Newton's iteration, enough of it for 0.008..1. */
function fifthRoot(value: number): number {
  let root = 1;
  for (let step = 0; step < 12; step++) {
    const square = root * root;
    root = (4 * root + value / (square * square)) / 5;
  }
  return root;
}

/** Halley's iteration from value^(5/16), which is near value^(1/3) all over 0..1: right to six digits. */
function cubeRoot(value: number): number {
  if (value === 0) return 0;
  const quarter = Math.sqrt(Math.sqrt(value));
  let root = quarter * Math.sqrt(Math.sqrt(quarter));
  for (let step = 0; step < 2; step++) {
    const cube = root * root * root;
    root = (root * (cube + 2 * value)) / (2 * cube + value);
  }
  return root;
}
