/** Draws the responsiveness dial: one tick for each frame of the last turn, so that a stall leaves a hole. */

export interface DialColours {
  readonly hand: string;
  readonly tick: string;
  readonly ring: string;
}

const TURN_MILLISECONDS = 2000;

export function angleAt(milliseconds: number): number {
  return ((milliseconds % TURN_MILLISECONDS) / TURN_MILLISECONDS) * 2 * Math.PI;
}

/** The frames of the turn that ends now. */
export function lastTurn(times: readonly number[], now: number): number[] {
  return times.filter((time) => time > now - TURN_MILLISECONDS);
}

export function drawDial(
  context: CanvasRenderingContext2D,
  size: number,
  times: readonly number[],
  now: number,
  colours: DialColours,
): void {
  const radius = size / 2;
  context.clearRect(0, 0, size, size);
  context.save();
  context.translate(radius, radius);
  context.lineCap = 'round';

  context.strokeStyle = colours.ring;
  context.lineWidth = 1;
  context.beginPath();
  context.arc(0, 0, radius * 0.98 - 1, 0, 2 * Math.PI);
  context.stroke();

  context.strokeStyle = colours.tick;
  context.lineWidth = 1.5;
  for (const time of times) {
    const age = (now - time) / TURN_MILLISECONDS;
    context.globalAlpha = Math.max(0.08, 1 - age);
    ray(context, angleAt(time), radius * 0.8, radius * 0.92);
  }

  context.globalAlpha = 1;
  context.strokeStyle = colours.hand;
  context.lineWidth = Math.max(2.5, size / 50);
  ray(context, angleAt(now), radius * 0.52, radius * 0.92);
  context.restore();
}

function ray(context: CanvasRenderingContext2D, angle: number, from: number, to: number): void {
  const x = Math.sin(angle);
  const y = -Math.cos(angle);
  context.beginPath();
  context.moveTo(x * from, y * from);
  context.lineTo(x * to, y * to);
  context.stroke();
}
