/** A volume on the graphics card, drawn by following rays through it. */

import { directions, pointOf, reach, sides, type Camera, type Opacity } from '../rays';
import type { Range } from '../ranges';
import { layers, scaleOf, textureAxes, type Scale } from '../texture';
import type { Place, Volume } from '../volume';
import { drawing, type Drawing } from './context';

export interface Shown {
  readonly camera: Camera;
  readonly window: Range;
  /** 256 colours, four bytes each. */
  readonly colours: Uint8ClampedArray<ArrayBuffer>;
  readonly opacity: Opacity;
  /** Cut open at this voxel. */
  readonly cut: Place | null;
}

/** Voxels that are made ready at a time, between which the page answers. */
const AT_ONCE = 2 << 20;
/** Bytes of a texture, at most. */
const MOST_BYTES = 512 << 20;

/** Why a volume cannot be drawn in three dimensions, for a person. */
export class NotDrawn extends Error {}

export class Rendering {
  private texture: WebGLTexture | null = null;
  private palette: WebGLTexture | null = null;

  private constructor(
    private readonly made: Drawing,
    private readonly volume: Volume,
    private readonly scale: Scale,
  ) {}

  /**
   * A channel of the volume, every voxel of it. `usual` is the window that its numbers are made finest for. Raises
   * `NotDrawn`; null when `signal` was aborted meanwhile.
   */
  static async of(
    volume: Volume,
    channel: number,
    usual: Range,
    signal: AbortSignal,
    onProgress: (share: number) => void,
  ): Promise<Rendering | null> {
    const made = drawing();
    if (!made) throw new NotDrawn('This browser has no WebGL 2 here, so there are the planes, but nothing in 3-D.');
    const { gl } = made;
    const [fast, second, slow] = textureAxes(volume).map((axis) => volume.size[axis]) as [number, number, number];
    const most = Number(gl.getParameter(gl.MAX_3D_TEXTURE_SIZE));
    if (Math.max(fast, second, slow) > most)
      throw new NotDrawn(
        `Too long for 3-D: this graphics card takes at most ${most.toLocaleString('en-US')} voxels a side.`,
      );
    if (2 * fast * second * slow > MOST_BYTES)
      throw new NotDrawn(`Too large for 3-D: that would take more than ${MOST_BYTES >> 20} MB of the graphics card.`);
    const out = new Rendering(made, volume, scaleOf(usual));
    out.texture = gl.createTexture();
    gl.activeTexture(gl.TEXTURE0);
    gl.bindTexture(gl.TEXTURE_3D, out.texture);
    gl.texStorage3D(gl.TEXTURE_3D, 1, gl.R16F, fast, second, slow);
    if (gl.getError() === gl.OUT_OF_MEMORY) {
      out.close();
      throw new NotDrawn('The graphics card has too little memory for this volume in 3-D.');
    }
    for (const name of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_3D, name, gl.LINEAR);
    for (const name of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T, gl.TEXTURE_WRAP_R])
      gl.texParameteri(gl.TEXTURE_3D, name, gl.CLAMP_TO_EDGE);
    const count = Math.max(1, Math.floor(AT_ONCE / (fast * second)));
    for (let from = 0; from < slow; from += count) {
      const to = Math.min(slow, from + count);
      const part = layers(volume, channel, out.scale, from, to);
      gl.activeTexture(gl.TEXTURE0);
      gl.bindTexture(gl.TEXTURE_3D, out.texture);
      gl.texSubImage3D(gl.TEXTURE_3D, 0, 0, 0, from, fast, second, to - from, gl.RED, gl.HALF_FLOAT, part);
      if (to < slow) {
        onProgress(to / slow);
        await new Promise((resolve) => setTimeout(resolve));
        if (signal.aborted) {
          out.close();
          return null;
        }
      }
    }
    return out;
  }

  /** Whether the browser has taken the context away: then it has to be made anew. */
  get isLost(): boolean {
    return this.made.gl.isContextLost();
  }

  /** The picture; `fine` is how many steps of a ray there are for each voxel. It is overwritten by the next one. */
  draw(width: number, height: number, fine: number, light: boolean, shown: Shown): OffscreenCanvas {
    const { gl, canvas, at } = this.made;
    const { camera, window, opacity, cut } = shown;
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
    }
    gl.viewport(0, 0, width, height);
    gl.activeTexture(gl.TEXTURE0);
    gl.bindTexture(gl.TEXTURE_3D, this.texture);
    this.bindPalette(shown.colours);
    const [look, box] = [directions(camera), sides(this.volume)];
    const { size } = this.volume;
    const less = Math.min(width, height);
    const longest = Math.max(...size);
    gl.uniform1i(at('volume'), 0);
    gl.uniform1i(at('colours'), 1);
    gl.uniform3fv(at('right'), look.right);
    gl.uniform3fv(at('up'), look.up);
    gl.uniform3fv(at('into'), look.into);
    gl.uniform3fv(at('box'), box);
    gl.uniform3f(at('voxel'), box[0] / size[0], box[1] / size[1], box[2] / size[2]);
    gl.uniform2f(at('shape'), width / less, height / less);
    gl.uniform1f(at('reach'), reach(box, camera));
    gl.uniform2f(at('range'), this.stored(window.low), this.stored(window.high));
    gl.uniform1f(at('density'), opacity.density);
    gl.uniform1f(at('stride'), 1 / Math.min(1536, Math.max(96, fine * longest)));
    gl.uniform1f(at('light'), light && !opacity.signed ? 1 : 0);
    gl.uniform1i(at('both'), opacity.signed ? 1 : 0);
    gl.uniform1i(at('reversed'), textureAxes(this.volume)[0] === 0 ? 0 : 1);
    gl.uniform1i(at('cut'), cut ? 1 : 0);
    gl.uniform3fv(at('corner3'), cut ? pointOf(this.volume, box, cut) : [0, 0, 0]);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
    // Waits until it is drawn: only so does one know how long it took.
    gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4));
    return canvas;
  }

  close(): void {
    const { gl } = this.made;
    gl.deleteTexture(this.texture);
    gl.deleteTexture(this.palette);
    this.texture = this.palette = null;
  }

  /** A value as the texture has it. */
  private stored(value: number): number {
    return (value - this.scale.middle) / this.scale.half;
  }

  private bindPalette(colours: Uint8ClampedArray<ArrayBuffer>): void {
    const { gl } = this.made;
    this.palette ??= gl.createTexture();
    gl.activeTexture(gl.TEXTURE1);
    gl.bindTexture(gl.TEXTURE_2D, this.palette);
    const bytes = new Uint8Array(colours.buffer);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, 256, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, bytes);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.LINEAR);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE);
  }
}
