/**
 * Volumes by NiiVue: three planes with a crosshair, and a rendering. This file and NiiVue are a bundle of their own, which
 * the browser takes when the first volume is opened.
 */

import { Niivue, NVImage, SHOW_RENDER, SLICE_TYPE, MULTIPLANAR_TYPE } from '@niivue/niivue';

import type { Place, Range, Volume } from '../volume/nifti';
import type { Layout, Scene, SceneSettings } from '../volume/scene';

/** A colour map by its stops, and how much of each is seen in the rendering, from 0 to 1. */
export interface Colours {
  name: string;
  stops: readonly (readonly [number, number, number])[];
  opacities: readonly number[];
}

const LAYOUTS: Readonly<Record<Layout, { slice: SLICE_TYPE; render: SHOW_RENDER }>> = {
  all: { slice: SLICE_TYPE.MULTIPLANAR, render: SHOW_RENDER.ALWAYS },
  slices: { slice: SLICE_TYPE.MULTIPLANAR, render: SHOW_RENDER.NEVER },
  z: { slice: SLICE_TYPE.AXIAL, render: SHOW_RENDER.NEVER },
  rendering: { slice: SLICE_TYPE.RENDER, render: SHOW_RENDER.ALWAYS },
};

/** Shows the volume in the canvas; `onPlace` gets the voxel at the crosshair. */
export async function show(
  canvas: HTMLCanvasElement,
  volume: Volume,
  colours: readonly Colours[],
  settings: SceneSettings,
  onPlace: (place: Place) => void,
): Promise<Scene> {
  const view = new Niivue({
    backColor: [0.05, 0.06, 0.08, 1],
    crosshairColor: [0.2, 0.75, 1, 0.9],
    // Of the picture, whatever the size of a voxel.
    crosshairWidthUnit: 'percent',
    crosshairWidth: 0.25,
    dragAndDropEnabled: false,
    // The axes are those of an array, not of a body.
    isOrientationTextVisible: false,
    isCornerOrientationText: false,
    isNearestInterpolation: true,
    loadingText: '',
    logLevel: 'error',
    multiplanarLayout: MULTIPLANAR_TYPE.GRID,
    multiplanarEqualSize: false,
    tileMargin: 4,
    clipPlaneHotKey: '',
    cycleClipPlaneHotKey: '',
    viewModeHotKey: '',
    show3Dcrosshair: true,
  });
  await view.attachToCanvas(canvas, true);
  for (const { name, stops, opacities } of colours) {
    const part = (index: 0 | 1 | 2) => stops.map((colour) => colour[index]);
    view.addColormap(named(name), {
      R: part(0),
      G: part(1),
      B: part(2),
      // Thin enough to be looked into.
      A: opacities.map((share) => Math.round(110 * share ** 1.5)),
      I: stops.map((_, at) => Math.round((255 * at) / (stops.length - 1))),
    });
  }
  const image = await NVImage.loadFromUrl({
    url: 'volume.nii',
    name: 'volume.nii',
    buffer: volume.file,
    colormap: named(settings.colours),
    cal_min: settings.window.low,
    cal_max: settings.window.high,
    frame4D: settings.channel,
  });
  view.onLocationChange = (found) => {
    const vox = (found as { vox: number[] }).vox;
    const at = (axis: 0 | 1 | 2) => Math.max(0, Math.min(volume.size[axis] - 1, Math.round(vox[axis] ?? 0)));
    onPlace([at(0), at(1), at(2)]);
  };
  view.addVolume(image);
  const window = ({ low, high }: Range) => {
    image.cal_min = low;
    image.cal_max = high;
  };
  const layout = (kind: Layout) => {
    view.opts.multiplanarShowRender = LAYOUTS[kind].render;
    view.setSliceType(LAYOUTS[kind].slice);
  };
  window(settings.window);
  view.updateGLVolume();
  view.setScale(0.85);
  layout(settings.layout);
  return {
    set(now, before) {
      if (now.channel !== before.channel) view.setFrame4D(image.id, now.channel);
      if (now.colours !== before.colours) image.colormap = named(now.colours);
      window(now.window);
      view.updateGLVolume();
      if (now.layout !== before.layout) layout(now.layout);
    },
    move(place) {
      view.scene.crosshairPos = view.vox2frac([...place]);
      view.drawScene();
    },
    close() {
      view.cleanup();
      // Browsers give only a few contexts, and take them back late.
      view.gl.getExtension('WEBGL_lose_context')?.loseContext();
    },
  };
}

/** NiiVue has colour maps of the same names. */
function named(colours: string): string {
  return `voxelflow-${colours}`;
}
