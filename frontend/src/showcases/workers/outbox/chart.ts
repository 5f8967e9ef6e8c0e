/** The two charts of the depth, drawn by uPlot; loaded when they come into view. */

import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import type { DepthColumns } from '../../../lib/live/depth-history';

export interface ChartOptions {
  readonly locale: string;
  readonly windowSeconds: number;
}

interface Line {
  readonly column: Exclude<keyof DepthColumns, 'at'>;
  readonly colour: string;
  /** Lines differ in their dashes too, for eyes and printers that tell no colours apart. */
  readonly dash: readonly number[];
}

export const DEPTH_LINES: readonly Line[] = [
  { column: 'pending', colour: '--pending', dash: [] },
  { column: 'processing', colour: '--processing', dash: [7, 3] },
  { column: 'retrying', colour: '--retrying', dash: [2, 3] },
];

export const RATE_LINES: readonly Line[] = [
  { column: 'settledPerSecond', colour: '--sent', dash: [] },
  { column: 'enqueuedPerSecond', colour: '--pending', dash: [7, 3] },
];

const FONT = '12px ui-sans-serif, system-ui, sans-serif';
/** No step below one: there are no half rows. */
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000];

export class DepthChart {
  readonly #plot: uPlot;
  readonly #element: HTMLElement;
  readonly #lines: readonly Line[];
  #colours: Record<string, string> = {};
  readonly #observer: ResizeObserver;

  constructor(element: HTMLElement, lines: readonly Line[], { locale, windowSeconds }: ChartOptions) {
    this.#element = element;
    this.#lines = lines;
    this.#readColours();
    const colour = (name: string) => (): string => this.#colours[name] ?? '';
    const time = new Intl.DateTimeFormat(locale, { timeStyle: 'medium', hourCycle: 'h23' });
    const axis: uPlot.Axis = {
      stroke: colour('--ink-soft'),
      font: FONT,
      grid: { stroke: colour('--rule'), width: 1 },
      ticks: { show: false },
    };
    this.#plot = new uPlot(
      {
        ...this.#size(),
        legend: { show: false },
        cursor: { sync: { key: 'depth' }, drag: { x: false, y: false }, y: false },
        padding: [8, 8, 0, 0],
        scales: {
          x: { time: true, range: (_, __, max) => [max - windowSeconds, max] },
          y: { range: (_, __, max) => [0, Math.max(5, (max ?? 0) * 1.15)] },
        },
        axes: [
          {
            ...axis,
            size: 28,
            space: 90,
            values: (_, splits) => splits.map((second) => time.format(second * 1000)),
          },
          {
            ...axis,
            size: 52,
            incrs: STEPS,
            space: 34,
            values: (_, splits) => splits.map((value) => value.toLocaleString(locale)),
          },
        ],
        series: [
          {},
          ...lines.map((line) => ({
            stroke: colour(line.colour),
            width: 2,
            dash: [...line.dash],
            points: { show: false },
            spanGaps: false,
          })),
        ],
      },
      this.#columns(null),
      element,
    );
    this.#observer = new ResizeObserver(() => this.#plot.setSize(this.#size()));
    this.#observer.observe(element);
  }

  update(columns: DepthColumns): void {
    this.#plot.setData(this.#columns(columns));
  }

  recolour(): void {
    this.#readColours();
    this.#plot.redraw(false, true);
  }

  destroy(): void {
    this.#observer.disconnect();
    this.#plot.destroy();
  }

  #columns(columns: DepthColumns | null): uPlot.AlignedData {
    return [columns?.at ?? [], ...this.#lines.map((line) => columns?.[line.column] ?? [])];
  }

  #size(): { width: number; height: number } {
    return { width: this.#element.clientWidth, height: this.#element.clientHeight };
  }

  #readColours(): void {
    const style = getComputedStyle(this.#element);
    const names = ['--ink-soft', '--rule', ...this.#lines.map((line) => line.colour)];
    this.#colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(name).trim()]));
  }
}
