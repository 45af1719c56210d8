/** How large things are on the canvas, in pixels at zoom 1. */

export interface Size {
  width: number;
  height: number;
}

/** Of a card that has not been drawn yet. */
export const USUAL_SIZE: Size = { width: 220, height: 96 };
