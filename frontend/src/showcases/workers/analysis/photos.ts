/** The photographs bundled with the page. */

import astronaut from '../../../assets/photos/astronaut.jpg';
import chelsea from '../../../assets/photos/chelsea.jpg';
import coffee from '../../../assets/photos/coffee.jpg';
import { m } from '../../../lib/paraglide/messages.js';

export interface Photo {
  readonly url: string;
  readonly name: string;
  readonly alt: () => string;
}

export const PHOTOS: readonly [Photo, ...Photo[]] = [
  { url: coffee, name: 'coffee.jpg', alt: m.photo_coffee },
  { url: chelsea, name: 'chelsea.jpg', alt: m.photo_chelsea },
  { url: astronaut, name: 'astronaut.jpg', alt: m.photo_astronaut },
];

export async function fetchPhoto(photo: Photo): Promise<File> {
  const response = await fetch(photo.url);
  if (!response.ok) throw new Error(`${photo.url}: ${response.status}`);
  const blob = await response.blob();
  return new File([blob], photo.name, { type: blob.type });
}
