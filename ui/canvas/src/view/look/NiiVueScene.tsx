/** A volume drawn by NiiVue, which is loaded when the first one is. */

import { useEffect, useRef } from 'react';

import type * as niivue from '../../lazy/niivue';

import { COLOUR_MAP_NAMES, isSigned, stops, type ColourMap } from '../../volume/colours';
import type { Place, Volume } from '../../volume/nifti';
import type { Scene, SceneSettings } from '../../volume/scene';

/** The bundle's name, from vite.config.ts. */
declare const NIIVUE_FILE: string;

type NiiVue = typeof niivue;

let loading: Promise<NiiVue> | null = null;

function load(): Promise<NiiVue> {
  // Beside this file. One that could not be loaded is tried again with the next volume.
  loading ??= (import(/* @vite-ignore */ new URL(NIIVUE_FILE, import.meta.url).href) as Promise<NiiVue>).catch(
    (error: unknown) => {
      loading = null;
      throw error;
    },
  );
  return loading;
}

/** Whether the browser draws volumes of this size in three dimensions. */
export function hasWebGL2(volume: Volume): boolean {
  const context = document.createElement('canvas').getContext('webgl2');
  if (!context) return false;
  const most = Number(context.getParameter(context.MAX_3D_TEXTURE_SIZE));
  context.getExtension('WEBGL_lose_context')?.loseContext();
  return Math.max(...volume.size) <= most;
}

/** Whether the processor draws in place of a graphics card: renderings then take seconds. */
export function drawsInSoftware(): boolean {
  const context = document.createElement('canvas').getContext('webgl2');
  const names = context?.getExtension('WEBGL_debug_renderer_info');
  const renderer = context && names ? String(context.getParameter(names.UNMASKED_RENDERER_WEBGL)) : '';
  context?.getExtension('WEBGL_lose_context')?.loseContext();
  return /swiftshader|llvmpipe|software|basic render/i.test(renderer);
}

interface Props {
  volume: Volume;
  settings: SceneSettings;
  onPlace: (place: Place) => void;
  /** It cannot be drawn here. */
  onLost: () => void;
}

export function NiiVueScene({ volume, settings, onPlace, onLost }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const scene = useRef<{ drawn: Scene; settings: SceneSettings } | null>(null);
  const latest = useRef({ settings, onPlace, onLost });
  useEffect(() => {
    latest.current = { settings, onPlace, onLost };
    const now = scene.current;
    if (now && now.settings !== settings) {
      now.drawn.set(settings, now.settings);
      now.settings = settings;
    }
  }, [settings, onPlace, onLost]);
  useEffect(() => {
    const element = frame.current;
    if (!element) return undefined;
    // A canvas of its own for each volume: what NiiVue has attached to one stays with it.
    const canvas = document.createElement('canvas');
    canvas.setAttribute('aria-label', 'Planes and rendering of the volume');
    element.replaceChildren(canvas);
    let left = false;
    let drawn: Scene | null = null;
    const begun = latest.current.settings;
    load()
      .then((drawing) =>
        left
          ? null
          : drawing.show(canvas, volume, COLOURS, begun, (place) => {
              latest.current.onPlace(place);
            }),
      )
      .then((made) => {
        if (made === null) return;
        drawn = made;
        if (left) {
          made.close();
          return;
        }
        const { settings: now } = latest.current;
        if (now !== begun) made.set(now, begun);
        scene.current = { drawn: made, settings: now };
        element.dataset.drawn = 'true';
      })
      .catch(() => {
        if (!left) latest.current.onLost();
      });
    return () => {
      left = true;
      scene.current = null;
      delete element.dataset.drawn;
      drawn?.close();
    };
  }, [volume]);
  return <div className="volume-scene" ref={frame} />;
}

const COLOURS = (Object.keys(COLOUR_MAP_NAMES) as ColourMap[]).map((name) => {
  const colours = stops(name);
  const last = colours.length - 1;
  return {
    name,
    stops: colours,
    // In the rendering, what is near the lowest value is clear; near zero, of a map of both signs.
    opacities: colours.map((_, at) => (isSigned(name) ? Math.abs((2 * at) / last - 1) : at / last)),
  };
});
