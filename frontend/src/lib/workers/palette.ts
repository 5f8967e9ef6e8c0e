/**
 * The representative palette and the luminance of an image, from its RGBA bytes alone.
 *
 * Its twin is backend/pillarbox/imaging/palette.py and the two agree to the last bit. That is why only
 * correctly rounded operations are used (+ − × ÷ √), each sum runs in one fixed order, and there is no
 * Math.pow or Math.cbrt, whose last bit differs between engines. Change one, change the other.
 *
 * `as number` stands where an index is within its typed array by construction: it costs nothing at run
 * time, unlike a check in the innermost loop.
 */

import { countColors, FIELDS, mean, OPAQUE, type Pixels, requireRgba } from './color-points';
import { LINEAR, writeOklab } from './oklab';

export type { Pixels };

export interface Swatch {
  readonly r: number;
  readonly g: number;
  readonly b: number;
  /** '#rrggbb' */
  readonly hex: string;
  /** Pixels. */
  readonly count: number;
  /** count ÷ opaque pixels, 0..1. */
  readonly share: number;
}

export const MAX_SWATCHES = 256;

/** Places along an axis at which a box may be cut. */
const SLABS = 64;
const REFINEMENTS = 6;

/**
 * At most `count` colours that stand for the image with little error, largest share first. `count` or
 * fewer distinct colours come back exactly as they are; no opaque pixel gives an empty list.
 */
export function dominantColors(pixels: Pixels, count = 6): Swatch[] {
  if (!Number.isInteger(count) || count < 1 || count > MAX_SWATCHES) {
    throw new RangeError(`count must be an integer from 1 to ${MAX_SWATCHES}, not ${count}`);
  }
  const points = countColors(pixels);
  const size = points.length / FIELDS;
  const labels = new Uint16Array(size);
  if (size <= count) {
    for (let point = 0; point < size; point++) labels[point] = point;
  } else {
    const coordinates = toOklab(points);
    const moments = toMoments(points, coordinates);
    const clusters = cut(coordinates, moments, labels, count);
    refine(coordinates, moments, labels, clusters);
  }
  return toSwatches(points, labels, count);
}

/** WCAG relative luminance, averaged in linear light over the opaque pixels; 0 when there are none. */
export function averageLuminance(pixels: Pixels): number {
  requireRgba(pixels);
  const histogram = new Float64Array(3 * 256);
  let opaque = 0;
  for (let i = 0; i < pixels.length; i += 4) {
    if ((pixels[i + 3] as number) < OPAQUE) continue;
    opaque++;
    (histogram[pixels[i] as number] as number)++;
    (histogram[256 + (pixels[i + 1] as number)] as number)++;
    (histogram[512 + (pixels[i + 2] as number)] as number)++;
  }
  if (opaque === 0) return 0;
  const linearMean = (channel: number): number => {
    let sum = 0;
    for (let value = 0; value < 256; value++) {
      sum += (histogram[channel * 256 + value] as number) * (LINEAR[value] as number);
    }
    return sum / opaque;
  };
  return 0.2126 * linearMean(0) + 0.7152 * linearMean(1) + 0.0722 * linearMean(2);
}

/** OKLab of each point's mean colour, flat triples. */
function toOklab(points: Float64Array): Float64Array {
  const size = points.length / FIELDS;
  const coordinates = new Float64Array(3 * size);
  for (let point = 0; point < size; point++) {
    const from = point * FIELDS;
    const pixels = points[from] as number;
    const channel = (field: number): number => mean(points[from + field] as number, pixels);
    writeOklab(coordinates, 3 * point, channel(1), channel(2), channel(3));
  }
  return coordinates;
}

/** Of each point: pixels, and pixels × each coordinate. */
function toMoments(points: Float64Array, coordinates: Float64Array): Float64Array {
  const moments = new Float64Array(points.length);
  for (let point = 0; point < points.length / FIELDS; point++) {
    const count = points[point * FIELDS] as number;
    moments[point * FIELDS] = count;
    for (let axis = 0; axis < 3; axis++) {
      moments[point * FIELDS + 1 + axis] = count * (coordinates[3 * point + axis] as number);
    }
  }
  return moments;
}

interface Box {
  /** Ascending. */
  readonly members: Int32Array;
  /** How much of the squared error its best cut removes; 0 where it cannot be cut. */
  gain: number;
  axis: number;
  /** What lies in this slab of the axis or above it goes to the upper side. */
  slab: number;
  /** The slabs of an axis: SLABS of them from `low` on. */
  low: number;
  scale: number;
}

/** Wu's idea: cut, again and again, the box whose best cut removes the most variance. Fills `labels`. */
function cut(coordinates: Float64Array, moments: Float64Array, labels: Uint16Array, count: number): number {
  const boxes = [bestCut(coordinates, moments, Int32Array.from(labels.keys()))];
  while (boxes.length < count) {
    const box = boxes.reduce((best, other) => (other.gain > best.gain ? other : best));
    if (box.gain === 0) break;
    const [lower, upper] = divide(coordinates, box);
    boxes[boxes.indexOf(box)] = bestCut(coordinates, moments, lower);
    boxes.push(bestCut(coordinates, moments, upper));
  }
  boxes.forEach((box, label) => {
    for (const point of box.members) labels[point] = label;
  });
  return boxes.length;
}

function divide(coordinates: Float64Array, box: Box): [Int32Array, Int32Array] {
  const lower = new Int32Array(box.members.length);
  const upper = new Int32Array(box.members.length);
  let below = 0;
  let above = 0;
  for (const point of box.members) {
    const value = coordinates[3 * point + box.axis] as number;
    if (slabOf(value, box.low, box.scale) < box.slab) lower[below++] = point;
    else upper[above++] = point;
  }
  return [lower.subarray(0, below), upper.subarray(0, above)];
}

function slabOf(value: number, low: number, scale: number): number {
  return Math.min(SLABS - 1, Math.floor((value - low) * scale));
}

/** The plane across the box's most varied axis, among SLABS − 1, that leaves the least variance. */
function bestCut(coordinates: Float64Array, moments: Float64Array, members: Int32Array): Box {
  const best: Box = {
    members,
    gain: 0,
    axis: mostVaried(coordinates, moments, members),
    slab: 0,
    low: 0,
    scale: 0,
  };
  const { axis } = best;
  let low = Infinity;
  let high = -Infinity;
  for (let i = 0; i < members.length; i++) {
    const value = coordinates[3 * (members[i] as number) + axis] as number;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low === high) return best;
  const scale = SLABS / (high - low);
  const sums = new Float64Array(FIELDS * SLABS);
  for (let i = 0; i < members.length; i++) {
    const point = members[i] as number;
    const slab = slabOf(coordinates[3 * point + axis] as number, low, scale);
    addMoments(sums, slab, moments, point);
  }
  for (let slab = 1; slab < SLABS; slab++) addMoments(sums, slab, sums, slab - 1);
  const last = FIELDS * (SLABS - 1);
  const total = spread(sums, last);
  for (let slab = 1; slab < SLABS; slab++) {
    const below = FIELDS * (slab - 1);
    if (sums[below] === sums[last]) break;
    const gain = spread(sums, below) + spreadBetween(sums, below, last) - total;
    if (gain > best.gain) Object.assign(best, { gain, slab, low, scale });
  }
  return best;
}

function mostVaried(coordinates: Float64Array, moments: Float64Array, members: Int32Array): number {
  let [pixels, x, y, z, xx, yy, zz] = [0, 0, 0, 0, 0, 0, 0];
  for (let i = 0; i < members.length; i++) {
    const point = members[i] as number;
    const wx = moments[FIELDS * point + 1] as number;
    const wy = moments[FIELDS * point + 2] as number;
    const wz = moments[FIELDS * point + 3] as number;
    pixels += moments[FIELDS * point] as number;
    x += wx;
    y += wy;
    z += wz;
    xx += wx * (coordinates[3 * point] as number);
    yy += wy * (coordinates[3 * point + 1] as number);
    zz += wz * (coordinates[3 * point + 2] as number);
  }
  const alongX = xx - (x * x) / pixels;
  const alongY = yy - (y * y) / pixels;
  const alongZ = zz - (z * z) / pixels;
  if (alongX >= alongY && alongX >= alongZ) return 0;
  return alongY >= alongZ ? 1 : 2;
}

function addMoments(sums: Float64Array, to: number, moments: Float64Array, from: number): void {
  (sums[FIELDS * to] as number) += moments[FIELDS * from] as number;
  (sums[FIELDS * to + 1] as number) += moments[FIELDS * from + 1] as number;
  (sums[FIELDS * to + 2] as number) += moments[FIELDS * from + 2] as number;
  (sums[FIELDS * to + 3] as number) += moments[FIELDS * from + 3] as number;
}

/** |Σwx|² ÷ Σw: the larger, the less variance is left. */
function spread(sums: Float64Array, at: number): number {
  const x = sums[at + 1] as number;
  const y = sums[at + 2] as number;
  const z = sums[at + 3] as number;
  return (x * x + y * y + z * z) / (sums[at] as number);
}

function spreadBetween(sums: Float64Array, below: number, last: number): number {
  const x = (sums[last + 1] as number) - (sums[below + 1] as number);
  const y = (sums[last + 2] as number) - (sums[below + 2] as number);
  const z = (sums[last + 3] as number) - (sums[below + 3] as number);
  return (x * x + y * y + z * z) / ((sums[last] as number) - (sums[below] as number));
}

/** Weighted k-means: each centre to the mean of its points, each point to its nearest centre. */
function refine(
  coordinates: Float64Array,
  moments: Float64Array,
  labels: Uint16Array,
  clusters: number,
): void {
  const centers = new Float64Array(3 * clusters);
  for (let step = 0; step < REFINEMENTS; step++) {
    moveCenters(moments, labels, centers);
    let moved = false;
    for (let point = 0; point < labels.length; point++) {
      const x = coordinates[3 * point] as number;
      const y = coordinates[3 * point + 1] as number;
      const z = coordinates[3 * point + 2] as number;
      let nearest = 0;
      let least = Infinity;
      for (let cluster = 0; cluster < clusters; cluster++) {
        const dx = x - (centers[3 * cluster] as number);
        const dy = y - (centers[3 * cluster + 1] as number);
        const dz = z - (centers[3 * cluster + 2] as number);
        const distance = dx * dx + dy * dy + dz * dz;
        if (distance < least) {
          least = distance;
          nearest = cluster;
        }
      }
      if (labels[point] !== nearest) moved = true;
      labels[point] = nearest;
    }
    if (!moved) return;
  }
}

/** A cluster that lost all its points keeps its centre. */
function moveCenters(moments: Float64Array, labels: Uint16Array, centers: Float64Array): void {
  const clusters = centers.length / 3;
  const sums = new Float64Array(clusters * FIELDS);
  for (let point = 0; point < labels.length; point++) {
    addMoments(sums, labels[point] as number, moments, point);
  }
  for (let cluster = 0; cluster < clusters; cluster++) {
    const count = sums[cluster * FIELDS] as number;
    if (count === 0) continue;
    for (let axis = 0; axis < 3; axis++) {
      centers[3 * cluster + axis] = (sums[cluster * FIELDS + 1 + axis] as number) / count;
    }
  }
}

/** The exact mean of each cluster's pixels; clusters that round to the same colour become one swatch. */
function toSwatches(points: Float64Array, labels: Uint16Array, clusters: number): Swatch[] {
  const sums = new Float64Array(clusters * FIELDS);
  let total = 0;
  labels.forEach((label, point) => {
    total += points[point * FIELDS] as number;
    for (let field = 0; field < FIELDS; field++) {
      (sums[label * FIELDS + field] as number) += points[point * FIELDS + field] as number;
    }
  });
  const counts = new Map<number, number>();
  for (let at = 0; at < sums.length; at += FIELDS) {
    const count = sums[at] as number;
    if (count === 0) continue;
    const channel = (field: number): number => mean(sums[at + field] as number, count);
    const color = (channel(1) << 16) | (channel(2) << 8) | channel(3);
    counts.set(color, (counts.get(color) ?? 0) + count);
  }
  return [...counts]
    .sort(([colorA, a], [colorB, b]) => b - a || colorA - colorB)
    .map(([color, count]) => ({
      r: color >> 16,
      g: (color >> 8) & 255,
      b: color & 255,
      hex: `#${color.toString(16).padStart(6, '0')}`,
      count,
      share: count / total,
    }));
}
