/** In the place of the package zarrita, with which NiiVue reads stores of chunks: volumes here come whole. */

function none(): never {
  throw new Error('Zarr is not read here.');
}

export const FetchStore = none;
export const open = none;
export const root = none;
export const get = none;
export const slice = none;
export const withConsolidated = none;
export const tryWithConsolidated = none;
